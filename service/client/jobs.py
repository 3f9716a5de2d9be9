"""Jobs: submit, read, list, change, and what they leave behind."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO

from service.client.errors import RefusedError
from service.client.transport import JSON_TYPE, Transport, as_json, given, segment
from service.wire import Job, JobPage, Json, JsonList, Series

WAIT_MARGIN_S = 30.0  # that an answer may take longer than the server was asked to wait


class Jobs(Transport):
    """The part of the client that is about jobs."""

    def submit(
        self,
        kind: str,
        spec: Mapping[str, Any],
        *,
        wait_s: int | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> Job:
        """Creates a job; ``options`` are name, metadata, priority, timeout_s, max_attempts.

        Sent again with the same key when no answer came, so at most one job comes of it. With ``wait_s`` the
        answer comes when the job has ended or the time, at most 60 s, is over.
        """
        body = {"kind": kind, "spec": spec, **given(**options)}
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4()), **JSON_TYPE}
        job: Job = self._waiting("POST", "/v1/jobs", wait_s, content=as_json(body), headers=headers)
        return job

    def estimate(self, kind: str, spec: Mapping[str, Any]) -> Json:
        """The normalised spec and its estimated cost; nothing is queued."""
        body = {"kind": kind, "spec": spec}
        answer: Json = self._call(
            "POST", "/v1/jobs", content=as_json(body), headers=JSON_TYPE, params={"dry_run": "true"}
        )
        return answer

    def price(self, contract: Mapping[str, Any], *, wait_s: int = 30) -> Json:
        """The price of a contract and its market; the job that computes it when the time is over first.

        ``{"contracts": […]}`` prices many.
        """
        content = as_json(contract)
        answer: Json = self._waiting("POST", "/v1/price", wait_s, content=content, headers=JSON_TYPE)
        return answer

    def get(self, job_id: str, *, wait_s: int | None = None) -> Job:
        """The job; with ``wait_s`` when it has ended or the time, at most 60 s, is over."""
        job: Job = self._waiting("GET", f"/v1/jobs/{segment(job_id)}", wait_s, headers={})
        return job

    def _waiting(
        self, method: str, path: str, wait_s: int | None, headers: Mapping[str, str], **options: Any
    ) -> Any:
        if wait_s is None:
            return self._call(method, path, headers=headers, **options)
        headers = {**headers, "Prefer": f"wait={wait_s}"}
        return self._call(method, path, headers=headers, timeout=wait_s + WAIT_MARGIN_S, **options)

    def list(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        name: str | None = None,
        metadata: Mapping[str, str] | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
        limit: int = 20,
        after: str | None = None,
        order: str | None = None,
    ) -> JobPage:
        """One page of the jobs that fit every filter, newest first.

        ``state`` and ``kind`` may be several, separated by commas; times are aware of their zone;
        ``after`` is the last id of the page before.
        """
        params = given(
            state=state,
            kind=kind,
            name=name,
            created_after=created_after and created_after.isoformat(),
            created_before=created_before and created_before.isoformat(),
            limit=limit,
            after=after,
            order=order,
        )
        params |= {f"metadata[{key}]": value for key, value in (metadata or {}).items()}
        page: JobPage = self._call("GET", "/v1/jobs", params=params)
        return page

    def jobs(self, **filters: Any) -> Iterator[Job]:
        """Every job that fits the filters of ``list``, page by page."""
        page = self.list(**{"limit": 100, **filters})
        yield from page["data"]
        while page["has_more"]:
            page = self.list(**{"limit": 100, **filters, "after": page["data"][-1]["id"]})
            yield from page["data"]

    def cancel(self, job_id: str) -> Job:
        """Asks a job to end; of a job that has ended it changes nothing."""
        job: Job = self._call("POST", f"/v1/jobs/{segment(job_id)}/cancel")
        return job

    def pause(self, job_id: str) -> Job:
        """Asks a job to checkpoint and wait. RefusedError when it has ended."""
        job: Job = self._call("POST", f"/v1/jobs/{segment(job_id)}/pause")
        return job

    def resume(self, job_id: str) -> Job:
        """Queues a paused job again; it goes on from its last checkpoint."""
        job: Job = self._call("POST", f"/v1/jobs/{segment(job_id)}/resume")
        return job

    def delete(self, job_id: str) -> None:
        """Deletes a job that has ended. RefusedError for any other."""
        self._call("DELETE", f"/v1/jobs/{segment(job_id)}")

    def retry(self, job_id: str) -> Job:
        """A new job that goes on where a failed or cancelled one was; its ``retry_of`` names the old."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        job: Job = self._call("POST", f"/v1/jobs/{segment(job_id)}/retry", headers=headers)
        return job

    def repeat(self, job_id: str) -> Job:
        """A new job that does a succeeded one once more, from its beginning; ``repeat_of`` names the old."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        job: Job = self._call("POST", f"/v1/jobs/{segment(job_id)}/repeat", headers=headers)
        return job

    # What a job leaves behind ----------------------------------------------------------------------------

    def metrics(
        self,
        job_id: str,
        keys: Iterable[str] = (),
        *,
        points: int | None = None,
        from_step: int | None = None,
        to_step: int | None = None,
    ) -> Series:
        """The series of a job: name → {"steps": […], "values": […]}."""
        params = given(keys=",".join(keys) or None, points=points, from_step=from_step, to_step=to_step)
        series: Series = self._call("GET", f"/v1/jobs/{segment(job_id)}/metrics", params=params)["series"]
        return series

    def logs(self, job_id: str, *, start: int = 0) -> bytes:
        """The job's log as text in UTF-8 from byte ``start`` on, its last bytes where that is negative."""
        headers = {"Range": f"bytes={start}" if start < 0 else f"bytes={start}-"} if start else {}
        try:
            return self._request("GET", f"/v1/jobs/{segment(job_id)}/logs", headers=headers).content
        except RefusedError as error:
            if error.status != 416:
                raise
            return b""  # nothing new

    def checkpoints(self, job_id: str) -> JsonList:
        """The manifests of a job's checkpoints, in order of their steps."""
        manifests: JsonList = self._call("GET", f"/v1/jobs/{segment(job_id)}/checkpoints")["data"]
        return manifests

    def artifacts(self, job_id: str) -> JsonList:
        """The files that a job left behind: id, name, type, bytes, sha256."""
        found: JsonList = self._call("GET", f"/v1/jobs/{segment(job_id)}/artifacts")["data"]
        return found

    def download_artifact(self, job_id: str, artifact_id: str, target: BinaryIO) -> int:
        """Writes an artifact to ``target``; the number of bytes."""
        return self._download(f"/v1/jobs/{segment(job_id)}/artifacts/{segment(artifact_id)}/content", target)

    def download_checkpoint(self, job_id: str, step: int, target: BinaryIO) -> int:
        """Writes the weights of a checkpoint to ``target`` as safetensors; the number of bytes."""
        return self._download(f"/v1/jobs/{segment(job_id)}/checkpoints/{step}/weights", target)
