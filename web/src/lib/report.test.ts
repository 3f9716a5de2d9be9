import { describe, expect, it } from "vitest";
import { bestOf, bytes, rangeOf, span, variantsOf, withReport, type Program } from "./report";

const report = (stage: string, more: Record<string, unknown> = {}, program = "") => ({ program, stage, ...more });

function gathered(...reports: Record<string, unknown>[]): Program[] {
  return reports.reduce<Program[]>((programs, each) => withReport(programs, each), []);
}

describe("withReport", () => {
  it("gathers the stages of each program", () => {
    const programs = gathered(
      report("graph", { nodes: 6, text: "targets v8" }, "one"),
      report("fusion", { kernels: [{ kernel: "kernel_0", level: 1, nodes: ["%0 = add"] }], refusals: ["why"] }, "one"),
      report("graph", { nodes: 1, text: "x" }, "two"),
      report("timing", { variant: "fused", threads: 2, seconds: 1e-3, median: 2e-3, runs: 5, moved: 8e6 }, "one"),
      report("timing", { variant: "numpy", skipped: "has no erf" }, "one"),
    );
    expect(programs.map((program) => program.name)).toEqual(["one", "two"]);
    const [one] = programs;
    expect(one?.fusion).toEqual({ kernels: [{ kernel: "kernel_0", level: 1, nodes: ["%0 = add"] }], refusals: ["why"] });
    expect(one?.rows.map((row) => [row.variant, row.seconds, row.skipped])).toEqual([
      ["fused", 1e-3, ""],
      ["numpy", null, "has no erf"],
    ]);
  });

  it("forgets what a lost attempt had said when the program begins again", () => {
    const timing = report("timing", { variant: "fused", seconds: 1 });
    const programs = gathered(report("graph"), timing, report("graph"), timing);
    expect(programs[0]?.rows).toHaveLength(1);
  });

  it("takes in nothing that it does not know, and breaks on nothing", () => {
    expect(gathered(report("later"))).toEqual([]);
    const odd = gathered(report("fusion", { kernels: 3, refusals: [1, null] }), report("build"), report("profile"));
    expect(odd[0]?.fusion).toEqual({ kernels: [], refusals: [] });
    expect(odd[0]?.kernels).toEqual([]);
  });
});

describe("variantsOf and bestOf", () => {
  it("give the columns and cells of a table of programs", () => {
    const row = (program: string, variant: string, seconds: number) => report("timing", { variant, seconds }, program);
    const [one, two] = gathered(row("one", "C: naive", 9), row("one", "fused", 2), row("one", "fused", 1), row("two", "fused", 3));
    expect(one && two && variantsOf([one, two])).toEqual(["fused", "C: naive"]);
    expect(one && bestOf(one, "fused")).toBe(1);
    expect(two && bestOf(two, "C: naive")).toBeNull();
  });
});

describe("rangeOf", () => {
  const code = "#include\n\nstatic void kernel_1_rows(int n) {\n    x;\n}\nvoid kernel_1(int n) {\n    y;\n}\nvoid kernel_10(void) {\n}\n";

  it("finds both functions of a kernel, and no other's", () => {
    const [from, to] = rangeOf(code, "kernel_1") ?? [0, 0];
    expect(code.slice(from, to)).toBe("static void kernel_1_rows(int n) {\n    x;\n}\nvoid kernel_1(int n) {\n    y;\n}");
    expect(code.slice(...(rangeOf(code, "kernel_10") ?? [0, 0]))).toBe("void kernel_10(void) {\n}");
  });

  it("finds nothing for what is not printed", () => {
    expect(rangeOf(code, "dot")).toBeNull();
    expect(rangeOf(code, "kernel_1)|(.*")).toBeNull();
  });
});

describe("span and bytes", () => {
  it("have three digits and a unit", () => {
    expect([1.234e-7, 1.5e-5, 2.54e-4, 0.0123, 0.5, 2].map(span)).toEqual([
      "0.123 µs",
      "15 µs",
      "254 µs",
      "12.3 ms",
      "500 ms",
      "2.00 s",
    ]);
    expect([0, 999, 16e6, 1.5e12, 2e15].map(bytes)).toEqual(["0 B", "999 B", "16 MB", "1.5 TB", "2000 TB"]);
  });
});
