import { api, Problem } from "../lib/api";
import type { Job } from "../lib/types";
import { TERMINAL } from "../lib/types";

export const PAGE_SIZE = 50;
const ACTIVE_MS = 1500;
const IDLE_MS = 6000;

/** One page of the job list, read again while it is shown: often when a job is at work, rarely when none is. */
export class JobList {
  jobs = $state.raw<Job[] | null>(null);
  hasMore = $state(false);
  error = $state.raw<unknown>(null);
  #query = "";
  #timer: ReturnType<typeof setTimeout> | undefined;
  #abort = new AbortController();

  /** Shows the page that `query` (filters and cursor) selects; rows of another page are taken away first. */
  show(query: URLSearchParams): void {
    query.set("limit", String(PAGE_SIZE));
    if (query.toString() === this.#query) return;
    this.#query = query.toString();
    this.jobs = null;
    this.hasMore = false;
    void this.read();
  }

  close(): void {
    this.#abort.abort();
    clearTimeout(this.#timer);
  }

  async read(): Promise<void> {
    this.close();
    const { signal } = (this.#abort = new AbortController());
    try {
      const page = await api.jobs(new URLSearchParams(this.#query), signal);
      if (signal.aborted) return;
      this.jobs = page.data;
      this.hasMore = page.has_more;
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
    const active = this.jobs?.some((job) => !TERMINAL.has(job.state)) ?? false;
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
