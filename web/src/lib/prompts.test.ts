import { describe, expect, it } from "vitest";
import { opening, promptFor, promptOf } from "./prompts";

describe("the opening of a text", () => {
  it.each([
    ["\n \nto be\nor not", "to be"],
    ["the quick brown fox jumps over the lazy dog", "the quick brown fox"],
    ["a".repeat(100), "a".repeat(24)],
    ["Windows\r\nlines", "Windows"],
    ["\n\n", ""],
    ["", ""],
  ])("%j begins with %j", (text, words) => {
    expect(opening(text)).toBe(words);
  });

  it("holds only characters of the text", () => {
    const text = "  spaces before what is a long first line of a text";
    expect(text).toContain(opening(text));
  });
});

describe("a prompt for a model", () => {
  it("is one that its job tried, else one of its corpus", () => {
    expect(promptFor({ prompts: ["to be"], corpus: { blob: "…" } })).toBe("to be");
    expect(promptFor({ prompts: ["\n"], corpus: { name: "tinyshakespeare" } })).toBe("ROMEO:");
    expect(promptFor({ prompts: ["\n"], corpus: { blob: "…" } })).toBe("");
    expect(promptFor({})).toBe("");
    expect(promptOf("shakespeare")).toBe("ROMEO:");
  });
});
