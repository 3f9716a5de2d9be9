/** The compile page's examples, and the request that follows from what was filled in. */

export const DTYPES = ["float32", "float64", "bfloat16", "int32", "int64", "uint32", "bool"] as const;

export interface InputRow {
  name: string;
  dtype: string;
  /** Sizes as they were typed, such as 1000, 1000. */
  shape: string;
}

export interface Program {
  expression: string;
  inputs: readonly InputRow[];
  preset: string;
  gradients: boolean;
  /** Whether NumPy and torch are timed beside it. */
  peers: boolean;
}

export interface Example {
  label: string;
  note: string;
  program: Program;
}

const f32 = (name: string, shape: string): InputRow => ({ name, dtype: "float32", shape });

export const EXAMPLES: readonly Example[] = [
  {
    label: "A chain",
    note: "three operations, one kernel",
    program: {
      expression: "relu(a + b) * c",
      inputs: [f32("a", "1000, 1000"), f32("b", "1000, 1000"), f32("c", "1000, 1000")],
      preset: "",
      gradients: false,
      peers: true,
    },
  },
  {
    label: "Softmax",
    note: "two reductions over rows",
    program: { expression: "softmax(x)", inputs: [f32("x", "4096, 256")], preset: "", gradients: false, peers: true },
  },
  {
    label: "A training loss",
    note: "with the gradients of its weights",
    program: {
      expression: "mean((tanh(x @ w + b) - y) ** 2)",
      inputs: [f32("x", "256, 128"), f32("w", "128, 64"), f32("b", "64"), f32("y", "256, 64")],
      preset: "",
      gradients: true,
      peers: true,
    },
  },
  {
    label: "Benchmarks",
    note: "fusion, products and a perceptron",
    program: { expression: "", inputs: [], preset: "forge", gradients: false, peers: true },
  },
];

/** The body of `POST /v1/jobs`. Sizes that are no numbers are sent as they are, for the service to refuse. */
export function requestBody(program: Program, name: string): object {
  const { expression, inputs, preset, gradients, peers } = program;
  const spec = preset
    ? { preset, gradients, peers }
    : {
        expression,
        inputs: Object.fromEntries(inputs.map((row) => [row.name, { shape: sizes(row.shape), dtype: row.dtype }])),
        gradients,
        peers,
      };
  return { kind: "compile", ...(name ? { name } : {}), spec };
}

function sizes(typed: string): (number | string)[] {
  const words = typed.split(/[\s,×x*]+/).filter((word) => word !== "");
  return words.map((word) => (/^\d+$/.test(word) ? Number(word) : word));
}

/** What the form shows to make a job like the one that `spec` describes; null for a graph, which it can't show. */
export function fromSpec(spec: Record<string, unknown>): Program | null {
  const { expression, inputs, preset, gradients, peers } = spec;
  const shown = { gradients: gradients === true, peers: peers !== false, preset: typeof preset === "string" ? preset : "" };
  if (shown.preset) return { ...shown, expression: "", inputs: [] };
  if (typeof expression !== "string") return null;
  const rows = Object.entries((inputs ?? {}) as Record<string, { shape: number[]; dtype: string }>);
  return {
    ...shown,
    expression,
    inputs: rows.map(([name, { shape, dtype }]) => ({ name, dtype, shape: shape.join(", ") })),
  };
}

/** The names that an expression seems to read and that no row gives yet. */
export function unnamed(expression: string, inputs: readonly InputRow[]): string[] {
  const given = new Set(inputs.map((row) => row.name));
  const found = expression.matchAll(/(?<![\w.])[A-Za-z_]\w*(?!\w*\s*(?:\(|=(?!=)))/g);
  const names = [...found].map(([name]) => name).filter((name) => !given.has(name) && !/^(True|False)$/.test(name));
  return [...new Set(names)];
}
