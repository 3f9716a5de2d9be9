import { lastAtOrBefore, nearest, type Curve } from "../lib/columns";
import type { History } from "../lib/history";
import type { Line, Mark, Picture } from "../lib/picture";
import type { Range } from "../lib/scale";
import { Smoothing } from "../lib/smoothing";

export const FACTORS = [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999] as const;
const USUAL_FACTOR = 3;

export type Axis = "step" | "time";

export interface Reading {
  step: number;
  train: number;
  smoothed: number;
  validation: { step: number; value: number } | null;
}

/** How the loss of one job is looked at: axis, scale, smoothing, zoom; and the picture and values that follow. */
export class LossView {
  log = $state(false);
  axis = $state<Axis>("step");
  factorIndex = $state(USUAL_FACTOR);
  zoom = $state.raw<Range | null>(null);
  #smoothing: Smoothing | null = null;

  constructor(readonly history: () => History) {}

  get factor(): number {
    return FACTORS[this.factorIndex] ?? 0;
  }

  get train(): Curve {
    return this.history().curve("loss");
  }

  get validation(): Curve {
    return this.history().curve("val_loss");
  }

  smoothed(): Float64Array {
    const { train, factor } = this;
    if (this.#smoothing?.curve !== train || this.#smoothing.factor !== factor) {
      this.#smoothing = new Smoothing(train, factor);
    }
    return this.#smoothing.update();
  }

  /** The lowest validation loss so far. */
  best(): { step: number; value: number } | null {
    const { steps, values } = this.validation;
    let best = -1;
    for (let index = 0; index < values.length; index += 1) {
      if (best < 0 ? !Number.isNaN(values.at(index)) : values.at(index) < values.at(best)) best = index;
    }
    return best < 0 ? null : { step: steps.at(best), value: values.at(best) };
  }

  picture(cursorStep: number | null): Picture {
    const { train, validation } = this;
    const trainX = this.#xs(train);
    const smoothing = this.factor > 0;
    const raw: Line = {
      label: "train",
      colour: "--train",
      width: smoothing ? 1 : 1.5,
      ...(smoothing ? { opacity: 0.32 } : {}),
      named: true,
      x: trainX,
      y: train.values.view,
    };
    const lines: Line[] = [raw];
    if (smoothing) {
      raw.named = false;
      const y = this.smoothed();
      lines.push({ label: "train", colour: "--train", width: 2, derived: true, named: true, x: trainX, y });
    }
    lines.push({
      label: "val",
      colour: "--val",
      width: 1.75,
      dash: [6, 4],
      sparse: true,
      named: true,
      x: this.#xs(validation),
      y: validation.values.view,
    });
    const cursor = cursorStep === null ? null : this.toX(cursorStep);
    return { lines, marks: this.#marks(), log: this.log, zoom: this.zoom, cursor };
  }

  /** The place of a step on the x axis: the step itself, or seconds since the job first ran. */
  toX(step: number): number {
    if (this.axis === "step") return step;
    const { steps, times } = this.train;
    const index = nearest(steps.view, step);
    return index < 0 ? 0 : this.#seconds(times.at(index));
  }

  /** The measured step nearest to a place on the x axis. */
  toStep(x: number): number | null {
    const { steps, times } = this.train;
    const index =
      this.axis === "step" ? nearest(steps.view, x) : nearest(times.view, x * 1000 + this.#origin());
    return index < 0 ? null : steps.at(index);
  }

  /** The step that lies `points` measurements away from `step`, inside the zoom. */
  moved(step: number | null, points: number): number | null {
    const { steps } = this.train;
    if (!steps.length) return null;
    const [low, high] = this.zoom ? this.zoom.map((x) => nearest(steps.view, this.toStep(x) ?? 0)) : [];
    const first = low ?? 0;
    const last = high ?? steps.length - 1;
    const here = step === null ? last : nearest(steps.view, step);
    return steps.at(Math.min(last, Math.max(first, here + points)));
  }

  span(): Range {
    return this.zoom ?? [0, Math.max(1, this.toX(this.train.lastStep))];
  }

  reading(step: number | null): Reading | null {
    const { train, validation } = this;
    const index = step === null ? train.length - 1 : nearest(train.steps.view, step);
    if (index < 0) return null;
    const at = train.steps.at(index);
    const measured = lastAtOrBefore(validation.steps.view, at);
    return {
      step: at,
      train: train.values.at(index),
      smoothed: this.smoothed()[index] ?? NaN,
      validation:
        measured < 0 ? null : { step: validation.steps.at(measured), value: validation.values.at(measured) },
    };
  }

  #marks(): Mark[] {
    const history = this.history();
    const best = this.best();
    const marks: Mark[] = history.samples.map(({ step }) => ({ kind: "sample", x: this.toX(step) }));
    for (const step of history.resumes) marks.push({ kind: "resumed", x: this.toX(step) });
    for (const { name, step } of history.nonFinite) {
      if (name === "loss" || name === "val_loss") marks.push({ kind: "not finite", x: this.toX(step) });
    }
    if (best) marks.push({ kind: "best", x: this.toX(best.step), y: best.value });
    return marks;
  }

  #origin(): number {
    return this.history().startedAt(this.train.times.at(0));
  }

  #seconds(time: number): number {
    return Math.max(0, (time - this.#origin()) / 1000);
  }

  #xs(curve: Curve): Float64Array {
    return this.axis === "step" ? curve.steps.view : curve.times.view.map((time) => this.#seconds(time));
  }
}
