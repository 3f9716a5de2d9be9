/**
 * A browser opens six connections to an address over HTTP/1.1. Streams hold at most this many, all tabs together, so
 * that pages still load and requests still pass.
 */
const PLACES = 4;

/**
 * Runs `work` in one of the places for streams, which it holds until it ends, or in none when all are taken.
 *
 * Where a browser has no locks, which is on plain HTTP from another machine, tabs can't know of each other and each
 * has a place.
 */
export async function inPlace<T>(work: (hasPlace: boolean) => Promise<T>): Promise<T> {
  if (!("locks" in navigator)) return work(true);
  for (let place = 0; place < PLACES; place += 1) {
    const done = await navigator.locks.request(`stream-${String(place)}`, { ifAvailable: true }, async (lock) =>
      lock ? { outcome: await work(true) } : null,
    );
    if (done) return done.outcome;
  }
  return work(false);
}
