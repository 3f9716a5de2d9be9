import { describe, expect, it } from "vitest";
import { logTicks, niceTicks, padded } from "./scale";

describe("ticks", () => {
  it("are round numbers inside the range", () => {
    expect(niceTicks(0, 10, 5)).toEqual([0, 2, 4, 6, 8, 10]);
    expect(niceTicks(1.37, 4.62, 4)).toEqual([2, 3, 4]);
  });

  it("stay few for ranges that are hard", () => {
    for (const [low, high] of [
      [0, 0],
      [1, 1],
      [-5, -5],
      [0, Infinity],
      [NaN, NaN],
      [1e308, 1.7e308],
      [1, 1 + 1e-15],
    ] as const) {
      expect(niceTicks(low, high, 5).length).toBeLessThanOrEqual(100);
      expect(logTicks(low, high, 5).length).toBeLessThanOrEqual(400);
    }
  });

  it("on a log axis are decades, or round values within one", () => {
    expect(logTicks(-3, 2, 10)).toEqual([-3, -2, -1, 0, 1, 2]);
    expect(logTicks(Math.log10(1.5), Math.log10(4.5), 4).map((value) => Math.round(10 ** value))).toEqual([2, 3, 4]);
  });
});

describe("padded", () => {
  it("is never empty", () => {
    for (const [low, high] of [
      [0, 0],
      [3, 3],
      [-2, -2],
      [Infinity, -Infinity],
      [NaN, 1],
      [1e-300, 1e-300],
    ] as const) {
      const [from, to] = padded(low, high);
      expect(from).toBeLessThan(to);
    }
  });

  it("surrounds the range", () => {
    const [from, to] = padded(1, 4);
    expect(from).toBeLessThan(1);
    expect(to).toBeGreaterThan(4);
  });
});
