import { request } from "./api";
import { frames, type Frame } from "./sse";

export const FIRST_DELAY_MS = 250;
export const LONGEST_DELAY_MS = 8000;
/** The service sends a comment every 15 s; a stream silent for longer than three of them is dead. */
const SILENCE_MS = 45_000;
/** Answers that another try would only get again. */
export const REFUSALS = new Set([400, 401, 403, 404, 410]);

/**
 * Reads one connection to an event stream until `onFrame` returns a verdict, and resolves to that; to false when the
 * stream ends without one. A stream that stays silent for too long is broken off.
 */
export async function readConnection(
  path: string,
  headers: Record<string, string>,
  signal: AbortSignal,
  onOpen: () => void,
  onFrame: (frame: Frame) => boolean | undefined,
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
    const wanted = { Accept: "text/event-stream", ...headers };
    const response = await request(path, { headers: wanted, signal: connection.signal, cache: "no-store" });
    if (!response.body) return false;
    onOpen();
    for await (const frame of frames(response.body, alive)) {
      const verdict = onFrame(frame);
      if (verdict !== undefined) return verdict;
    }
    return false;
  } finally {
    clearTimeout(watchdog);
    signal.removeEventListener("abort", stop);
    stop();
  }
}

export function parse(data: string): unknown {
  try {
    return JSON.parse(data) as unknown;
  } catch {
    return null;
  }
}

export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** A delay before the next try, which many clients don't begin at once. */
export function jittered(milliseconds: number): number {
  return milliseconds * (0.75 + Math.random() / 2);
}
