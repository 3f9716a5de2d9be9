import { serverClock } from "../lib/api";

const ZONE = "gradmill.utc";

/** The server's time, ticking once a second, and the choice between local time and UTC. */
class Clock {
  /** Milliseconds since the epoch by the server's clock. */
  now = $state(Date.now());
  utc = $state(localStorage.getItem(ZONE) === "1");

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.tick();
    }, 1000);
    document.addEventListener("visibilitychange", () => {
      this.tick();
    });
  }

  tick(): void {
    this.now = Date.now() + serverClock.offset;
  }

  setUtc(utc: boolean): void {
    this.utc = utc;
    localStorage.setItem(ZONE, utc ? "1" : "0");
  }

  /** The zone's short name for times near now, such as UTC or GMT+13:45. */
  get zone(): string {
    const parts = this.#format({ timeZoneName: "short" }).formatToParts(this.now);
    return parts.find((part) => part.type === "timeZoneName")?.value ?? "UTC";
  }

  /** The time of day, with the date unless it is today. */
  label(milliseconds: number): string {
    if (!Number.isFinite(milliseconds)) return "–";
    const day = this.#format({ day: "numeric", month: "short", year: "numeric" });
    const time = this.#format({ hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
    const sameDay = day.format(milliseconds) === day.format(this.now);
    const date = this.#format({ day: "numeric", month: "short" }).format(milliseconds);
    return sameDay ? time.format(milliseconds) : `${date}, ${time.format(milliseconds)}`;
  }

  #format(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
    return new Intl.DateTimeFormat("en-GB", this.utc ? { ...options, timeZone: "UTC" } : options);
  }
}

export const clock = new Clock();
