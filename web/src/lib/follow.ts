import { jobPath, Problem, request } from "./api";
import { FIRST_DELAY_MS, jittered, LONGEST_DELAY_MS, parse, pause, readConnection, REFUSALS } from "./connection";
import { inPlace } from "./places";
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

/** How often a tab without a stream asks for news. */
const POLL_MS = 1000;
const PAGE = 1000;

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
    await pause(jittered(delay), signal);
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
function readStream(
  id: string,
  follower: Follower,
  signal: AbortSignal,
  onProgress: () => void,
): Promise<boolean> {
  const after = follower.lastSeq();
  const headers: Record<string, string> = after > 0 ? { "Last-Event-ID": String(after) } : {};
  const onOpen = (): void => {
    follower.onConnection("live");
  };
  return readConnection(`${jobPath(id)}/events`, headers, signal, onOpen, (frame) => {
    if (frame.event === "end") return true;
    onProgress();
    if (frame.event !== "reset") deliver(frame.data, follower);
    else if (after > 0) {
      follower.onReset(0);
      return false;
    } else follower.onReset(lastSeqOf(frame.data));
    return undefined;
  });
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
