/** What a compile job reports, gathered by program. */

export interface Kernel {
  kernel: string;
  /** One more than the highest level of what it reads. */
  level: number;
  nodes: readonly string[];
}

export interface Row {
  variant: string;
  threads: number | null;
  /** The quickest run and the median of all, in seconds; null where the variant was left out. */
  seconds: number | null;
  median: number | null;
  runs: number;
  /** Bytes that a run reads and writes. */
  moved: number | null;
  /** How far another library's result is from ours; null where it was not compared. */
  difference: number | null;
  /** Why the variant was left out. */
  skipped: string;
}

export interface KernelTime {
  kernel: string;
  seconds: number;
  /** The least that memory and arithmetic allow, in seconds. */
  bound: number;
}

export interface Program {
  name: string;
  graph: { nodes: number; text: string } | null;
  fusion: { kernels: readonly Kernel[]; refusals: readonly string[] } | null;
  code: { lines: number; text: string; cut: boolean } | null;
  build: { seconds: number; cached: boolean; compiler: string; moved: number; unfused: number; plan: string } | null;
  verdict: { verified: boolean; text: string } | null;
  rows: readonly Row[];
  kernels: readonly KernelTime[];
}

type Data = Record<string, unknown>;

/** The programs with one more report taken in; those that it does not touch stay the same objects. */
export function withReport(programs: readonly Program[], data: Data): Program[] {
  const name = text(data["program"]);
  const known = programs.find((program) => program.name === name);
  const next = PARTS[text(data["stage"])]?.(known ?? fresh(name), data);
  if (!next) return programs.slice();
  return known ? programs.map((program) => (program === known ? next : program)) : [...programs, next];
}

function fresh(name: string): Program {
  return { name, graph: null, fusion: null, code: null, build: null, verdict: null, rows: [], kernels: [] };
}

const PARTS: Readonly<Record<string, (program: Program, data: Data) => Program>> = {
  // The graph comes first: a program that begins again forgets what a lost attempt had said.
  graph: (program, data) => ({
    ...fresh(program.name),
    graph: { nodes: number(data["nodes"]) ?? 0, text: text(data["text"]) },
  }),
  fusion: (program, data) => ({
    ...program,
    fusion: {
      kernels: list(data["kernels"]).map((each) => ({
        kernel: text(each["kernel"]),
        level: number(each["level"]) ?? 0,
        nodes: texts(each["nodes"]),
      })),
      refusals: texts(data["refusals"]),
    },
  }),
  code: (program, data) => ({
    ...program,
    code: { lines: number(data["lines"]) ?? 0, text: text(data["text"]), cut: data["cut"] !== undefined },
  }),
  build: (program, data) => ({
    ...program,
    build: {
      seconds: number(data["seconds"]) ?? 0,
      cached: data["cached"] === true,
      compiler: text(data["compiler"]).replace(/^.*: /, ""),
      moved: number(data["moved"]) ?? 0,
      unfused: number(data["moved_unfused"]) ?? 0,
      plan: text(data["text"]),
    },
  }),
  verify: (program, data) => ({
    ...program,
    verdict: { verified: data["verified"] === true, text: text(data["text"]) },
  }),
  timing: (program, data) => ({ ...program, rows: [...program.rows, row(data)] }),
  profile: (program, data) => ({
    ...program,
    kernels: list(data["kernels"]).map((each) => ({
      kernel: text(each["kernel"]),
      seconds: number(each["seconds"]) ?? 0,
      bound: number(each["bound"]) ?? 0,
    })),
  }),
};

function row(data: Data): Row {
  return {
    variant: text(data["variant"]),
    threads: number(data["threads"]),
    seconds: number(data["seconds"]),
    median: number(data["median"]),
    runs: number(data["runs"]) ?? 0,
    moved: number(data["moved"]),
    difference: number(data["difference"]),
    skipped: text(data["skipped"]),
  };
}

/** All variants that were timed, those that every program has first. */
export function variantsOf(programs: readonly Program[]): string[] {
  const counts = new Map<string, number>();
  for (const { rows } of programs) {
    for (const variant of new Set(rows.filter((each) => each.seconds !== null).map((each) => each.variant))) {
      counts.set(variant, (counts.get(variant) ?? 0) + 1);
    }
  }
  return [...counts].sort(([, a], [, b]) => b - a).map(([variant]) => variant);
}

/** The quickest run of a variant, with whatever threads; null where it was not timed. */
export function bestOf(program: Program, variant: string): number | null {
  const times = program.rows.flatMap((each) => (each.variant === variant && each.seconds !== null ? [each.seconds] : []));
  return times.length ? Math.min(...times) : null;
}

/** Where a kernel's functions stand in generated C: the first character and the one behind the last. */
export function rangeOf(code: string, kernel: string): [number, number] | null {
  if (!/^\w+$/.test(kernel)) return null;
  const heads = [...code.matchAll(new RegExp(`^(?:static )?void ${kernel}(?:_rows)?\\(`, "gm"))];
  const [first, last] = [heads[0], heads.at(-1)];
  if (!first || !last) return null;
  const end = code.indexOf("\n}", last.index);
  return [first.index, end < 0 ? code.length : end + 2];
}

/** A short time: 12.3 µs, 4.56 ms, 1.23 s. */
export function span(seconds: number): string {
  const digits = (value: number): string => (value < 100 ? String(Number(value.toPrecision(3))) : value.toFixed(0));
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  return `${seconds.toFixed(2)} s`;
}

/** Bytes, as 12.3 MB. */
export function bytes(count: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const unit = Math.min(count < 1000 ? 0 : Math.floor(Math.log10(count) / 3), units.length - 1);
  return `${String(Number((count / 1000 ** unit).toPrecision(3)))} ${units[unit] ?? ""}`;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function list(value: unknown): Data[] {
  return Array.isArray(value) ? (value as Data[]) : [];
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
}
