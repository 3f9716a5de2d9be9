/** What a price job says and leaves behind, and the examples that its form begins with. */

export interface Estimate {
  n: number;
  price: number;
  se: number;
}

export interface Greek {
  value: number | null;
  se: number;
  method: string;
  unit: string;
}

export interface Exact {
  value: number;
  method: string;
  source: string;
}

export interface Answer {
  kind: string;
  price?: number;
  se?: number;
  ci95?: [number, number] | null;
  n_paths?: number;
  method?: string;
  bias?: string;
  closed_form?: Exact | null;
  z?: number | null;
  greeks?: Record<string, Greek>;
  convergence?: Estimate[];
  charts?: Charts;
  warnings?: string[];
  /** Of an implied volatility. */
  value?: number;
  roots?: number[];
  /** Of a contract without a price. */
  message?: string;
}

export interface Charts {
  fan: { times: number[]; quantiles: Record<string, number[]>; paths: number[][] };
  payoffs: { low: number; high: number; counts: number[] };
  paths: number;
}

/** What the events of a job have told of its contracts: running estimates of each, and answers. */
export interface Told {
  estimates: ReadonlyMap<number, readonly Estimate[]>;
  answers: ReadonlyMap<number, Answer>;
}

export const NOTHING: Told = { estimates: new Map(), answers: new Map() };

/** What was told with one more report taken in; one with fewer paths than before begins a new attempt. */
export function withEstimate(told: Told, data: Record<string, unknown>): Told {
  const contract = Number(data["contract"]);
  const answer = data["answer"];
  if (typeof answer === "object" && answer !== null) {
    return { ...told, answers: new Map(told.answers).set(contract, answer as Answer) };
  }
  const { n, price, se } = data;
  if (typeof n !== "number" || typeof price !== "number" || typeof se !== "number") return told;
  const earlier = (told.estimates.get(contract) ?? []).filter((estimate) => estimate.n < n);
  return { ...told, estimates: new Map(told.estimates).set(contract, [...earlier, { n, price, se }]) };
}

export interface Example {
  label: string;
  note: string;
  contract: Record<string, unknown>;
}

const BASE = { type: "call", S: 100, K: 100, T: 1, r: 0.05, q: 0, vol: 0.2 };
const MC = { paths: 200_000, seed: 4 };

export const EXAMPLES: readonly Example[] = [
  {
    label: "Arithmetic Asian",
    note: "50 fixings, a geometric control",
    contract: {
      instrument: "asian",
      ...BASE,
      averaging: { kind: "arithmetic", n: 50 },
      greeks: ["delta", "vega", "rho"],
      mc: MC,
      convergence: true,
    },
  },
  {
    label: "Barrier",
    note: "up and out, watched always",
    contract: {
      instrument: "barrier",
      ...BASE,
      barrier: { level: 130, type: "up-out" },
      monitoring: { kind: "continuous" },
      greeks: ["delta", "vega"],
      mc: MC,
      convergence: true,
    },
  },
  {
    label: "American put",
    note: "least squares, 50 dates",
    contract: {
      instrument: "american",
      ...BASE,
      type: "put",
      greeks: ["delta"],
      mc: { paths: 100_000, seed: 1 },
      convergence: true,
    },
  },
  {
    label: "A payoff of your own",
    note: "an expression over the path",
    contract: {
      instrument: "custom",
      S: 100,
      T: 1,
      r: 0.05,
      vol: 0.2,
      payoff: "max(mean(S) - K, 0) * (max(S) < B)",
      constants: { K: 100, B: 140 },
      monitoring: { kind: "discrete", n: 50 },
      mc: MC,
      convergence: true,
    },
  },
];

/** The contract that a text spells, or what is wrong with it. */
export function readContract(text: string): { contract: Record<string, unknown> } | { mistake: string } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { mistake: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { mistake: "A contract is an object: { … }" };
  }
  return { contract: value as Record<string, unknown> };
}

/** The body of `POST /v1/jobs`. */
export function requestBody(contract: Record<string, unknown>, name: string): object {
  return { kind: "price", ...(name ? { name } : {}), spec: { contract } };
}

/** The contract of a job's spec, as the form shows it; null where it has many. */
export function fromSpec(spec: Record<string, unknown>): Record<string, unknown> | null {
  const { contract } = spec;
  return typeof contract === "object" && contract !== null ? (contract as Record<string, unknown>) : null;
}
