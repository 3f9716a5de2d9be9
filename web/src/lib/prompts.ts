/** What a text begins with when its writer has not said. */

const LONGEST = 24;
/** A play's text names a speaker before each speech. */
const PLAY = /shakespeare/;

/** The opening words of a text's first line that has any; empty where the text has none. */
export function opening(text: string): string {
  const line = text.split(/\r?\n/).find((each) => each.trim() !== "") ?? "";
  if (line.length <= LONGEST) return line;
  const cut = line.lastIndexOf(" ", LONGEST);
  return line.slice(0, cut > 0 ? cut : LONGEST);
}

/** A prompt that a known corpus holds; empty for the others, which begin with a line break. */
export function promptOf(corpus: string): string {
  return PLAY.test(corpus) ? "ROMEO:" : "";
}

/** A prompt for the model that a job with this spec has trained: one that was tried, else one of its corpus. */
export function promptFor(spec: Record<string, unknown>): string {
  const tried = Array.isArray(spec["prompts"]) ? (spec["prompts"][0] as unknown) : undefined;
  if (typeof tried === "string" && tried.trim() !== "") return tried;
  const corpus = (spec["corpus"] ?? {}) as Record<string, unknown>;
  return promptOf(typeof corpus["name"] === "string" ? corpus["name"] : "");
}
