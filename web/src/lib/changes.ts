import { Problem } from "./api";
import { FIRST_DELAY_MS, jittered, LONGEST_DELAY_MS, parse, pause, readConnection, REFUSALS } from "./connection";
import { inPlace } from "./places";

/** How soon a tab without a stream looks for a free place. */
const PLACE_MS = 10_000;

export interface Watcher {
  /** Some job changed its state, or may have done so: the list is to be read again. */
  onNews: () => void;
  /** Whether changes are told from now on; if not, only asking shows them. */
  onLive: (live: boolean) => void;
}

/** Follows the changes of state of all jobs until `signal`, going on after the last one whenever the stream breaks. */
export async function followChanges(watcher: Watcher, signal: AbortSignal): Promise<void> {
  let after = "";
  let delay = FIRST_DELAY_MS;
  while (!signal.aborted) {
    let wait = 0;
    try {
      await inPlace(async (hasPlace) => {
        if (!hasPlace) {
          wait = PLACE_MS;
          return;
        }
        const query = new URLSearchParams({ jobs: "*", ...(after ? { after } : {}) });
        await readConnection(
          `/v1/events?${query.toString()}`,
          {},
          signal,
          () => {
            delay = FIRST_DELAY_MS;
            watcher.onLive(true);
          },
          (frame) => {
            after = frame.id ?? (parse(frame.data) as { after?: string } | null)?.after ?? after;
            watcher.onNews();
            return undefined;
          },
        );
      });
    } catch (error) {
      if (error instanceof Problem && REFUSALS.has(error.status)) break;
    }
    if (signal.aborted) return;
    watcher.onLive(false);
    await pause(wait || jittered(delay), signal);
    delay = Math.min(delay * 2, LONGEST_DELAY_MS);
  }
  watcher.onLive(false);
}
