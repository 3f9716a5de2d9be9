import { lowerBound } from "./columns";

export interface Points {
  x: number[];
  y: (number | null)[];
}

/**
 * Thins a line to at most four points a bucket (first, lowest, highest, last): drawn at one bucket a pixel it
 * looks the same as the whole line (M4; Jugel et al., 2014). NaN becomes one `null` per run, a gap.
 * One point on each side of [from, to] is kept, so that the line reaches the edges.
 */
export function thin(
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  from: number,
  to: number,
  buckets: number,
): Points {
  const start = Math.max(0, lowerBound(x, from) - 1);
  const stop = Math.min(x.length, lowerBound(x, to) + 2);
  const out: Points = { x: [], y: [] };
  const width = (to - from) / Math.max(1, buckets);
  const bucketOf = (index: number): number =>
    width > 0 ? Math.floor(((x[index] as number) - from) / width) : 0;

  let index = start;
  while (index < stop) {
    if (Number.isNaN(y[index] as number)) {
      if (out.y[out.y.length - 1] !== null) push(out, x[index] as number, null);
      index += 1;
      continue;
    }
    const bucket = bucketOf(index);
    const first = index;
    let low = index;
    let high = index;
    while (index < stop && bucketOf(index) === bucket && !Number.isNaN(y[index] as number)) {
      if ((y[index] as number) < (y[low] as number)) low = index;
      if ((y[index] as number) > (y[high] as number)) high = index;
      index += 1;
    }
    let previous = -1;
    for (const kept of [first, Math.min(low, high), Math.max(low, high), index - 1]) {
      if (kept > previous) push(out, x[kept] as number, y[kept] as number);
      previous = Math.max(previous, kept);
    }
  }
  return out;
}

function push(out: Points, x: number, y: number | null): void {
  out.x.push(x);
  out.y.push(y);
}
