import type { OpenApi } from "./schema";

const integer = { type: "integer" };
const number = { type: "number" };
const window = { ...integer, default: 32, description: "training window" };

/** A service's description of train jobs, as the tests of the form need it. */
export const OPENAPI: OpenApi = {
  components: {
    schemas: {
      Bigram: { properties: { name: { const: "bigram", type: "string" }, seq_len: window } },
      MLP: {
        properties: {
          name: { const: "mlp", type: "string" },
          embed_dim: integer,
          hidden_dim: integer,
          seq_len: integer,
        },
      },
      GPT: {
        properties: {
          name: { const: "gpt", type: "string" },
          seq_len: integer,
          embed_dim: integer,
          num_heads: integer,
          ff_dim: integer,
          num_layers: integer,
          tied: { type: "boolean", default: false, description: "one table for both ends" },
          feed_forward: { type: "string", enum: ["gelu", "swiglu"], default: "gelu" },
        },
      },
      Train: {
        properties: {
          model: {
            oneOf: ["GPT", "Bigram", "MLP"].map((name) => ({ $ref: `#/components/schemas/${name}` })),
          },
          corpus: { $ref: "#/components/schemas/Corpus" },
          steps: integer,
          batch: integer,
          lr: number,
          optimizer: { type: "string", enum: ["adamw", "lion"], default: "adamw" },
          clip_norm: { anyOf: [number, { type: "null" }], description: "largest norm" },
          schedule: { type: "string", enum: ["constant", "cosine"] },
          warmup_steps: integer,
          seed: integer,
          eval_every: integer,
          sample_every: integer,
          checkpoint_every_s: { ...number, description: "seconds between checkpoints" },
          prompts: { type: "array" },
          publish_as: { anyOf: [{ type: "string" }, { type: "null" }] },
        },
      },
    },
  },
};
