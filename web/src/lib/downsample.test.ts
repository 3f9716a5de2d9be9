import { describe, expect, it } from "vitest";
import { thin } from "./downsample";

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

describe("thin", () => {
  it("keeps the extremes of every bucket and the ends", () => {
    const x = range(10_000);
    const y = x.map((value) => Math.sin(value) + (value === 4321 ? 50 : 0) - (value === 8765 ? 50 : 0));
    const out = thin(x, y, 0, 9999, 100);
    expect(out.x.length).toBeLessThanOrEqual(404);
    expect(out.x[0]).toBe(0);
    expect(out.x.at(-1)).toBe(9999);
    expect(out.x).toContain(4321);
    expect(out.x).toContain(8765);
    expect(out.x).toEqual([...out.x].sort((a, b) => a - b));
  });

  it("returns a short line as it is", () => {
    expect(thin([1, 2, 3], [5, 4, 6], 1, 3, 500)).toEqual({ x: [1, 2, 3], y: [5, 4, 6] });
  });

  it("turns each run of NaN into one gap", () => {
    const out = thin(range(8), [1, NaN, NaN, 2, NaN, 3, 3, 3], 0, 7, 700);
    expect(out.y).toEqual([1, null, 2, null, 3, 3, 3]);
  });

  it("keeps a neighbour on each side of the range", () => {
    const out = thin(range(100), range(100), 40, 50, 1000);
    expect(out.x[0]).toBe(39);
    expect(out.x.at(-1)).toBe(51);
  });

  it("accepts nothing, one point and an empty range", () => {
    expect(thin([], [], 0, 1, 10)).toEqual({ x: [], y: [] });
    expect(thin([3], [7], 3, 3, 10)).toEqual({ x: [3], y: [7] });
  });
});
