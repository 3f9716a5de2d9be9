"""The Lua scripts, each with the shared part in front."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Script:
    """A script's text and its SHA-1, by which the server knows it."""

    name: str
    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """The script ``<name>.lua`` of this package."""
    folder = files(__name__)
    text = "\n".join((folder / f"{part}.lua").read_text(encoding="utf-8") for part in ("common", name))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
