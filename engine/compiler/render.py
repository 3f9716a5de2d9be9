"""Plans as pictures for notebooks: a table of steps, and the arena over time."""

from __future__ import annotations

from html import escape

from engine.compiler.binding import Binding
from engine.compiler.describe import count_text, size_text
from engine.compiler.report import Names, StepReport, reports

_WIDTH, _HEIGHT, _MARGIN = 720, 240, 24
_HEADS = ("wave", "kernel", "computes", "reads", "moved", "flops")
_COLOURS = {
    "each": "#7aa6c2",
    "rows": "#8cb48c",
    "columns": "#c2a67a",
    "lanes": "#b08cb4",
    "finish": "#b4a08c",
    "chain": "#b48c94",
    "single": "#9a9a9a",
}


def html(binding: Binding, names: Names) -> str:
    """One row a step, and the arena below."""
    rows = "".join([_row(step) for step in reports(binding, names)])
    heads = "".join([f"<th>{head}</th>" for head in _HEADS])
    return (
        f"<table style='text-align:left;font-family:monospace'><thead><tr>{heads}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{svg(binding, names)}"
    )


def _row(step: StepReport) -> str:
    when = "once" if step.wave is None else str(step.wave)
    colour = _COLOURS.get(step.kind, "#9a9a9a")
    cells = [
        when,
        f"<span style='color:{colour}'>■</span> {escape(step.kernel)}",
        "<br>".join([escape(equation) for equation in step.computes]),
        escape(", ".join(step.reads)),
        size_text(step.moved),
        count_text(step.flops),
    ]
    return (
        "<tr style='vertical-align:top;white-space:nowrap'>"
        + "".join([f"<td>{cell}</td>" for cell in cells])
        + "</tr>"
    )


def svg(binding: Binding, names: Names) -> str:
    """Waves from left to right, the arena from bottom to top: each buffer where and while it lies there."""
    waves = max(len(binding.waves), 1)
    size = max(binding.arena_bytes - binding.pointer_bytes, 1)
    across, up = (_WIDTH - 2 * _MARGIN) / waves, (_HEIGHT - 2 * _MARGIN) / size
    boxes = []
    for step in reports(binding, names):
        for buffer in step.writes:
            if buffer.offset is None or buffer.first < 0:
                continue
            x = _MARGIN + buffer.first * across
            width = (buffer.last - buffer.first + 1) * across
            height = buffer.nbytes * up
            y = _HEIGHT - _MARGIN - (buffer.offset - binding.pointer_bytes) * up - height
            label = f"{buffer.name}: {size_text(buffer.nbytes)}, waves {buffer.first} to {buffer.last}"
            boxes.append(
                f"<rect x='{x:.1f}' y='{y:.1f}' width='{width:.1f}' height='{height:.1f}' "
                f"fill='{_COLOURS.get(step.kind, '#9a9a9a')}' fill-opacity='0.75' stroke='#fff' "
                f"stroke-width='0.5'><title>{escape(label)}</title></rect>"
            )
    text = f"arena {size_text(size)} over {len(binding.waves)} waves"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' "
        f"height='{_HEIGHT}' font-family='sans-serif' font-size='11'>"
        f"<rect x='{_MARGIN}' y='{_MARGIN}' width='{_WIDTH - 2 * _MARGIN}' height='{_HEIGHT - 2 * _MARGIN}' "
        f"fill='none' stroke='#ccc'/>{''.join(boxes)}"
        f"<text x='{_MARGIN}' y='16' fill='#666'>{text}</text></svg>"
    )
