import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { lowerBound } from "./columns";
import { thin, type Points } from "./downsample";
import { tick } from "./format";
import { logTicks, niceTicks, padded, type Range } from "./scale";

/** A line of a chart. `colour` names a CSS custom property, so that themes decide. */
export interface Line {
  label: string;
  colour: string;
  width: number;
  opacity?: number;
  dash?: number[];
  /** Sparse measurements: points are drawn, and missing values do not break the line. */
  sparse?: boolean;
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

export interface PlotEvents {
  /** The mouse is over x; null when it has left. */
  onHover: (x: number | null) => void;
  /** x was clicked or touched. */
  onPick: (x: number) => void;
  /** A part of the x axis was selected by dragging. */
  onSelect: (range: Range) => void;
  xTick: (value: number) => string;
}

const NAME_ROOM = 44;
const PADDING = { top: 14, left: 4 };
const FONT_SIZE = 11;

/** Draws pictures with uPlot, which nothing else imports. Values on a log axis are handed over as log10. */
export class Plot {
  #plot: uPlot;
  #picture: Picture;
  #points: Points[] = [];
  #moving = false;
  #pressedAt = NaN;
  /** Values that the log scale cannot show. */
  hidden = 0;

  constructor(
    readonly target: HTMLElement,
    readonly height: number,
    first: Picture,
    readonly events: PlotEvents,
  ) {
    this.#picture = first;
    this.#plot = new uPlot(this.#options(first), [[], ...first.lines.map(() => [])] as uPlot.AlignedData, target);
    this.#listen();
    this.draw(first);
  }

  /** True when `picture` has the same lines in the same style, so that this plot can draw it. */
  fits(picture: Picture): boolean {
    const style = (line: Line): string => `${line.label} ${line.colour} ${String(line.width)}`;
    const now = this.#picture.lines;
    return (
      now.length === picture.lines.length &&
      now.every((line, index) => style(line) === style(picture.lines[index] as Line))
    );
  }

  draw(picture: Picture): void {
    this.#picture = picture;
    const [from, to] = picture.zoom ?? fullRange(picture);
    this.hidden = 0;
    this.#points = picture.lines.map((line) => this.#thinned(line, from, to));
    const tables = this.#points.map((points) => [points.x, points.y] as uPlot.AlignedData);
    const [low, high] = yRange(this.#points);
    this.#plot.batch(() => {
      this.#plot.setData(uPlot.join(tables), false);
      this.#plot.setScale("x", { min: from, max: to });
      this.#plot.setScale("y", { min: low, max: high });
    });
    this.moveCursor(picture.cursor);
  }

  moveCursor(x: number | null): void {
    this.#picture.cursor = x;
    const left = x === null ? -10 : this.#plot.valToPos(x, "x");
    const inside = left >= 0 && left <= this.#plot.over.clientWidth;
    this.#moving = true;
    this.#plot.setCursor({ left: inside ? left : -10, top: inside ? 10 : -10 });
    this.#moving = false;
  }

  resize(width: number): void {
    if (width === this.#plot.width) return;
    this.#plot.setSize({ width, height: this.height });
    this.draw(this.#picture);
  }

  destroy(): void {
    this.#plot.destroy();
  }

  #thinned(line: Line, from: number, to: number): Points {
    const y = this.#picture.log ? this.#logged(line, from, to) : line.y;
    const buckets = this.#plot.over.clientWidth || this.#plot.width;
    const points = thin(line.x, y, from, to, buckets);
    if (!line.sparse) return points;
    const kept = points.y.map((value) => value !== null);
    return { x: points.x.filter((_, index) => kept[index]), y: points.y.filter((_, index) => kept[index]) };
  }

  #logged(line: Line, from: number, to: number): Float64Array {
    const out = new Float64Array(line.y.length);
    const last = Math.min(line.y.length, lowerBound(line.x, to) + 2);
    for (let index = Math.max(0, lowerBound(line.x, from) - 1); index < last; index += 1) {
      const value = line.y[index] as number;
      out[index] = value > 0 ? Math.log10(value) : NaN;
      if (value <= 0) this.hidden += 1;
    }
    return out;
  }

  #options(picture: Picture): uPlot.Options {
    const style = getComputedStyle(this.target);
    const colour = (name: string): string => style.getPropertyValue(name).trim();
    const axis = {
      stroke: colour("--muted"),
      font: `${String(FONT_SIZE)}px ${style.fontFamily}`,
      ticks: { show: false },
      grid: { stroke: colour("--grid"), width: 1 },
      border: { show: false },
    };
    return {
      width: Math.max(120, this.target.clientWidth),
      height: this.height,
      padding: [PADDING.top, picture.lines.some((line) => line.named) ? NAME_ROOM : 12, 0, PADDING.left],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: true, y: false, setScale: false },
        points: { size: 7, width: 2 },
        dataIdx: (plot, series, closest) => nearestValue(plot.data[series] ?? [], closest),
      },
      scales: { x: { time: false, auto: false }, y: { auto: false } },
      axes: [
        {
          ...axis,
          size: 28,
          splits: (plot, _axis, low, high) => niceTicks(low, high, plot.width / 90),
          values: (_plot, splits) => splits.map((value) => this.events.xTick(value)),
        },
        {
          ...axis,
          size: 46,
          splits: (_plot, _axis, low, high) =>
            (this.#picture.log ? logTicks : niceTicks)(low, high, this.height / 56),
          values: (_plot, splits) => splits.map((value) => tick(this.#picture.log ? 10 ** value : value)),
        },
      ],
      series: [{}, ...picture.lines.map((line) => seriesOf(line, colour))],
      hooks: {
        draw: [
          (plot) => {
            new Overlay(plot, this.#picture, this.#points, colour).draw();
          },
        ],
        setCursor: [
          (plot) => {
            const left = plot.cursor.left ?? -1;
            if (!this.#moving) this.events.onHover(left < 0 ? null : plot.posToVal(left, "x"));
          },
        ],
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < 4) return;
            this.events.onSelect([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
      },
    };
  }

  #listen(): void {
    const { over } = this.#plot;
    const at = (event: PointerEvent): number =>
      this.#plot.posToVal(event.clientX - over.getBoundingClientRect().left, "x");
    over.addEventListener("pointerdown", (event) => {
      this.#pressedAt = event.clientX;
    });
    over.addEventListener("pointerup", (event) => {
      if (Math.abs(event.clientX - this.#pressedAt) < 4) this.events.onPick(at(event));
    });
    over.addEventListener("pointermove", (event) => {
      if (event.pointerType === "touch") this.events.onPick(at(event));
    });
  }
}

function seriesOf(line: Line, colour: (name: string) => string): uPlot.Series {
  const stroke = colour(line.colour);
  return {
    label: line.label,
    stroke: line.opacity === undefined ? stroke : withOpacity(stroke, line.opacity),
    width: line.width,
    ...(line.dash ? { dash: line.dash.map((length) => length * uPlot.pxRatio) } : {}),
    spanGaps: false,
    pxAlign: 0,
    points: {
      show: true,
      size: line.sparse ? 5 : 4,
      fill: stroke,
      stroke,
      filter: (plot, series) => (line.sparse ? sparsePoints : isolatedPoints)(plot.data[series] ?? []),
    },
  };
}

function withOpacity(hex: string, opacity: number): string {
  const alpha = Math.round(opacity * 255).toString(16).padStart(2, "0");
  return /^#[0-9a-f]{6}$/i.test(hex) ? hex + alpha : hex;
}

type Values = ArrayLike<number | null | undefined>;

/** Every value of a sparse line, while they are few enough to tell apart. */
function sparsePoints(values: Values): number[] {
  const found: number[] = [];
  for (let index = 0; index < values.length; index += 1) {
    if (values[index] !== null && values[index] !== undefined) found.push(index);
  }
  return found.length <= 120 ? found : [];
}

/** Values with a gap or an end on both sides, which a line alone would not show. */
function isolatedPoints(values: Values): number[] {
  const found: number[] = [];
  let open = true;
  let lonely = -1;
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index];
    if (value === undefined) continue;
    if (value === null) {
      if (lonely >= 0) found.push(lonely);
      lonely = -1;
      open = true;
    } else {
      lonely = open ? index : -1;
      open = false;
    }
  }
  if (lonely >= 0) found.push(lonely);
  return found;
}

function nearestValue(values: Values, closest: number): number {
  for (let distance = 0; distance < values.length; distance += 1) {
    for (const index of [closest - distance, closest + distance]) {
      if (index >= 0 && index < values.length && values[index] !== null && values[index] !== undefined) return index;
    }
  }
  return closest;
}

function fullRange(picture: Picture): Range {
  let high = -Infinity;
  for (const { x } of picture.lines) if (x.length) high = Math.max(high, x[x.length - 1] as number);
  for (const mark of picture.marks) high = Math.max(high, mark.x);
  return high > 0 ? [0, high] : [0, 1];
}

function yRange(lines: Points[]): Range {
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

/** What is drawn over the lines: marks, and the lines' names at their ends. */
class Overlay {
  readonly #context: CanvasRenderingContext2D;
  readonly #ratio = uPlot.pxRatio;

  constructor(
    readonly plot: uPlot,
    readonly picture: Picture,
    readonly points: Points[],
    readonly colour: (name: string) => string,
  ) {
    this.#context = plot.ctx;
  }

  draw(): void {
    this.#context.save();
    for (const kind of ["sample", "resumed", "not finite", "best"] as const) this.#marks(kind);
    this.#names();
    this.#context.restore();
  }

  /** Draws the marks of a kind; those that would fall on the same pixel once. */
  #marks(kind: MarkKind): void {
    let previous = -Infinity;
    for (const mark of this.picture.marks) {
      if (mark.kind !== kind) continue;
      const x = this.plot.valToPos(mark.x, "x", true);
      const { left, width } = this.plot.bbox;
      if (x < left - 1 || x > left + width + 1 || x - previous < this.#ratio) continue;
      previous = x;
      this.#shapes[kind](x, mark);
    }
  }

  readonly #shapes: Record<MarkKind, (x: number, mark: Mark) => void> = {
    sample: (x) => {
      const bottom = this.plot.bbox.top + this.plot.bbox.height;
      const half = 0.75 * this.#ratio;
      const top = bottom - 6 * this.#ratio;
      this.#path(this.colour("--muted"), [
        [x - half, top],
        [x + half, top],
        [x + half, bottom],
        [x - half, bottom],
      ]);
    },
    resumed: (x) => {
      const context = this.#context;
      const { top, height } = this.plot.bbox;
      context.strokeStyle = this.colour("--muted");
      context.lineWidth = this.#ratio;
      context.setLineDash([2 * this.#ratio, 4 * this.#ratio]);
      context.beginPath();
      context.moveTo(x, top);
      context.lineTo(x, top + height);
      context.stroke();
      context.setLineDash([]);
      this.#text("resumed", x + 4 * this.#ratio, top + 6 * this.#ratio, "--muted");
    },
    "not finite": (x) => {
      const { top } = this.plot.bbox;
      const size = 5 * this.#ratio;
      this.#path(this.colour("--danger"), [
        [x - size, top + 2 * size],
        [x + size, top + 2 * size],
        [x, top + size / 3],
      ]);
    },
    best: (x, mark) => {
      if (mark.y === undefined) return;
      const value = this.picture.log ? Math.log10(mark.y) : mark.y;
      const y = this.plot.valToPos(value, "y", true);
      const context = this.#context;
      context.strokeStyle = this.colour("--val");
      context.lineWidth = 1.5 * this.#ratio;
      context.beginPath();
      context.arc(x, y, 6 * this.#ratio, 0, 2 * Math.PI);
      context.stroke();
    },
  };

  #path(fill: string, corners: [number, number][]): void {
    const context = this.#context;
    context.fillStyle = fill;
    context.beginPath();
    for (const [x, y] of corners) context.lineTo(x, y);
    context.closePath();
    context.fill();
  }

  #text(label: string, x: number, y: number, colour: string): void {
    const context = this.#context;
    context.font = `${String(FONT_SIZE * this.#ratio)}px ${getComputedStyle(this.plot.root).fontFamily}`;
    context.fillStyle = this.colour(colour);
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(label, x, y);
  }

  #names(): void {
    const { left, width } = this.plot.bbox;
    const placed: { line: Line; y: number }[] = [];
    for (const [index, line] of this.picture.lines.entries()) {
      if (!line.named) continue;
      const value = this.points[index]?.y.findLast((y) => y !== null);
      if (value !== undefined && value !== null) placed.push({ line, y: this.plot.valToPos(value, "y", true) });
    }
    placed.sort((a, b) => a.y - b.y);
    let above = -Infinity;
    for (const { line, y } of placed) {
      const free = Math.max(y, above + 13 * this.#ratio);
      above = free;
      this.#text(line.label, left + width + 10 * this.#ratio, free, line.colour);
    }
  }
}
