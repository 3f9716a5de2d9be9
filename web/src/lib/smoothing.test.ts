import { describe, expect, it } from "vitest";
import { Curve } from "./columns";
import { Smoothing } from "./smoothing";

function curveOf(values: number[]): Curve {
  const curve = new Curve();
  values.forEach((value, index) => {
    curve.append(index + 1, 0, value);
  });
  return curve;
}

describe("Smoothing", () => {
  it("leaves a constant constant", () => {
    for (const value of new Smoothing(curveOf(Array<number>(500).fill(3)), 0.99).update()) {
      expect(value).toBeCloseTo(3, 10);
    }
  });

  it("does not change what it has said when more comes", () => {
    const curve = curveOf([4, 3, 5, 2]);
    const smoothing = new Smoothing(curve, 0.9);
    const before = [...smoothing.update()];
    curve.append(5, 0, 100);
    expect([...smoothing.update()].slice(0, 4)).toEqual(before);
  });

  it("equals the weighted mean that defines it", () => {
    const values = [4, 3, 5, 2, 9];
    const factor = 0.8;
    const weights = values.map((_, index) => factor ** (values.length - 1 - index));
    const mean =
      values.reduce((sum, value, index) => sum + value * (weights[index] as number), 0) /
      weights.reduce((sum, weight) => sum + weight, 0);
    expect(new Smoothing(curveOf(values), factor).update().at(-1)).toBeCloseTo(mean, 12);
  });

  it("passes over what is not finite", () => {
    const [first, second, third] = new Smoothing(curveOf([2, NaN, 2]), 0.5).update();
    expect([first, third]).toEqual([2, 2]);
    expect(second).toBeNaN();
  });

  it("starts again when its curve was rewound", () => {
    const curve = curveOf([1, 2, 3, 4]);
    const smoothing = new Smoothing(curve, 0.5);
    smoothing.update();
    curve.rewind(3);
    curve.append(3, 0, 9);
    expect([...smoothing.update()]).toEqual([...new Smoothing(curveOf([1, 2, 9]), 0.5).update()]);
  });
});
