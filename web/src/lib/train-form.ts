/** The new-job form's presets, and the request that follows from what was filled in. */

import type { FieldDef, TrainForm } from "./schema";

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

/** Every field of the form for a model. */
export function fieldsOf(form: TrainForm, model: string): FieldDef[] {
  const groups = [form.models.get(model), form.training];
  return groups.flatMap((group) => [...(group?.common ?? []), ...(group?.advanced ?? [])]);
}

/** The body of `POST /v1/jobs`. Fields left empty are left out, so that the service's defaults hold. */
export function requestBody(form: TrainForm, model: string, values: Values, corpus: Corpus, prompts: string): object {
  const modelSpec: Record<string, unknown> = { name: model };
  const spec: Record<string, unknown> = { model: modelSpec, corpus };
  for (const field of fieldsOf(form, model)) {
    const { into, name } = place(field, modelSpec, spec);
    const value = values[field.path] ?? "";
    if (value !== "") into[name] = parse(field, value);
  }
  const lines = prompts.split("\n").filter((line) => line !== "");
  if (lines.length) spec["prompts"] = lines;
  if (values["spec.publish_as"]) spec["publish_as"] = values["spec.publish_as"];
  return { kind: "train", ...(values["name"] ? { name: values["name"] } : {}), spec };
}

/** What the form shows to make a job like the one that `spec` describes. */
export function fromSpec(
  form: TrainForm,
  spec: Record<string, unknown>,
): { model: string; values: Values; corpus: Corpus; prompts: string } {
  const modelSpec = (spec["model"] ?? {}) as Record<string, unknown>;
  const model = String(modelSpec["name"]);
  const values: Values = {};
  for (const field of fieldsOf(form, model)) {
    const { into, name } = place(field, modelSpec, spec);
    const value = into[name];
    if (value !== undefined && value !== null) values[field.path] = String(value as string | number | boolean);
  }
  const prompts = Array.isArray(spec["prompts"]) ? spec["prompts"].filter((line) => line !== "\n") : [];
  return { model, values, corpus: (spec["corpus"] ?? {}) as Corpus, prompts: prompts.join("\n") };
}

type Part = Record<string, unknown>;

/** The part of the request that a field belongs to, and its name there. */
function place({ path }: FieldDef, model: Part, spec: Part): { into: Part; name: string } {
  return { into: path.startsWith("spec.model.") ? model : spec, name: path.slice(path.lastIndexOf(".") + 1) };
}

function parse({ type }: FieldDef, value: string): unknown {
  if (type === "boolean") return value === "true";
  if (type === "choice" || type === "text") return value;
  const number = Number(value);
  return Number.isNaN(number) ? value : number; // what is no number is the service's to refuse
}
