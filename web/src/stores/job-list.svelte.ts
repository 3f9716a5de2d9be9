import { api, Problem } from "../lib/api";
import { followChanges } from "../lib/changes";
import { titleOf } from "../lib/job";
import type { Job, JobPage } from "../lib/types";
import { TERMINAL } from "../lib/types";

const PAGE_SIZE = 50;
/** The service does not search names, so the list looks through this many pages of this size by itself. */
const SEARCHED = { pages: 5, size: 100 };
/** How often the list is read again for the progress of a job that runs. */
const PROGRESS_MS = 1500;
/** The same where changes are not told, for whatever may happen. */
const IDLE_MS = 6000;
/** Changes that come together are read together. */
const NEWS_MS = 100;
/** A hidden page gives its connection back after this time. */
const HIDDEN_GRACE_MS = 30_000;

/** What selects a page of the list. Empty strings select everything. */
export interface Selected {
  kind: string;
  state: string;
  text: string;
  after: string;
}

interface Page {
  jobs: Job[];
  /** The id after which older jobs follow; null at the end of the list. */
  next: string | null;
}

/** One page of the job list, read again whenever a job changes its state, and while one runs for its progress. */
export class JobList {
  jobs = $state.raw<Job[] | null>(null);
  next = $state<string | null>(null);
  error = $state.raw<unknown>(null);
  #selected: Selected | null = null;
  #reading = new AbortController();
  #watching = new AbortController();
  /** Whether changes are told. */
  #live = false;
  /** Whether something has changed since the list was read. */
  #changed = false;
  #busy = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #newsTimer: ReturnType<typeof setTimeout> | undefined;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    document.addEventListener("visibilitychange", this.#onVisibility);
    this.#watch();
  }

  /** Shows the page that is selected; rows of another page are taken away first. */
  show(selected: Selected): void {
    if (JSON.stringify(selected) === JSON.stringify(this.#selected)) return;
    this.#selected = selected;
    this.jobs = null;
    this.next = null;
    void this.read();
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.#onVisibility);
    this.#watching.abort();
    this.#reading.abort();
    for (const timer of [this.#timer, this.#newsTimer, this.#hiddenTimer]) clearTimeout(timer);
  }

  async read(): Promise<void> {
    const selected = this.#selected;
    if (!selected) return;
    this.#reading.abort();
    clearTimeout(this.#timer);
    const { signal } = (this.#reading = new AbortController());
    this.#busy = true;
    this.#changed = false;
    try {
      const page = await (selected.text ? search(selected, signal) : readPage(selected, signal));
      if (signal.aborted) return;
      this.jobs = page.jobs;
      this.next = page.next;
      this.error = null;
    } catch (error) {
      if (signal.aborted) return;
      this.error = error;
    }
    this.#busy = false;
    if (this.error instanceof Problem && this.error.status < 500) return;
    if (this.#changed) this.#soon();
    this.#later();
  }

  async cancel(id: string): Promise<void> {
    const changed = await api.cancel(id);
    this.jobs = this.jobs?.map((job) => (job.id === id ? changed : job)) ?? null;
    if (!this.#live) this.#soon();
  }

  #watch(): void {
    const { signal } = (this.#watching = new AbortController());
    const watcher = {
      onNews: () => {
        this.#changed = true;
        this.#soon();
      },
      onLive: (live: boolean) => {
        this.#live = live;
        if (!live && !signal.aborted) this.#later();
      },
    };
    void followChanges(watcher, signal);
  }

  /** Reads the list in a moment, with all that changes until then. */
  #soon(): void {
    if (this.#newsTimer !== undefined || this.#busy || document.hidden) return;
    this.#newsTimer = setTimeout(() => {
      this.#newsTimer = undefined;
      void this.read();
    }, NEWS_MS);
  }

  /** Reads the list after a while: for the progress of what runs, and where changes are not told. */
  #later(): void {
    clearTimeout(this.#timer);
    const runs = this.jobs?.some((job) => job.state === "running" || job.state === "cancelling") ?? false;
    const waits = this.jobs?.some((job) => !TERMINAL.has(job.state)) ?? false;
    if (this.#live && !runs) return;
    const active = (runs || waits) && !this.#selected?.text;
    this.#timer = setTimeout(
      () => {
        if (document.hidden) this.#later();
        else void this.read();
      },
      active ? PROGRESS_MS : IDLE_MS,
    );
  }

  readonly #onVisibility = (): void => {
    clearTimeout(this.#hiddenTimer);
    if (document.hidden) {
      this.#hiddenTimer = setTimeout(() => {
        this.#watching.abort();
      }, HIDDEN_GRACE_MS);
    } else if (this.#watching.signal.aborted) {
      this.#watch(); // which begins by saying that the list is to be read
    } else if (this.#changed) {
      this.#soon();
    }
  };
}

function fetchPage({ kind, state }: Selected, after: string, limit: number, signal: AbortSignal): Promise<JobPage> {
  const query = new URLSearchParams({ limit: String(limit) });
  for (const [name, value] of Object.entries({ kind, state, after })) if (value) query.set(name, value);
  return api.jobs(query, signal);
}

async function readPage(selected: Selected, signal: AbortSignal): Promise<Page> {
  const page = await fetchPage(selected, selected.after, PAGE_SIZE, signal);
  return { jobs: page.data, next: page.has_more ? (page.data.at(-1)?.id ?? null) : null };
}

/** The jobs whose name or id holds the text, among the newest after the cursor. */
async function search(selected: Selected, signal: AbortSignal): Promise<Page> {
  const text = selected.text.toLowerCase();
  const jobs: Job[] = [];
  let next: string | null = selected.after;
  for (let pages = 0; pages < SEARCHED.pages && jobs.length < PAGE_SIZE && next !== null; pages += 1) {
    const page: JobPage = await fetchPage(selected, next, SEARCHED.size, signal);
    jobs.push(...page.data.filter((job) => `${job.id} ${titleOf(job)}`.toLowerCase().includes(text)));
    next = page.has_more ? (page.data.at(-1)?.id ?? null) : null;
  }
  return { jobs, next };
}
