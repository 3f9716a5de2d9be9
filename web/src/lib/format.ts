const integers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const NONE = "–";

export function integer(value: number | null | undefined): string {
  return value === null || value === undefined || !Number.isFinite(value) ? NONE : integers.format(value);
}

/** A whole number of things: 1 event, 2 events. */
export function count(number: number, thing: string): string {
  return `${integer(number)} ${thing}${number === 1 ? "" : "s"}`;
}

/** A large count such as tokens per second: 18.2K. */
export function short(value: number | null | undefined): string {
  return value === null || value === undefined || !Number.isFinite(value) ? NONE : compact.format(value);
}

/** A measured value with four significant digits; "not finite" is said in words. */
export function measure(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return NONE;
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e");
  return value.toPrecision(digits);
}

/** An axis label: as few digits as tell neighbouring ticks apart. */
export function tick(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e4) return compact.format(value);
  if (size !== 0 && size < 1e-3) return value.toExponential(0).replace("e+", "e");
  return String(Number(value.toPrecision(6)));
}

/** Seconds as people say them: 850 ms, 12.4 s, 3 m 05 s, 2 h 07 m, 3 d 4 h. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  const s = Math.max(0, seconds);
  if (s < 1) return `${String(Math.round(s * 1000))} ms`;
  if (s < 59.95) return `${s.toFixed(1)} s`;
  return split(Math.round(s));
}

/** Whole seconds, for values that tick. */
export function clock(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NONE;
  const s = Math.max(0, Math.round(seconds));
  return s < 60 ? `${String(s)} s` : split(s);
}

function split(s: number): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const minutes = Math.floor(s / 60);
  const hours = Math.floor(minutes / 60);
  if (minutes < 60) return `${String(minutes)} m ${two(s % 60)} s`;
  if (hours < 48) return `${String(hours)} h ${two(minutes % 60)} m`;
  return `${String(Math.floor(hours / 24))} d ${String(hours % 24)} h`;
}

/** Milliseconds since the epoch, or NaN when there is no time. */
export function instant(time: string | null | undefined): number {
  return time ? Date.parse(time) : NaN;
}

/** Seconds between two server times; NaN when one is missing. */
export function between(start: string | null | undefined, end: string | null | undefined): number {
  return (instant(end) - instant(start)) / 1000;
}

const ESCAPE = String.fromCharCode(27);
const ANSI = new RegExp(`${ESCAPE}(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\u0007]*(?:\\u0007|${ESCAPE}\\\\)|[@-Z\\\\-_])`, "g");
const UNSAFE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g; // eslint-disable-line no-control-regex

/** Text from outside without terminal codes, control characters and marks that reverse the reading order. */
export function plain(text: string, longest = Infinity): string {
  const cleaned = text.replace(ANSI, "").replace(UNSAFE, "\ufffd");
  return cleaned.length > longest ? `${cleaned.slice(0, longest)}…` : cleaned;
}
