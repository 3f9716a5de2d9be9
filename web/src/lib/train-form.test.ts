import { describe, expect, it } from "vitest";
import { fromSpec, PRESETS, requestBody } from "./train-form";

describe("the new-job form", () => {
  it.each(PRESETS.map((preset) => [preset.label, preset] as const))("sends %s as numbers and words", (_, preset) => {
    const body = requestBody(preset.model, preset.values, { name: "shakespeare" }, "ROMEO:\nJULIET:\n");
    const { spec } = body as { spec: Record<string, unknown> };
    expect(spec["prompts"]).toEqual(["ROMEO:", "JULIET:"]);
    expect(spec["lr"]).toBe(Number(preset.values["spec.lr"]));
    expect(spec["schedule"]).toBe("cosine");
    expect(spec["model"]).toMatchObject({ name: preset.model, seq_len: Number(preset.values["spec.model.seq_len"]) });
  });

  it("leaves out what was left empty", () => {
    expect(requestBody("bigram", { "spec.steps": "", name: "" }, { text: "abc" }, "")).toEqual({
      kind: "train",
      spec: { model: { name: "bigram" }, corpus: { text: "abc" } },
    });
  });

  it("fills itself from a job that it made", () => {
    for (const { model, values } of PRESETS) {
      const { spec } = requestBody(model, values, { name: "shakespeare" }, "ROMEO:") as {
        spec: Record<string, unknown>;
      };
      expect(fromSpec(spec)).toEqual({ model, values, corpus: { name: "shakespeare" }, prompts: "ROMEO:" });
    }
  });
});
