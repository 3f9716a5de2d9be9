import { Column, type Curve } from "./columns";

/**
 * Debiased exponential moving average of a curve, updated only by what is new: m ← f·m + (1−f)·y,
 * shown as m / (1 − fⁿ), so that a constant stays constant and the start does not lag.
 * A value that is not finite is passed through as NaN and leaves the average as it was.
 */
export class Smoothing {
  readonly values = new Column();
  #mean = 0;
  #weight = 1;
  #rewinds = 0;

  constructor(
    readonly curve: Curve,
    readonly factor: number,
  ) {}

  update(): Float64Array {
    if (this.#rewinds !== this.curve.rewinds) this.#restart();
    for (let index = this.values.length; index < this.curve.length; index += 1) {
      this.values.push(this.#next(this.curve.values.at(index)));
    }
    return this.values.view;
  }

  #restart(): void {
    this.values.truncate(0);
    this.#mean = 0;
    this.#weight = 1;
    this.#rewinds = this.curve.rewinds;
  }

  #next(value: number): number {
    if (!Number.isFinite(value)) return NaN;
    this.#mean = this.factor * this.#mean + (1 - this.factor) * value;
    this.#weight *= this.factor;
    return this.#mean / (1 - this.#weight);
  }
}
