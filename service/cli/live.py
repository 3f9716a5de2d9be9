"""The live display of a job on a terminal: bar, curve, numbers, time left, the last sample."""

from __future__ import annotations

import os

from rich.console import Console, Group
from rich.live import Live as RichLive
from rich.panel import Panel
from rich.text import Text

from service.cli.follow import Picture, progress_line, state_line
from service.cli.text import clean, sparkline
from service.wire import Event

SAMPLE_LINES = 12
BAR_WIDTH = 60
REDRAWS_PER_S = 8


class Live:
    """Draws on stderr, at most eight times a second; what it showed last stays."""

    def __init__(self) -> None:
        console = Console(stderr=True, no_color="NO_COLOR" in os.environ, highlight=False)
        self._live = RichLive(console=console, refresh_per_second=REDRAWS_PER_S)

    def __enter__(self) -> Live:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def show(self, picture: Picture, event: Event) -> None:
        self._live.update(draw(picture))


def draw(picture: Picture) -> Group:
    """The whole display."""
    status = state_line(picture) + (f" · {picture.stage}" if picture.stage else "")
    parts: list[Text | Panel] = [Text(status, style="bold")]
    if picture.steps:
        parts += [bar(picture.step / picture.steps), Text(progress_line(picture))]
    if len(picture.losses) > 1:
        parts.append(Text(f"loss {sparkline([loss for _, loss in picture.losses])}"))
    if picture.sample:
        lines = clean(picture.sample["text"], lines=True).splitlines()
        title = f"sample at step {picture.sample['step']}"
        parts.append(Panel(Text("\n".join(lines[:SAMPLE_LINES])), title=title, title_align="left", width=80))
    return Group(*parts)


def bar(share: float) -> Text:
    """How much is done, as a line."""
    done = round(BAR_WIDTH * share)
    return Text.assemble(("━" * done, "green"), ("━" * (BAR_WIDTH - done), "dim"), f" {share:4.0%}")
