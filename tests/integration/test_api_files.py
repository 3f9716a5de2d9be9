"""Uploaded texts: streamed to the store, checked, listed, downloaded, trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_rig import Api, train_with
from openai import OpenAI

from service.client import Client


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    api.redis.flushall()


def upload(api: Api, content: bytes, name: str = "a.txt", **fields: str) -> Any:
    return api.http.post("/v1/files", files={"file": (name, content)}, data=fields)


def test_a_file_is_stored_and_described(api: Api) -> None:
    content = "Grüße, Welt\n".encode() * 100
    answer = upload(api, content, purpose="corpus")
    file = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/v1/files/{file['id']}"
    assert (file["bytes"], file["characters"], file["vocabulary"]) == (len(content), 1200, 11)
    assert (file["filename"], file["purpose"], file["status"]) == ("a.txt", "corpus", "processed")
    assert file["sha256"] == hashlib.sha256(content).hexdigest()
    assert api.http.get(answer.headers["location"]).json() == file
    assert api.blobs.get(file["sha256"]) == content


def test_an_uploaded_file_can_be_trained_on(api: Api) -> None:
    file = upload(api, b"to be or not to be " * 30).json()
    spec = api.submit(train_with(corpus={"file": file["id"]}))["spec"]
    assert spec["corpus"] == {"file": file["id"], "blob": file["sha256"]}
    too_long = train_with(corpus={"file": file["id"]}, model={"name": "bigram", "seq_len": 600})
    answer = api.http.post("/v1/jobs", json=too_long)
    assert "which has 570 characters" in answer.json()["detail"]


@pytest.mark.parametrize(
    "content, status, rule",
    [
        (b"\x89PNG\r\n\x1a\n\0\0", 415, "text in UTF-8"),
        (b"fine\0not", 415, "zero byte"),
        (b"caf\xe9", 415, "UTF-8"),
        ("€".encode()[:2], 415, "UTF-8"),
        (b"", 422, "at least one character"),
    ],
    ids=["png", "zero", "latin-1", "cut", "empty"],
)
def test_what_is_no_text_is_refused_and_leaves_nothing(
    api: Api, content: bytes, status: int, rule: str
) -> None:
    answer = upload(api, content)
    assert (answer.status_code, answer.json()["param"]) == (status, "file")
    assert rule in answer.json()["errors"][0]["rule"]
    assert api.http.get("/v1/files").json()["data"] == []
    assert list((api.data / "blobs" / "partial").iterdir()) == []


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 1_000_000])
def test_every_size_arrives_whole(api: Api, size: int) -> None:
    content = ("äbc" * size).encode()[: size - size % 2]
    content += b"x" * (size - len(content)) if size % 2 else b""
    content = content.decode("utf-8", "ignore").encode() or b"x"
    file = upload(api, content).json()
    assert api.http.get(f"/v1/files/{file['id']}/content").content == content


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with Api(tmp_path, upload_limit=100_000) as api:
        assert upload(api, b"x" * 100_000).status_code == 201
        answer = upload(api, b"x" * 100_001)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")

        def parts() -> Iterator[bytes]:
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
            for _ in range(100):
                yield b"x" * 65_536

        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        assert api.http.post("/v1/files", content=parts(), headers=headers).status_code == 413
        assert list((tmp_path / "blobs" / "partial").iterdir()) == []


@pytest.mark.parametrize(
    "headers, content",
    [
        ({"Content-Type": "application/json"}, b"{}"),
        ({"Content-Type": "multipart/form-data"}, b"x"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"no form"),
        ({"Content-Type": "multipart/form-data; boundary=b"}, b"--b--\r\n"),
        (
            {"Content-Type": "multipart/form-data; boundary=b"},
            b'--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\ncorpus\r\n--b--\r\n',
        ),
        (
            {"Content-Type": "multipart/form-data; boundary=b"},
            b'--b\r\nContent-Disposition: form-data; name="p"\r\n\r\n' + b"x" * 5000 + b"\r\n--b--\r\n",
        ),
        (
            {"Content-Type": "multipart/form-data; boundary=b"},
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhalf',
        ),
    ],
)
def test_a_bad_form_is_refused(api: Api, headers: dict[str, str], content: bytes) -> None:
    answer = api.http.post("/v1/files", content=content, headers=headers)
    assert answer.status_code in (400, 415, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.http.get("/v1/files").json()["data"] == []


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "..\\..\\x", "/abs", "a\x01b", "x" * 300, "..", "%2e%2e/x"]
)
def test_names_are_only_ever_shown(api: Api, name: str) -> None:
    file = upload(api, b"text", name).json()
    assert "/" not in file["filename"]
    assert "\\" not in file["filename"]
    assert len(file["filename"]) <= 255
    disposition = api.http.get(f"/v1/files/{file['id']}/content").headers["content-disposition"]
    assert disposition == f'attachment; filename="{file["id"]}.txt"'


@pytest.mark.parametrize(
    "given, status, expected",
    [
        ("bytes=0-3", 206, b"0123"),
        ("bytes=7-", 206, b"789"),
        ("bytes=-2", 206, b"89"),
        ("bytes=5-99", 206, b"56789"),
        ("bytes=0-", 200, b"0123456789"),
        ("bytes=-99", 200, b"0123456789"),
        ("bytes=10-", 416, b""),
        ("bytes=5-2", 200, b"0123456789"),
        (f"bytes={'9' * 5000}-", 200, b"0123456789"),
        (f"bytes=0-{'9' * 5000}", 200, b"0123456789"),
        (f"bytes=-{'9' * 5000}", 200, b"0123456789"),
        ("bytes=٣-", 200, b"0123456789"),
        ("bytes=0-1,3-4", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
    ],
)
def test_downloads_have_ranges(api: Api, given: str, status: int, expected: bytes) -> None:
    file = upload(api, b"0123456789").json()
    headers = {"Range": given.encode()}
    answer = api.http.get(f"/v1/files/{file['id']}/content", headers=headers)
    assert (answer.status_code, answer.content) == (status, expected)
    assert answer.headers["etag"] == f'"{file["sha256"]}"'
    assert answer.headers.get("content-type", "application/octet-stream") == "application/octet-stream"


def test_a_range_of_another_content_is_not_taken(api: Api) -> None:
    file = upload(api, b"0123456789").json()
    headers = {"Range": "bytes=0-1", "If-Range": '"other"'}
    answer = api.http.get(f"/v1/files/{file['id']}/content", headers=headers)
    assert (answer.status_code, answer.content) == (200, b"0123456789")


def test_a_deleted_file_is_gone_and_its_jobs_stay(api: Api) -> None:
    file = upload(api, b"text " * 50).json()
    job = api.submit(train_with(corpus={"file": file["id"]}))
    assert api.http.delete(f"/v1/files/{file['id']}").json()["deleted"] is True
    assert api.http.get(f"/v1/files/{file['id']}").status_code == 404
    assert api.http.get("/v1/files").json()["data"] == []
    assert api.blobs.get(job["spec"]["corpus"]["blob"])


def test_a_collected_content_is_410(api: Api) -> None:
    file = upload(api, b"soon gone").json()
    api.blobs.delete(file["sha256"])
    assert api.http.get(f"/v1/files/{file['id']}/content").status_code == 410


def test_files_by_the_openai_client_and_our_own(api: Api, tmp_path: Path) -> None:
    text = tmp_path / "mine.txt"
    text.write_text("all the world's a stage")
    with OpenAI(base_url=f"{api.url}/v1", api_key="none") as client, Client(api.url) as own:
        first = client.files.create(file=text, purpose="fine-tune")
        second = own.upload(text)
        assert (first.filename, first.bytes, first.purpose) == ("mine.txt", 23, "fine-tune")
        assert [file.id for file in client.files.list(limit=1)] == [second["id"], first.id]
        assert [file.id for file in client.files.list(limit=1, purpose=first.purpose)] == [first.id]
        assert client.files.content(first.id).read() == text.read_bytes()
        assert client.files.delete(first.id).deleted


def test_a_damaged_file_is_never_handed_out(api: Api) -> None:
    file = upload(api, b"once whole " * 100).json()
    path = api.blobs.path(file["sha256"])
    path.write_bytes(b"once hole. " * 100)
    for headers in ({}, {"Range": "bytes=10-19"}):
        answer = api.http.get(f"/v1/files/{file['id']}/content", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (410, "gone")
    again = upload(api, b"once whole " * 100).json()
    assert api.http.get(f"/v1/files/{file['id']}/content").content == b"once whole " * 100
    assert again["sha256"] == file["sha256"]


@pytest.mark.parametrize("boundary", ["b" * 300, "b" * 10_000])
def test_a_boundary_that_is_too_long_is_refused(api: Api, boundary: str) -> None:
    kind = f"multipart/form-data; boundary={boundary}"
    answer = api.http.post("/v1/files", content=b"x", headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")
    assert answer.headers["x-content-type-options"] == "nosniff"
