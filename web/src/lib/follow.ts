import { jobPath, Problem, request } from "./api";
import { inPlace } from "./places";
import { frames } from "./sse";
import { TERMINAL, type JobEvent } from "./types";

export type Connection = "connecting" | "live" | "waiting" | "ended" | "refused";

export interface Follower {
  /** The sequence number after which the stream shall go on. */
  lastSeq: () => number;
  onEvent: (event: JobEvent) => void;
  /** The log is another one than what was read: forget everything. It goes on after `lastSeq`. */
  onReset: (lastSeq: number) => void;
  onConnection: (connection: Connection, problem?: Problem) => void;
}

const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 8000;
/** The service sends a comment every 15 s; a stream silent for longer than three of them is dead. */
const SILENCE_MS = 45_000;
/** How often a tab without a stream asks for news. */
const POLL_MS = 1000;
const PAGE = 1000;
const REFUSALS = new Set([400, 401, 403, 404, 410]);

/**
 * Follows a job's event log until its end or `signal`, reconnecting from the last event whenever the stream breaks.
 * A tab that gets no place for a stream asks for news from time to time.
 */
export async function follow(id: string, follower: Follower, signal: AbortSignal): Promise<void> {
  let delay = FIRST_DELAY_MS;
  let polls = false;
  follower.onConnection("connecting");
  while (!signal.aborted) {
    try {
      const ended = await inPlace((hasPlace) => {
        polls = !hasPlace;
        return polls
          ? readNews(id, follower, signal)
          : readStream(id, follower, signal, () => {
              delay = FIRST_DELAY_MS;
            });
      });
      if (ended) {
        follower.onConnection("ended");
        return;
      }
      if (polls) {
        delay = FIRST_DELAY_MS;
        await pause(POLL_MS, signal);
        continue;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && REFUSALS.has(error.status)) {
        follower.onConnection("refused", error);
        return;
      }
    }
    if (signal.aborted) return;
    follower.onConnection("waiting");
    await pause(delay * (0.75 + Math.random() / 2), signal);
    delay = Math.min(delay * 2, LONGEST_DELAY_MS);
  }
}

/** Reads what is new in pages; true when the last of it is the job's end. */
async function readNews(id: string, follower: Follower, signal: AbortSignal): Promise<boolean> {
  for (;;) {
    const after = follower.lastSeq();
    const path = `${jobPath(id)}/events?after=${String(Math.max(0, after - 1))}&limit=${String(PAGE)}`;
    const response = await request(path, { signal, cache: "no-store" });
    const page = (await response.json()) as { data: JobEvent[]; has_more: boolean };
    follower.onConnection("live");
    if (after > 0 && !page.data.length) {
      follower.onReset(0); // even the last event that was read is not there
      return false;
    }
    for (const event of page.data) if (event.seq > after) follower.onEvent(event);
    const last = page.data.at(-1);
    if (last?.type === "state" && TERMINAL.has(String(last.data["state"]))) return true;
    if (!page.has_more) return false;
  }
}

/** Reads one connection; true when the service said that the log is complete. */
async function readStream(
  id: string,
  follower: Follower,
  signal: AbortSignal,
  onProgress: () => void,
): Promise<boolean> {
  const connection = new AbortController();
  const stop = (): void => {
    connection.abort();
  };
  signal.addEventListener("abort", stop);
  let watchdog = setTimeout(stop, SILENCE_MS);
  const alive = (): void => {
    clearTimeout(watchdog);
    watchdog = setTimeout(stop, SILENCE_MS);
  };
  try {
    const headers: Record<string, string> = { Accept: "text/event-stream" };
    const after = follower.lastSeq();
    if (after > 0) headers["Last-Event-ID"] = String(after);
    const response = await request(`${jobPath(id)}/events`, { headers, signal: connection.signal, cache: "no-store" });
    if (!response.body) return false;
    follower.onConnection("live");
    for await (const frame of frames(response.body, alive)) {
      if (frame.event === "end") return true;
      onProgress();
      if (frame.event !== "reset") deliver(frame.data, follower);
      else if (after > 0) {
        follower.onReset(0);
        return false;
      } else follower.onReset(lastSeqOf(frame.data));
    }
    return false;
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    stop();
  }
}

function deliver(data: string, follower: Follower): void {
  const event = parse(data) as JobEvent | null;
  if (event && typeof event.seq === "number") follower.onEvent(event);
}

/** Where the log goes on when even its beginning is gone. */
function lastSeqOf(data: string): number {
  const seq = (parse(data) as { last_seq?: unknown } | null)?.last_seq;
  return typeof seq === "number" ? seq : 0;
}

function parse(data: string): unknown {
  try {
    return JSON.parse(data) as unknown;
  } catch {
    return null;
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
