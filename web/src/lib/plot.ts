import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { lowerBound } from "./columns";
import { thin, type Points } from "./downsample";
import { tick } from "./format";
import { FONT_SIZE, Overlay } from "./overlay";
import { fullRange, yRange, type Line, type Picture } from "./picture";
import { logTicks, niceTicks, type Range } from "./scale";

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

/** Draws pictures with uPlot, which only this file and `overlay.ts` import. Values on a log axis are handed over as log10. */
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
      if (value <= 0 && !line.derived) this.hidden += 1;
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
