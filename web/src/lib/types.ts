/** The shapes of the HTTP API that the dashboard reads. */

export type JobState = "queued" | "running" | "cancelling" | "paused" | "succeeded" | "failed" | "cancelled";

export const STATES: readonly JobState[] = [
  "queued",
  "running",
  "cancelling",
  "paused",
  "succeeded",
  "failed",
  "cancelled",
];
export const KINDS = ["train", "sample", "price", "compile"] as const;
export const TERMINAL: ReadonlySet<string> = new Set(["succeeded", "failed", "cancelled"]);

export interface Attempt {
  n: number;
  worker: string | null;
  started_at: string | null;
  ended_at: string | null;
  outcome: string | null;
}

export interface Failure {
  code: string;
  message: string;
}

export interface Job {
  id: string;
  kind: string;
  name: string | null;
  state: JobState;
  spec: Record<string, unknown>;
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
  attempt: number;
  attempts: Attempt[];
  failures: number;
  max_attempts: number;
  progress: { step: number; steps: number } | null;
  result: Record<string, unknown> | null;
  error: Failure | null;
  last_seq: number;
  queue_position: number | null;
  retry_of: string | null;
}

export interface JobPage {
  data: Job[];
  has_more: boolean;
  last_id?: string | null;
}

export interface JobEvent {
  seq: number;
  type: string;
  time: string;
  attempt: number;
  data: Record<string, unknown>;
}

export interface Model {
  id: string;
  alias?: string | null;
  job?: string | null;
  step?: number | null;
}

/** A problem document (RFC 9457) with the members that the service adds. */
export interface ProblemDocument {
  status?: number;
  title?: string;
  detail?: string;
  code?: string;
  param?: string | null;
  errors?: { param: string; value: string; rule: string }[];
  request_id?: string;
}
