"""Plays in Markdown turned into a plain transcript."""

from __future__ import annotations

import re
from itertools import pairwise

_SPEAKER = re.compile(r"\*\*([^*]+)\*\*[ ]*\n?")
_DIRECTION = re.compile(r"_+\\?\[[^\]]*\]?_*|_+[^_]*_+|(?<!\*)\*[^*]+\*|\[[^\]]*\]")
_BLANK_LINES = re.compile(r"\n\s*\n")
_PLAIN = str.maketrans({'"': "'", "—": "--"} | dict.fromkeys("\\_*[]"))


def transcript(markdown: str) -> str:
    """Speeches as ``SPEAKER:`` and their lines, a blank line between speeches; ends with a newline.

    In the source ``#`` starts a heading, ``**NAME**`` a speech, and ``_…_`` or ``*…*`` encloses a stage
    direction, also inside a speech. A paragraph without a speaker continues the speech before it.
    """
    speeches: list[list[str]] = []
    for paragraph in _BLANK_LINES.split(markdown):
        if paragraph.lstrip().startswith("#"):
            continue
        marks = [*_SPEAKER.finditer(paragraph)]
        if speeches:
            speeches[-1] += _lines(paragraph[: marks[0].start() if marks else None])
        ends = [mark.start() for mark in marks] + [len(paragraph)]
        for mark, (_, end) in zip(marks, pairwise(ends), strict=True):
            speeches.append([f"{mark[1].translate(_PLAIN).strip()}:", *_lines(paragraph[mark.end() : end])])
    return "\n".join("\n".join(speech) + "\n" for speech in speeches if len(speech) > 1)


def _lines(passage: str) -> list[str]:
    """The spoken lines of ``passage``. Numbered lines (stage lists) are dropped."""
    spoken = _DIRECTION.sub("", passage).translate(_PLAIN)
    lines = (" ".join(line.split()) for line in spoken.splitlines())
    return [line for line in lines if line and not any(map(str.isdigit, line))]
