import { plain } from "./format";
import type { Job, JobState } from "./types";

/** What people call a job: its name, else the name its model is published under. */
export function titleOf(job: Pick<Job, "name" | "spec">, longest = 400): string {
  const alias = job.spec["publish_as"];
  return plain(job.name || (typeof alias === "string" ? alias : ""), longest) || "Untitled";
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
