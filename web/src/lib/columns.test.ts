import { describe, expect, it } from "vitest";
import { Column, Curve, lastAtOrBefore, lowerBound, nearest } from "./columns";

describe("Column", () => {
  it("keeps every value while it grows", () => {
    const column = new Column();
    for (let index = 0; index < 1000; index += 1) column.push(index * 0.5);
    expect(column.length).toBe(1000);
    expect([...column.view]).toEqual(Array.from({ length: 1000 }, (_, index) => index * 0.5));
    expect(column.at(1000)).toBeNaN();
  });
});

describe("search in ascending values", () => {
  const values = [1, 3, 3, 8];

  it.each([
    [0, 0, 0, -1],
    [1, 0, 0, 0],
    [2, 1, 0, 0],
    [3, 1, 1, 1],
    [6, 3, 3, 2],
    [9, 4, 3, 3],
  ])("finds the places of %d", (target, lower, near, last) => {
    expect(lowerBound(values, target)).toBe(lower);
    expect(nearest(values, target)).toBe(near);
    expect(lastAtOrBefore(values, target)).toBe(last);
  });

  it("says that nothing is in nothing", () => {
    expect(nearest([], 1)).toBe(-1);
    expect(lastAtOrBefore([], 1)).toBe(-1);
  });
});

describe("Curve", () => {
  it("ignores steps that it has", () => {
    const curve = new Curve();
    for (const step of [1, 2, 2, 1, 3]) curve.append(step, 0, step * 10);
    expect([...curve.values.view]).toEqual([10, 20, 30]);
  });

  it("goes on from an earlier step after a rewind", () => {
    const curve = new Curve();
    for (const step of [1, 2, 3, 4]) curve.append(step, 0, step);
    curve.rewind(3);
    curve.append(3, 0, -3);
    expect([...curve.steps.view]).toEqual([1, 2, 3]);
    expect(curve.values.at(2)).toBe(-3);
    expect(curve.rewinds).toBe(1);
  });
});
