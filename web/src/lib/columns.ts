/** A growable column of float64 values; appending is amortised constant time. */
export class Column {
  #buffer = new Float64Array(256);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** The values so far. The view is valid until the next push. */
  get view(): Float64Array {
    return this.#buffer.subarray(0, this.#length);
  }

  at(index: number): number {
    return index >= 0 && index < this.#length ? (this.#buffer[index] as number) : NaN;
  }

  push(value: number): void {
    if (this.#length === this.#buffer.length) {
      const larger = new Float64Array(this.#buffer.length * 2);
      larger.set(this.#buffer);
      this.#buffer = larger;
    }
    this.#buffer[this.#length++] = value;
  }

  truncate(length: number): void {
    this.#length = Math.max(0, Math.min(this.#length, length));
  }
}

/** The first index whose value is not below `target`, in ascending `values`; their length if there is none. */
export function lowerBound(values: ArrayLike<number>, target: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((values[middle] as number) < target) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The index whose value lies nearest to `target`, in ascending `values`; -1 if there are none. */
export function nearest(values: ArrayLike<number>, target: number): number {
  const right = lowerBound(values, target);
  if (right === 0) return values.length ? 0 : -1;
  if (right === values.length) return right - 1;
  const distance = (index: number): number => Math.abs((values[index] as number) - target);
  return distance(right - 1) <= distance(right) ? right - 1 : right;
}

/** The last index whose value is not above `target`, in ascending `values`; -1 if there is none. */
export function lastAtOrBefore(values: ArrayLike<number>, target: number): number {
  const index = lowerBound(values, target);
  return values[index] === target ? index : index - 1;
}

/**
 * One measured quantity over the steps of a job. Steps ascend strictly; a value that was not finite is NaN.
 * `times` holds milliseconds since the epoch.
 */
export class Curve {
  readonly steps = new Column();
  readonly times = new Column();
  readonly values = new Column();
  /** Grows whenever points are taken back, so that a cache over the points knows to start again. */
  rewinds = 0;

  get length(): number {
    return this.steps.length;
  }

  get lastStep(): number {
    return this.length ? this.steps.at(this.length - 1) : -Infinity;
  }

  /** Adds a point; a step already seen is dropped, so replays change nothing. */
  append(step: number, time: number, value: number): void {
    if (step <= this.lastStep) return;
    this.steps.push(step);
    this.times.push(time);
    this.values.push(value);
  }

  /** Takes back the points at `step` and later, because an attempt resumed from before them. */
  rewind(step: number): void {
    const keep = lowerBound(this.steps.view, step);
    if (keep === this.length) return;
    this.steps.truncate(keep);
    this.times.truncate(keep);
    this.values.truncate(keep);
    this.rewinds += 1;
  }
}
