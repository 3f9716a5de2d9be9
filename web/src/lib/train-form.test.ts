import { describe, expect, it } from "vitest";
import { trainForm } from "./schema";
import { OPENAPI } from "./schema.fixture";
import { fromSpec, PRESETS, requestBody } from "./train-form";

const form = trainForm(OPENAPI);
type Sent = { spec: Record<string, unknown> };

describe("the new-job form", () => {
  it.each(PRESETS.map((preset) => [preset.label, preset] as const))("sends %s as numbers and words", (_, preset) => {
    const corpus = { name: "shakespeare" };
    const { spec } = requestBody(form, preset.model, preset.values, corpus, "ROMEO:\nJULIET:\n") as Sent;
    expect(spec["prompts"]).toEqual(["ROMEO:", "JULIET:"]);
    expect(spec["lr"]).toBe(Number(preset.values["spec.lr"]));
    expect(spec["schedule"]).toBe("cosine");
    expect(spec["model"]).toMatchObject({ name: preset.model, seq_len: Number(preset.values["spec.model.seq_len"]) });
  });

  it("leaves out what was left empty", () => {
    expect(requestBody(form, "bigram", { "spec.steps": "", name: "" }, { text: "abc" }, "")).toEqual({
      kind: "train",
      spec: { model: { name: "bigram" }, corpus: { text: "abc" } },
    });
  });

  it("sends yes and no as such, and what is no number as it was written", () => {
    const values = { "spec.model.tied": "true", "spec.clip_norm": "much", "spec.batch": "8" };
    const { spec } = requestBody(form, "gpt", values, { text: "abc" }, "") as Sent;
    expect(spec).toMatchObject({ model: { name: "gpt", tied: true }, clip_norm: "much", batch: 8 });
  });

  it("fills itself from a job that it made", () => {
    for (const { model, values: preset } of PRESETS) {
      const values = { ...preset, ...(model === "gpt" ? { "spec.model.tied": "true" } : {}) };
      const { spec } = requestBody(form, model, values, { name: "shakespeare" }, "ROMEO:") as Sent;
      expect(fromSpec(form, spec)).toEqual({ model, values, corpus: { name: "shakespeare" }, prompts: "ROMEO:" });
    }
  });
});
