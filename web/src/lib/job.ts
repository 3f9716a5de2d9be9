import { plain } from "./format";
import type { Job, JobState } from "./types";

/** What says what a job is about, where it has no name. */
const TELLING = ["publish_as", "expression", "preset"] as const;

/** What people call a job: its name, else the name its model is published under, or what it compiles or prices. */
export function titleOf(job: Pick<Job, "name" | "spec">, longest = 400): string {
  const contract = job.spec["contract"] as Record<string, unknown> | null | undefined;
  const values = [...TELLING.map((field) => job.spec[field]), contract?.["instrument"]];
  const told = values.find((value) => typeof value === "string" && value);
  return plain(job.name || (typeof told === "string" ? told : ""), longest) || "Untitled";
}

export type Action = "pause" | "resume" | "cancel" | "retry" | "delete";

/** What can be asked of a job in each state, in the order of the buttons. */
export const ACTIONS: Readonly<Record<JobState, readonly Action[]>> = {
  queued: ["pause", "cancel"],
  running: ["pause", "cancel"],
  cancelling: [],
  paused: ["resume", "cancel"],
  succeeded: ["delete"],
  failed: ["retry", "delete"],
  cancelled: ["retry", "delete"],
};
