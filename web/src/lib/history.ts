import { Curve, lastAtOrBefore } from "./columns";
import { instant } from "./format";
import { NOTHING, withEstimate, type Told } from "./price";
import { withReport, type Program } from "./report";
import type { JobEvent } from "./types";

/** The texts that the model wrote at one step, one a prompt. */
export interface SampleGroup {
  step: number;
  texts: { prompt: string; text: string }[];
}

export interface LogLine {
  seq: number;
  time: string;
  level: string;
  message: string;
}

export interface Transition {
  state: string;
  time: string;
  attempt: number;
  worker: string | null;
  reason: string | null;
}

/** Whether a running job was asked to pause; it runs on until its worker has written a checkpoint. */
export function isPausing(transition: Transition | undefined): boolean {
  return transition?.state === "running" && transition.reason === "pausing";
}

export interface Checkpoint {
  step: number;
  time: string;
  best: boolean;
}

export interface Token {
  text: string;
  logprob: number | null;
}

/** A part of the work that takes a while; `seconds` is null until it has ended. */
export interface Stage {
  name: string;
  seconds: number | null;
}

export interface NonFinite {
  name: string;
  step: number;
}

/** Log lines kept for reading; older ones are dropped and counted. */
export const LOG_LIMIT = 5000;

/**
 * Everything the event log of one job has said so far. Events come in order; one that was seen is dropped, and
 * a missing one is counted, so that `received` and `missing` prove that nothing was lost.
 */
export class History {
  lastSeq: number;
  received = 0;
  missing = 0;
  lastTime = "";
  readonly curves = new Map<string, Curve>();
  readonly samples: SampleGroup[] = [];
  sampleCount = 0;
  readonly log: LogLine[] = [];
  logDropped = 0;
  readonly transitions: Transition[] = [];
  readonly checkpoints: Checkpoint[] = [];
  readonly nonFinite: NonFinite[] = [];
  /** Steps from which a later attempt went on. */
  readonly resumes: number[] = [];
  /** Completions of a sample job, by their index. */
  readonly completions: Token[][] = [];
  readonly stages: Stage[] = [];
  /** What a compile job has reported. */
  programs: readonly Program[] = [];
  /** What a price job has told. */
  told: Told = NOTHING;
  progress: { step: number; steps: number; etaS: number | null; time: string } | null = null;
  #attempt = 0;

  /** A history of the events after `lastSeq`. */
  constructor(lastSeq = 0) {
    this.lastSeq = lastSeq;
  }

  /** Applies an event; false when it had been applied before. */
  apply(event: JobEvent): boolean {
    if (event.seq <= this.lastSeq) return false;
    this.missing += event.seq - this.lastSeq - 1;
    this.lastSeq = event.seq;
    this.received += 1;
    this.lastTime = event.time;
    this.#handlers[event.type]?.(event);
    return true;
  }

  curve(name: string): Curve {
    let curve = this.curves.get(name);
    if (!curve) this.curves.set(name, (curve = new Curve()));
    return curve;
  }

  /** When the job first ran, in milliseconds since the epoch; `fallback` before that. */
  startedAt(fallback: number): number {
    const running = this.transitions.find((transition) => transition.state === "running");
    return running ? instant(running.time) : fallback;
  }

  readonly #handlers: Record<string, (event: JobEvent) => void> = {
    state: (event) => {
      this.transitions.push({
        state: text(event.data["state"]),
        time: event.time,
        attempt: event.attempt,
        worker: optional(event.data["worker"]),
        reason: optional(event.data["message"]) ?? optional(event.data["reason"]),
      });
    },
    metric: (event) => {
      this.#metric(event);
    },
    sample: (event) => {
      this.#sample(event);
    },
    log: (event) => {
      const { level, message } = event.data;
      this.log.push({ seq: event.seq, time: event.time, level: text(level) || "info", message: text(message) });
      if (this.log.length > LOG_LIMIT * 1.2) {
        this.logDropped += this.log.length - LOG_LIMIT;
        this.log.splice(0, this.log.length - LOG_LIMIT);
      }
    },
    checkpoint: (event) => {
      const best = event.data["best"] === true;
      this.checkpoints.push({ step: number(event.data["step"]) ?? 0, time: event.time, best });
    },
    stage: (event) => {
      const name = text(event.data["name"]);
      const seconds = number(event.data["seconds"]);
      const last = this.stages.length - 1;
      if (this.stages[last]?.name === name && this.stages[last]?.seconds === null) this.stages[last] = { name, seconds };
      else this.stages.push({ name, seconds });
    },
    token: (event) => {
      for (const token of list(event.data["tokens"] ?? [event.data])) {
        const index = number(token["index"]) ?? number(event.data["index"]) ?? 0;
        (this.completions[index] ??= []).push({ text: text(token["text"]), logprob: number(token["logprob"]) });
      }
    },
    report: (event) => {
      if ("contract" in event.data) this.told = withEstimate(this.told, event.data);
      else this.programs = withReport(this.programs, event.data);
    },
    progress: (event) => {
      const { step, steps, eta_s } = event.data;
      this.progress = {
        step: number(step) ?? 0,
        steps: number(steps) ?? 0,
        etaS: number(eta_s),
        time: event.time,
      };
    },
  };

  #sample(event: JobEvent): void {
    const step = number(event.data["step"]) ?? 0;
    this.#resumeAt(event.attempt, step);
    const sample = { prompt: text(event.data["prompt"]), text: text(event.data["text"]) };
    const last = this.samples.at(-1);
    if (last?.step === step) this.samples[this.samples.length - 1] = { step, texts: [...last.texts, sample] };
    else this.samples.push({ step, texts: [sample] });
    this.sampleCount += 1;
  }

  /** One flush of measurements: columns over the same steps; null is absent, or not finite where so named. */
  #metric(event: JobEvent): void {
    const steps = numbers(event.data["steps"]);
    if (!steps.length) return;
    const columns = (event.data["values"] ?? {}) as Record<string, (number | null)[]>;
    const nonFinite = new Set(Array.isArray(event.data["nonfinite"]) ? event.data["nonfinite"].map(String) : []);
    this.#resumeAt(event.attempt, steps[0] as number);
    for (const [name, column] of Object.entries(columns)) {
      const curve = this.curve(name);
      const end = instant(event.time);
      const start = curve.length ? curve.times.at(curve.length - 1) : this.startedAt(end);
      for (const [index, step] of steps.entries()) {
        const value = column[index] ?? null;
        if (value === null && !nonFinite.has(name)) continue;
        if (value === null && step > curve.lastStep) this.nonFinite.push({ name, step });
        const time = start + ((end - start) * (index + 1)) / steps.length;
        curve.append(step, time, value ?? NaN);
      }
    }
  }

  /** A later attempt that goes on from an earlier step replaces what the lost attempt had said from there. */
  #resumeAt(attempt: number, step: number): void {
    if (attempt > this.#attempt && this.#attempt > 0) {
      for (const curve of this.curves.values()) curve.rewind(step);
      keepWhere(this.samples, (sample) => sample.step < step);
      keepWhere(this.nonFinite, (point) => point.step < step);
      this.resumes.push(step);
    }
    this.#attempt = Math.max(this.#attempt, attempt);
  }
}

/** The group written at `step` or last before it; the first one when there is none before. -1 without samples. */
export function groupAt(samples: readonly SampleGroup[], step: number): number {
  const steps = samples.map((group) => group.step);
  return samples.length ? Math.max(0, lastAtOrBefore(steps, step)) : -1;
}

function keepWhere<T>(values: T[], keep: (value: T) => boolean): void {
  const kept = values.filter(keep);
  values.splice(0, values.length, ...kept);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : value === null || value === undefined ? "" : String(value as number);
}

function optional(value: unknown): string | null {
  return typeof value === "string" && value ? value : null;
}

function number(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

function numbers(value: unknown): number[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "number") : [];
}

function list(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? (value as Record<string, unknown>[]) : [];
}
