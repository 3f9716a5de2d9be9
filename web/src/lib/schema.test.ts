import { describe, expect, it } from "vitest";
import { inFormWords, trainForm } from "./schema";
import { OPENAPI } from "./schema.fixture";
import { fieldsOf } from "./train-form";

const form = trainForm(OPENAPI);
const gpt = form.models.get("gpt");

describe("the form's fields", () => {
  it("are those of the service's schema, the usual ones first and in the form's order", () => {
    expect([...form.models.keys()]).toEqual(["gpt", "bigram", "mlp"]);
    expect(gpt?.common.map(({ label }) => label)).toEqual(["Width", "Heads", "Feed-forward width", "Layers", "Context"]);
    expect(form.training.advanced.map(({ path, label }) => [path, label])).toEqual([
      ["spec.clip_norm", "Clip norm"],
      ["spec.checkpoint_every_s", "Checkpoint every"],
    ]);
  });

  it("take choices, notes and defaults from it", () => {
    expect(gpt?.advanced).toEqual([
      {
        path: "spec.model.tied",
        label: "Tied",
        type: "boolean",
        choices: ["false", "true"],
        hint: "one table for both ends",
        standard: "false",
      },
      {
        path: "spec.model.feed_forward",
        label: "Feed forward",
        type: "choice",
        choices: ["gelu", "swiglu"],
        standard: "gelu",
      },
    ]);
    expect(form.training.common.find(({ label }) => label === "Optimiser")?.choices).toEqual(["adamw", "lion"]);
  });

  it("are called by their labels in messages", () => {
    const fields = fieldsOf(form, "gpt");
    expect(inFormWords("130: must be divisible by num_heads, which is 4", fields)).toBe(
      "130: must be divisible by Heads, which is 4",
    );
    expect(inFormWords("my_embed_dim", fields)).toBe("my_embed_dim");
  });
});
