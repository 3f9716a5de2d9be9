export type Range = [low: number, high: number];

/** Steps of 1, 2 or 5 times a power of ten that cut [low, high] into at most `count` parts. */
export function niceStep(low: number, high: number, count: number): number {
  const rough = (high - low) / Math.max(1, count);
  if (!(rough > 0) || !Number.isFinite(rough)) return 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= rough) ?? 10;
  return factor * power;
}

export function niceTicks(low: number, high: number, count: number): number[] {
  if (!Number.isFinite(high - low)) return [];
  const step = niceStep(low, high, count);
  const ticks: number[] = [];
  const first = Math.ceil(low / step - 1e-9);
  for (let k = first; k * step <= high + step * 1e-9 && ticks.length < 100; k += 1) {
    ticks.push(Number((k * step).toPrecision(12)));
  }
  return ticks;
}

/** Ticks for an axis of log10 values; returned as log10 values. Decades when there are several, else nice values. */
export function logTicks(low: number, high: number, count: number): number[] {
  if (!Number.isFinite(high - low)) return [];
  if (high - low >= 2) {
    const every = Math.max(1, Math.ceil((high - low) / Math.max(1, count)));
    const first = Math.ceil(low - 1e-9);
    const ticks: number[] = [];
    for (let k = first; k <= high + 1e-9; k += every) ticks.push(k);
    return ticks;
  }
  return niceTicks(10 ** low, 10 ** high, count)
    .filter((value) => value > 0)
    .map((value) => Math.log10(value));
}

/** The range that shows [low, high] with a margin; never empty, whatever comes in. */
export function padded(low: number, high: number, margin = 0.06): Range {
  if (!Number.isFinite(low) || !Number.isFinite(high) || low > high) return [0, 1];
  const span = high - low;
  if (span <= Math.abs(high) * 1e-12) {
    const half = Math.abs(high) * 0.05 || 0.5;
    return [low - half, high + half];
  }
  return [low - span * margin, high + span * margin];
}
