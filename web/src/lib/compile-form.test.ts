import { describe, expect, it } from "vitest";
import { EXAMPLES, fromSpec, requestBody, unnamed } from "./compile-form";

const [chain] = EXAMPLES;

describe("requestBody", () => {
  it("writes an expression with its inputs", () => {
    expect(chain && requestBody(chain.program, "mine")).toEqual({
      kind: "compile",
      name: "mine",
      spec: {
        expression: "relu(a + b) * c",
        inputs: {
          a: { shape: [1000, 1000], dtype: "float32" },
          b: { shape: [1000, 1000], dtype: "float32" },
          c: { shape: [1000, 1000], dtype: "float32" },
        },
        gradients: false,
        peers: true,
      },
    });
  });

  it("writes a preset alone", () => {
    const preset = { expression: "x", inputs: [], preset: "forge", gradients: false, peers: false };
    expect(requestBody(preset, "")).toEqual({ kind: "compile", spec: { preset: "forge", gradients: false, peers: false } });
  });

  it("leaves what is no size for the service to refuse", () => {
    const inputs = [{ name: "a", dtype: "float32", shape: "3 x 4, many -1" }];
    const body = requestBody({ expression: "a", inputs, preset: "", gradients: false, peers: true }, "");
    expect(body).toMatchObject({ spec: { inputs: { a: { shape: [3, 4, "many", "-1"] } } } });
  });
});

describe("fromSpec", () => {
  it("is the way back", () => {
    for (const { program } of EXAMPLES) {
      const { spec } = requestBody(program, "") as { spec: Record<string, unknown> };
      expect(fromSpec(spec)).toEqual(program);
    }
  });

  it("knows that a graph can't be shown", () => {
    expect(fromSpec({ graph: {}, expression: null })).toBeNull();
  });
});

describe("unnamed", () => {
  it("finds names, not functions and options", () => {
    const inputs = [{ name: "a", dtype: "float32", shape: "" }];
    expect(unnamed("softmax(a @ w + b, axis=-1) * sum(w, keepdims=True)", inputs)).toEqual(["w", "b"]);
    expect(unnamed("1e5 + relu (x) + (y == z)", [])).toEqual(["x", "y", "z"]);
  });
});
