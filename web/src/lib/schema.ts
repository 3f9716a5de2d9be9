/** The fields of the training form, read from the service's own description of a train job. */

export interface FieldDef {
  /** The field's dotted path in the request, as problem documents name it. */
  path: string;
  label: string;
  type: "integer" | "number" | "text" | "boolean" | "choice";
  choices?: readonly string[];
  hint?: string;
  /** What holds where the field is left empty. */
  standard?: string;
}

/** The fields of one part of the form: those that most jobs set, and the others, which stay folded. */
export interface FieldGroup {
  common: readonly FieldDef[];
  advanced: readonly FieldDef[];
}

export interface TrainForm {
  models: ReadonlyMap<string, FieldGroup>;
  training: FieldGroup;
}

/** A JSON schema, as far as the form reads it. */
interface Schema {
  $ref?: string;
  type?: string;
  const?: string;
  enum?: string[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  default?: unknown;
  description?: string;
  properties?: Record<string, Schema>;
}

export interface OpenApi {
  components: { schemas: Record<string, Schema> };
}

/** Names and notes where the schema's own would be harder to read; the order is that of the form. */
const COMMON: Readonly<Record<string, readonly [label: string, hint?: string]>> = {
  embed_dim: ["Width"],
  num_heads: ["Heads", "must divide the width"],
  ff_dim: ["Feed-forward width"],
  hidden_dim: ["Hidden width"],
  num_layers: ["Layers"],
  seq_len: ["Context", "in characters"],
  steps: ["Steps"],
  batch: ["Batch", "windows a step"],
  lr: ["Learning rate"],
  optimizer: ["Optimiser"],
  schedule: ["Schedule"],
  warmup_steps: ["Warm-up steps"],
  seed: ["Seed"],
  eval_every: ["Evaluate every", "steps"],
  sample_every: ["Sample every", "steps"],
};
const TYPES: Readonly<Record<string, FieldDef["type"]>> = { integer: "integer", number: "number", boolean: "boolean" };

/** Each model's fields and those of the training, from the OpenAPI document. */
export function trainForm({ components: { schemas } }: OpenApi): TrainForm {
  const resolve = (schema: Schema | undefined): Schema =>
    schema?.$ref ? (schemas[schema.$ref.slice(schema.$ref.lastIndexOf("/") + 1)] ?? {}) : (schema ?? {});
  const train = resolve({ $ref: "Train" });
  const models = (train.properties?.["model"]?.oneOf ?? []).map(resolve);
  return {
    models: new Map(models.map((model) => [model.properties?.["name"]?.const ?? "", group(model, "spec.model.")])),
    training: group(train, "spec."),
  };
}

function group(schema: Schema, prefix: string): FieldGroup {
  const fields = Object.entries(schema.properties ?? {}).flatMap(([name, property]) => field(prefix, name, property));
  const ranks = new Map(Object.keys(COMMON).map((name, rank) => [prefix + name, rank]));
  const rank = ({ path }: FieldDef): number => ranks.get(path) ?? Infinity;
  return {
    common: fields.filter((each) => rank(each) < Infinity).sort((a, b) => rank(a) - rank(b)),
    advanced: fields.filter((each) => rank(each) === Infinity),
  };
}

/** The field of a property, or none where the form asks for it in another way. */
function field(prefix: string, name: string, property: Schema): FieldDef[] {
  const schema = property.anyOf?.find(({ type }) => type !== "null") ?? property;
  const type = schema.enum ? "choice" : TYPES[schema.type ?? ""];
  if (!type) return [];
  const [label, hint] = COMMON[name] ?? [words(name), property.description];
  const standard = property.default ?? undefined;
  return [
    {
      path: prefix + name,
      label,
      type,
      ...(type === "boolean" ? { choices: ["false", "true"] } : {}),
      ...(schema.enum ? { choices: schema.enum } : {}),
      ...(hint ? { hint } : {}),
      ...(standard === undefined ? {} : { standard: String(standard as string | number | boolean) }),
    },
  ];
}

function words(name: string): string {
  const spaced = name.replace(/_s$/, "").replaceAll("_", " "); // that _s is seconds is in the description
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

/** A message that names a request's fields, with the names that the form gives them. */
export function inFormWords(message: string, fields: readonly FieldDef[]): string {
  return fields.reduce((text, { path, label }) => {
    const name = path.slice(path.lastIndexOf(".") + 1);
    return name.includes("_") ? text.replaceAll(new RegExp(`\\b${name}\\b`, "g"), label) : text;
  }, message);
}
