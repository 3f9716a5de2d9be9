import type { OpenApi } from "./schema";
import type { Job, JobPage, Model, ProblemDocument } from "./types";

/** A refusal or failure of the service, as its problem document told it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly document: ProblemDocument,
  ) {
    super(document.detail ?? document.title ?? `The service answered ${String(status)}.`);
  }

  /** What is wrong with each field of the request, by the field's dotted path. */
  get fields(): Map<string, string> {
    const found = new Map<string, string>();
    for (const { param, value, rule } of this.document.errors ?? []) found.set(param, `${value}: ${rule}`);
    if (!found.size && this.document.param) found.set(this.document.param, this.message);
    return found;
  }
}

const KEY = "gradmill.key";

export function apiKey(): string | null {
  return sessionStorage.getItem(KEY);
}

export function setApiKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

/** How far the server's clock is ahead of this one, in milliseconds; from the Date header of answers. */
export const serverClock = { offset: 0 };

/** Called when the service wants a key; set by the page that asks for it. */
export const onUnauthorised = { call: (): void => undefined };

export async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = apiKey();
  if (key) headers.set("Authorization", `Bearer ${key}`);
  const started = Date.now();
  const response = await fetch(path, { ...init, headers });
  const date = Date.parse(response.headers.get("Date") ?? "");
  if (Number.isFinite(date)) serverClock.offset = date + 500 - (started + Date.now()) / 2;
  if (response.status === 401) onUnauthorised.call();
  if (!response.ok && response.status !== 304) throw await problemOf(response);
  return response;
}

async function problemOf(response: Response): Promise<Problem> {
  const fallback: ProblemDocument = { title: `The service answered ${String(response.status)}.` };
  const requestId = response.headers.get("X-Request-ID");
  const document = (await response.json().catch(() => fallback)) as ProblemDocument;
  return new Problem(response.status, requestId ? { request_id: requestId, ...document } : document);
}

/** A new idempotency key. (`crypto.randomUUID` is missing where the page came over plain HTTP.) */
export function freshKey(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36)).join("-");
}

async function json<T>(path: string, init?: RequestInit): Promise<T> {
  return (await (await request(path, init)).json()) as T;
}

function posting(body?: unknown, headers: Record<string, string> = {}): RequestInit {
  if (body === undefined) return { method: "POST", headers };
  return {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  };
}

/** What a job would cost; which numbers there are depends on its kind. */
export type Estimate = Partial<Record<"parameters" | "seconds" | "flops" | "memory_bytes", number>>;

export const jobPath = (id: string): string => `/v1/jobs/${encodeURIComponent(id)}`;

export const api = {
  jobs: (query: URLSearchParams, signal?: AbortSignal): Promise<JobPage> =>
    json(`/v1/jobs?${query.toString()}`, signal ? { signal } : {}),
  job: (id: string): Promise<Job> => json(jobPath(id)),
  cancel: (id: string): Promise<Job> => json(`${jobPath(id)}/cancel`, posting()),
  pause: (id: string): Promise<Job> => json(`${jobPath(id)}/pause`, posting()),
  resume: (id: string): Promise<Job> => json(`${jobPath(id)}/resume`, posting()),
  remove: (id: string): Promise<Response> => request(jobPath(id), { method: "DELETE" }),
  retry: (id: string): Promise<Job> => json(`${jobPath(id)}/retry`, posting(undefined, { "Idempotency-Key": freshKey() })),
  submit: (body: unknown, idempotencyKey: string): Promise<Job> =>
    json("/v1/jobs", posting(body, { "Idempotency-Key": idempotencyKey })),
  /** The service's description of itself. */
  openapi: (): Promise<OpenApi> => json("/openapi.json"),
  /** What the service makes of a request, without queueing anything. */
  estimate: (body: unknown): Promise<{ estimate?: Estimate }> =>
    json("/v1/jobs?dry_run=true", posting(body)),
  artifact: (id: string, blob: string): Promise<Response> =>
    request(`${jobPath(id)}/artifacts/${encodeURIComponent(blob)}/content`),
  upload: (file: File): Promise<{ id: string; filename?: string }> => {
    const form = new FormData();
    form.set("purpose", "corpus");
    form.set("file", file);
    return json("/v1/files", { method: "POST", body: form });
  },
  models: (): Promise<{ data: Model[] }> => json("/v1/models"),
  complete: (body: unknown, signal: AbortSignal): Promise<Response> =>
    request("/v1/completions", { ...posting(body, { Accept: "text/event-stream" }), signal }),
};

/** What went wrong, in words for the page. */
export function explain(error: unknown): { title: string; detail: string; requestId: string | null } {
  if (error instanceof Problem) {
    const { title, detail, request_id } = error.document;
    return {
      title: title ?? `The service answered ${String(error.status)}`,
      detail: detail ?? "",
      requestId: request_id ?? null,
    };
  }
  if (error instanceof TypeError) {
    return {
      title: "The service cannot be reached",
      detail: "Is it still running? Start it with gradmill up.",
      requestId: null,
    };
  }
  return { title: "Something went wrong", detail: error instanceof Error ? error.message : "", requestId: null };
}
