import { describe, expect, it } from "vitest";
import { ACTIONS, titleOf } from "./job";
import { STATES, TERMINAL } from "./types";

describe("a job's title", () => {
  it("is its name, else its model's, else says that there is none", () => {
    expect(titleOf({ name: "Mine", spec: { publish_as: "bard" } })).toBe("Mine");
    expect(titleOf({ name: null, spec: { publish_as: "bard" } })).toBe("bard");
    expect(titleOf({ name: "", spec: { publish_as: null } })).toBe("Untitled");
    expect(titleOf({ name: null, spec: { expression: "a + b", preset: null } })).toBe("a + b");
    expect(titleOf({ name: null, spec: { contract: { instrument: "asian" } } })).toBe("asian");
    expect(titleOf({ name: "a".repeat(9), spec: {} }, 3)).toBe("aaa…");
  });
});

describe("what can be asked of a job", () => {
  it("deletes what has ended, and cancels only what has not", () => {
    for (const state of STATES) {
      expect(ACTIONS[state].includes("delete")).toBe(TERMINAL.has(state));
      if (TERMINAL.has(state)) expect(ACTIONS[state]).not.toContain("cancel");
    }
  });
});
