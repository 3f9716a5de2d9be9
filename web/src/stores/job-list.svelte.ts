import { api, Problem } from "../lib/api";
import { titleOf } from "../lib/job";
import type { Job, JobPage } from "../lib/types";
import { TERMINAL } from "../lib/types";

const PAGE_SIZE = 50;
/** The service does not search names, so the list looks through this many pages of this size by itself. */
const SEARCHED = { pages: 5, size: 100 };
const ACTIVE_MS = 1500;
const IDLE_MS = 6000;

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

/** One page of the job list, read again while it is shown: often when a job is at work, rarely when none is. */
export class JobList {
  jobs = $state.raw<Job[] | null>(null);
  next = $state<string | null>(null);
  error = $state.raw<unknown>(null);
  #selected: Selected | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort = new AbortController();

  /** Shows the page that is selected; rows of another page are taken away first. */
  show(selected: Selected): void {
    if (JSON.stringify(selected) === JSON.stringify(this.#selected)) return;
    this.#selected = selected;
    this.jobs = null;
    this.next = null;
    void this.read();
  }

  close(): void {
    this.#abort.abort();
    clearTimeout(this.#timer);
  }

  async read(): Promise<void> {
    const selected = this.#selected;
    if (!selected) return;
    this.close();
    const { signal } = (this.#abort = new AbortController());
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
    if (this.error instanceof Problem && this.error.status < 500) return;
    this.#later();
  }

  async cancel(id: string): Promise<void> {
    const changed = await api.cancel(id);
    this.jobs = this.jobs?.map((job) => (job.id === id ? changed : job)) ?? null;
    this.#later(200);
  }

  #later(delay?: number): void {
    const active = !this.#selected?.text && (this.jobs?.some((job) => !TERMINAL.has(job.state)) ?? false);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(
      () => {
        if (document.hidden) this.#later();
        else void this.read();
      },
      delay ?? (active ? ACTIVE_MS : IDLE_MS),
    );
  }
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
