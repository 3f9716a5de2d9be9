"""Files, models, aliases and completions; keys; and how the service is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from service.client.errors import UnreachableError, refusal, stream_refusal
from service.client.frames import parse_frames
from service.client.transport import JSON_TYPE, Transport, as_json, segment
from service.wire import Json, JsonList

COMPLETION_S = 300.0


class _Unsized:
    """A stream that hides what only pretends to know its length, as a pipe does."""

    def __init__(self, content: BinaryIO) -> None:
        self._content = content

    def read(self, size: int) -> bytes:
        return self._content.read(size)


class Files(Transport):
    """The part of the client that is about uploaded texts."""

    def files(self) -> Iterator[Json]:
        """Every uploaded file, newest first."""
        return self._all("/v1/files")

    def file(self, file_id: str) -> Json:
        """What is known of a file."""
        found: Json = self._call("GET", f"/v1/files/{segment(file_id)}")
        return found

    def upload(self, path: Path, *, purpose: str = "corpus") -> Json:
        """Uploads a text file; the answer's ``id`` can stand as ``corpus.file`` in a train spec."""
        with path.open("rb") as content:
            return self.upload_stream(path.name, content, purpose=purpose)

    def upload_stream(self, name: str, content: BinaryIO, *, purpose: str = "corpus") -> Json:
        """Uploads what a stream holds, part by part."""
        files = {"file": (name, content if content.seekable() else _Unsized(content))}
        answer: Json = self._call("POST", "/v1/files", files=files, data={"purpose": purpose}, repeat=False)
        return answer

    def download_file(self, file_id: str, target: BinaryIO) -> int:
        """Writes a file's content to ``target``; the number of bytes."""
        return self._download(f"/v1/files/{segment(file_id)}/content", target)

    def delete_file(self, file_id: str) -> None:
        """Deletes a file; jobs that were accepted with it keep its text."""
        self._call("DELETE", f"/v1/files/{segment(file_id)}")


class Models(Transport):
    """The part of the client that is about published models."""

    def models(self) -> JsonList:
        """Every published model, newest first."""
        return list(self._all("/v1/models"))

    def model(self, name: str) -> Json:
        """A model by its id or alias."""
        found: Json = self._call("GET", f"/v1/models/{segment(name)}")
        return found

    def download_model(self, name: str, target: BinaryIO) -> int:
        """Writes a model's weights to ``target`` as safetensors; the number of bytes."""
        return self._download(f"/v1/models/{segment(name)}/weights", target)

    def delete_model(self, name: str) -> None:
        """Deletes a model with the aliases that name it."""
        self._call("DELETE", f"/v1/models/{segment(name)}")

    def aliases(self) -> dict[str, str]:
        """Every alias and the id of its model."""
        return {each["id"]: each["model"] for each in self._all("/v1/aliases")}

    def set_alias(self, alias: str, model: str) -> None:
        """Lets an alias name a model from now on."""
        self._call(
            "PUT", f"/v1/aliases/{segment(alias)}", content=as_json({"model": model}), headers=JSON_TYPE
        )

    def delete_alias(self, alias: str) -> None:
        """Takes an alias away; the model stays."""
        self._call("DELETE", f"/v1/aliases/{segment(alias)}")

    def complete(self, model: str, prompt: str, **options: Any) -> Json:
        """A completion in one piece; ``options`` are those of ``POST /v1/completions``."""
        body = {"model": model, "prompt": prompt, **options}
        answer: Json = self._call(
            "POST", "/v1/completions", content=as_json(body), headers=JSON_TYPE, timeout=COMPLETION_S
        )
        return answer

    def price(self, contract: Mapping[str, Any], *, wait_s: int = 60) -> Json:
        """A contract's price, waited for: the answer; the job itself if it takes longer."""
        headers = {**JSON_TYPE, "Prefer": f"wait={wait_s}"}
        answer: Json = self._call(
            "POST", "/v1/price", content=as_json(contract), headers=headers, timeout=wait_s + 10.0
        )
        return answer

    def stream_completion(self, model: str, prompt: str, **options: Any) -> Iterator[str]:
        """A completion piece by piece. Closing the iterator stops the generation."""
        body = {"model": model, "prompt": prompt, **options, "stream": True}
        timeout = httpx.Timeout(5.0, read=COMPLETION_S)
        try:
            with self._http.stream(
                "POST", "/v1/completions", content=as_json(body), headers=JSON_TYPE, timeout=timeout
            ) as answer:
                if answer.is_error:
                    answer.read()
                    raise refusal(answer)
                for frame in parse_frames(answer.iter_lines()):
                    if frame.data == "[DONE]":
                        return
                    piece = json.loads(frame.data)
                    if "error" in piece:
                        raise stream_refusal(piece["error"])
                    yield from (choice["text"] for choice in piece["choices"])
        except httpx.TransportError as error:
            raise UnreachableError(f"{self.url} broke off the completion: {error}") from error


class Service(Transport):
    """The part of the client that is about the service itself."""

    def ready(self) -> Json:
        """What ``/readyz`` says: the store, Redis, live workers per lane. ServerFaultError if not ready."""
        answer: Json = self._call("GET", "/readyz", repeat=False)
        return answer

    def version(self) -> str:
        """The version of the service."""
        version: str = self._call("GET", "/version")["version"]
        return version

    def queues(self) -> JsonList:
        """How many jobs wait in each lane, and for how long."""
        found: JsonList = self._call("GET", "/v1/queues")["data"]
        return found

    def workers(self) -> JsonList:
        """The workers that live, and what they do."""
        found: JsonList = self._call("GET", "/v1/workers")["data"]
        return found

    def api_keys(self) -> JsonList:
        """Every API key, without its secret. Needs an admin's key, as the next two do."""
        return list(self._all("/v1/keys"))

    def create_key(self, **options: Any) -> Json:
        """A new key: name, scopes, owner, expires_in_s, limits. Its ``secret`` is shown this once."""
        made: Json = self._call("POST", "/v1/keys", content=as_json(options), headers=JSON_TYPE, repeat=False)
        return made

    def revoke_key(self, key_id: str) -> None:
        """Ends a key at once."""
        self._call("DELETE", f"/v1/keys/{segment(key_id)}")
