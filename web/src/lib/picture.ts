import type { Points } from "./downsample";
import { padded, type Range } from "./scale";

/** A line of a chart. `colour` names a CSS custom property, so that themes decide. */
export interface Line {
  label: string;
  colour: string;
  width: number;
  opacity?: number;
  dash?: number[];
  /** Sparse measurements: points are drawn, and missing values do not break the line. */
  sparse?: boolean;
  /** The values follow from another line's, so what a scale hides of them is not counted. */
  derived?: boolean;
  /** Says the line's name at its right end. */
  named?: boolean;
  x: ArrayLike<number>;
  y: ArrayLike<number>;
}

export type MarkKind = "not finite" | "resumed" | "sample" | "best";

export interface Mark {
  kind: MarkKind;
  x: number;
  y?: number;
}

export interface Picture {
  lines: Line[];
  marks: Mark[];
  log: boolean;
  /** The part of the x axis that is shown; null is all. */
  zoom: Range | null;
  cursor: number | null;
}

/** The x axis when nothing is zoomed: from 0 to the last point or mark. */
export function fullRange(picture: Picture): Range {
  let high = -Infinity;
  for (const { x } of picture.lines) if (x.length) high = Math.max(high, x[x.length - 1] as number);
  for (const mark of picture.marks) high = Math.max(high, mark.x);
  return high > 0 ? [0, high] : [0, 1];
}

/** The y axis that holds every finite value. */
export function yRange(lines: Points[]): Range {
  let low = Infinity;
  let high = -Infinity;
  for (const { y } of lines) {
    for (const value of y) {
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return padded(low, high);
}
