/** The new-job form as data: its fields, its presets, and the request that follows from what was filled in. */

export interface FieldDef {
  /** The field's dotted path in the request, as problem documents name it. */
  path: string;
  label: string;
  type: "integer" | "number" | "text" | "choice";
  choices?: readonly string[];
  hint?: string;
}

const integer = (path: string, label: string, hint?: string): FieldDef => ({
  path,
  label,
  type: "integer",
  ...(hint ? { hint } : {}),
});

export const MODEL_FIELDS: Record<string, readonly FieldDef[]> = {
  gpt: [
    integer("spec.model.embed_dim", "Width"),
    integer("spec.model.num_heads", "Heads", "must divide the width"),
    integer("spec.model.ff_dim", "Feed-forward width"),
    integer("spec.model.num_layers", "Layers"),
    integer("spec.model.seq_len", "Context", "in characters"),
  ],
  mlp: [
    integer("spec.model.embed_dim", "Embedding width"),
    integer("spec.model.hidden_dim", "Hidden width"),
    integer("spec.model.seq_len", "Context", "in characters"),
  ],
  bigram: [integer("spec.model.seq_len", "Window", "in characters")],
};

export const TRAINING_FIELDS: readonly FieldDef[] = [
  integer("spec.steps", "Steps"),
  integer("spec.batch", "Batch", "windows a step"),
  { path: "spec.lr", label: "Learning rate", type: "number" },
  { path: "spec.optimizer", label: "Optimiser", type: "choice", choices: ["adam", "adamw", "sgd"] },
  { path: "spec.schedule", label: "Schedule", type: "choice", choices: ["constant", "cosine"] },
  integer("spec.warmup_steps", "Warm-up steps"),
  integer("spec.seed", "Seed"),
  integer("spec.eval_every", "Evaluate every", "steps"),
  integer("spec.sample_every", "Sample every", "steps"),
];

export type Values = Record<string, string>;

const COMMON: Values = {
  "spec.batch": "32",
  "spec.optimizer": "adamw",
  "spec.schedule": "cosine",
  "spec.warmup_steps": "100",
  "spec.seed": "42",
  "spec.eval_every": "100",
  "spec.sample_every": "100",
};

export interface Preset {
  label: string;
  note: string;
  model: string;
  values: Values;
}

export const PRESETS: readonly Preset[] = [
  {
    label: "Small GPT",
    note: "about half a million parameters",
    model: "gpt",
    values: {
      ...COMMON,
      "spec.model.embed_dim": "128",
      "spec.model.num_heads": "4",
      "spec.model.ff_dim": "256",
      "spec.model.num_layers": "4",
      "spec.model.seq_len": "32",
      "spec.steps": "3000",
      "spec.lr": "0.002",
    },
  },
  {
    label: "Tiny GPT",
    note: "learns words in a minute",
    model: "gpt",
    values: {
      ...COMMON,
      "spec.model.embed_dim": "48",
      "spec.model.num_heads": "4",
      "spec.model.ff_dim": "96",
      "spec.model.num_layers": "2",
      "spec.model.seq_len": "32",
      "spec.steps": "1500",
      "spec.lr": "0.003",
    },
  },
  {
    label: "MLP",
    note: "an embedding and one hidden layer",
    model: "mlp",
    values: {
      ...COMMON,
      "spec.model.embed_dim": "10",
      "spec.model.hidden_dim": "100",
      "spec.model.seq_len": "3",
      "spec.steps": "2000",
      "spec.lr": "0.005",
    },
  },
  {
    label: "Bigram",
    note: "one table, the simplest model",
    model: "bigram",
    values: { ...COMMON, "spec.model.seq_len": "32", "spec.steps": "500", "spec.lr": "0.05" },
  },
];

export interface Corpus {
  name?: string;
  text?: string;
  file?: string;
}

/** The body of `POST /v1/jobs`. Fields left empty are left out, so that the service's defaults hold. */
export function requestBody(model: string, values: Values, corpus: Corpus, prompts: string): object {
  const modelSpec = fill({ name: model }, MODEL_FIELDS[model] ?? [], values, "spec.model.");
  const spec: Record<string, unknown> = { model: modelSpec, corpus };
  fill(spec, TRAINING_FIELDS, values, "spec.");
  const lines = prompts.split("\n").filter((line) => line !== "");
  if (lines.length) spec["prompts"] = lines;
  if (values["spec.publish_as"]) spec["publish_as"] = values["spec.publish_as"];
  return { kind: "train", ...(values["name"] ? { name: values["name"] } : {}), spec };
}

/** What the form shows to make a job like the one that `spec` describes. */
export function fromSpec(spec: Record<string, unknown>): {
  model: string;
  values: Values;
  corpus: Corpus;
  prompts: string;
} {
  const modelSpec = (spec["model"] ?? {}) as Record<string, unknown>;
  const model = String(modelSpec["name"]);
  const corpus = (spec["corpus"] ?? {}) as Corpus;
  const values: Values = {};
  for (const { path } of [...TRAINING_FIELDS, ...(MODEL_FIELDS[model] ?? [])]) {
    const name = path.slice(path.lastIndexOf(".") + 1);
    const value = path.startsWith("spec.model.") ? modelSpec[name] : spec[name];
    if (value !== undefined && value !== null) values[path] = String(value as string | number);
  }
  const prompts = Array.isArray(spec["prompts"]) ? spec["prompts"].filter((line) => line !== "\n") : [];
  return { model, values, corpus, prompts: prompts.join("\n") };
}

function fill(
  into: Record<string, unknown>,
  fields: readonly FieldDef[],
  values: Values,
  prefix: string,
): Record<string, unknown> {
  for (const { path, type } of fields) {
    const value = values[path] ?? "";
    if (value !== "") into[path.slice(prefix.length)] = type === "choice" || type === "text" ? value : Number(value);
  }
  return into;
}
