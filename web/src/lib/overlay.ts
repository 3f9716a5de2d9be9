import uPlot from "uplot";
import type { Points } from "./downsample";
import type { Line, Mark, MarkKind, Picture } from "./picture";

export const FONT_SIZE = 11;

/** What is drawn over the lines: marks, and the lines' names at their ends. */
export class Overlay {
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
