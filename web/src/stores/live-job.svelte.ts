import { api, Problem } from "../lib/api";
import { follow, type Connection } from "../lib/follow";
import { History, isPausing, type Checkpoint, type LogLine, type SampleGroup, type Stage, type Token, type Transition } from "../lib/history";
import { NOTHING, type Told } from "../lib/price";
import type { Program } from "../lib/report";
import type { Job, JobEvent } from "../lib/types";
import { TERMINAL } from "../lib/types";

/** The place in the queue is told by the record only, which is read again this often while the job waits. */
const QUEUE_MS = 3000;
/** A hidden page gives its connection back after this time; it catches up when it is shown again. */
const HIDDEN_GRACE_MS = 30_000;

/**
 * One job, followed live. Events change `history` at once; what components read is published at most once a
 * frame, and not at all while the page is hidden.
 */
export class LiveJob {
  job = $state.raw<Job | null>(null);
  error = $state.raw<unknown>(null);
  connection = $state<Connection>("connecting");
  /** Grows with every publication; components that read `history` itself depend on it. */
  version = $state(0);
  samples = $state.raw<SampleGroup[]>([]);
  log = $state.raw<LogLine[]>([]);
  transitions = $state.raw<Transition[]>([]);
  checkpoints = $state.raw<Checkpoint[]>([]);
  stages = $state.raw<Stage[]>([]);
  programs = $state.raw<readonly Program[]>([]);
  told = $state.raw<Told>(NOTHING);
  completions = $state.raw<Token[][]>([]);
  /** When the last event arrived, in milliseconds by this machine's clock. */
  heardAt = $state(Date.now());
  history = new History();

  #abort = new AbortController();
  #frame = 0;
  #sampleCount = 0;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  #queueTimer: ReturnType<typeof setInterval>;
  #refreshing: Promise<void> | null = null;

  constructor(readonly id: string) {
    document.addEventListener("visibilitychange", this.#onVisibility);
    this.#queueTimer = setInterval(() => {
      if (this.job?.state === "queued" && !document.hidden) void this.#refresh();
    }, QUEUE_MS);
    void this.#open();
  }

  get state(): string {
    return this.job?.state ?? "queued";
  }

  get terminal(): boolean {
    return TERMINAL.has(this.state);
  }

  /** Whether the job still runs, up to the checkpoint that it pauses at. */
  get pausing(): boolean {
    return this.state === "running" && isPausing(this.transitions.at(-1));
  }

  close(): void {
    this.#abort.abort();
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#hiddenTimer);
    clearInterval(this.#queueTimer);
    document.removeEventListener("visibilitychange", this.#onVisibility);
  }

  /** Starts again after an error. */
  retry(): void {
    this.error = null;
    this.#abort.abort();
    void this.#open();
  }

  async cancel(): Promise<void> {
    this.job = await api.cancel(this.id);
  }

  async pause(): Promise<void> {
    this.job = await api.pause(this.id);
  }

  async resume(): Promise<void> {
    this.job = await api.resume(this.id);
  }

  async #open(): Promise<void> {
    const abort = (this.#abort = new AbortController());
    await this.#refresh();
    if (this.error || abort.signal.aborted) return;
    await follow(
      this.id,
      {
        lastSeq: () => this.history.lastSeq,
        onEvent: (event) => {
          this.#receive(event);
        },
        onReset: (lastSeq) => {
          this.#forget(lastSeq);
        },
        onConnection: (connection, problem) => {
          this.connection = connection;
          if (problem) this.error = problem;
          if (connection === "ended") void this.#refresh();
        },
      },
      abort.signal,
    );
  }

  /** The log is another one than before, so what was read of the job counts no longer. */
  #forget(lastSeq: number): void {
    this.history = new History(lastSeq);
    if (this.job) this.job = { ...this.job, last_seq: 0 };
    void this.#refresh();
    this.#schedule();
  }

  #receive(event: JobEvent): void {
    if (!this.history.apply(event)) return;
    this.heardAt = Date.now();
    if (event.type === "state") this.#stateChanged(event);
    this.#schedule();
  }

  #stateChanged(event: JobEvent): void {
    const known = this.job;
    if (!known || event.seq <= known.last_seq) return;
    this.job = { ...known, state: event.data["state"] as Job["state"], last_seq: event.seq };
    void this.#refresh();
  }

  /** Reads the record; a call while another is on its way waits for that one and reads again. */
  async #refresh(): Promise<void> {
    while (this.#refreshing) await this.#refreshing;
    const reading = (async () => {
      try {
        const job = await api.job(this.id);
        if (!this.job || job.last_seq >= this.job.last_seq) this.job = job;
      } catch (error) {
        if (!this.job || error instanceof Problem) this.error = error;
      }
    })();
    this.#refreshing = reading;
    await reading;
    this.#refreshing = null;
  }

  #schedule(): void {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#publish();
    });
  }

  #publish(): void {
    const { history } = this;
    if (this.#sampleCount !== history.sampleCount) this.samples = history.samples.slice();
    this.#sampleCount = history.sampleCount;
    if (this.log.at(-1)?.seq !== history.log.at(-1)?.seq) this.log = history.log.slice();
    if (this.transitions.length !== history.transitions.length) this.transitions = history.transitions.slice();
    if (this.checkpoints.length !== history.checkpoints.length) this.checkpoints = history.checkpoints.slice();
    if (history.completions.length) this.completions = history.completions.map((tokens) => tokens.slice());
    if (history.stages.length) this.stages = history.stages.slice();
    this.programs = history.programs;
    this.told = history.told;
    this.version += 1;
  }

  readonly #onVisibility = (): void => {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) {
      this.#hiddenTimer = setTimeout(() => {
        this.#abort.abort();
      }, HIDDEN_GRACE_MS);
    } else if (this.#abort.signal.aborted && !this.error && this.connection !== "ended") {
      void this.#open();
    }
  };
}

