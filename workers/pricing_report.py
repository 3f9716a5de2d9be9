"""The six-panel report of a simulated price: one SVG file that needs nothing else.

Paths, payoffs, the asset at the end, convergence, Greeks with their intervals, and the answer in words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT = 360, 240  # of a panel
MARGIN = (46.0, 14.0, 34.0, 24.0)  # left, right, top, bottom
Z95 = 1.96
BLUE, ORANGE, GREY = "#0072b2", "#b34700", "#565b66"


def report_of(answer: dict[str, Any], title: str) -> str:
    """The report of an answer that has charts."""
    charts = answer["charts"]
    panels = [
        _fan(charts["fan"]),
        _histogram("Discounted payoffs", charts["payoffs"]),
        _histogram("The asset at the end", charts["terminal"]),
        _convergence(answer),
        _greeks(answer["greeks"]),
        _words(answer),
    ]
    placed = [
        f'<g transform="translate({k % 3 * WIDTH},{30 + k // 3 * HEIGHT})">{panel}</g>'
        for k, panel in enumerate(panels)
    ]
    head = f'<text x="12" y="22" font-size="16" font-weight="600">{escape(title)}</text>'
    size = f'viewBox="0 0 {3 * WIDTH} {2 * HEIGHT + 40}"'
    style = 'font-family="system-ui, sans-serif" font-size="11" fill="#191c23"'
    ground = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{ground}{head}{"".join(placed)}</svg>\n'


class _Axes:
    """A panel's frame: places of values, and the labels of its ends."""

    def __init__(self, title: str, x: tuple[float, float], y: tuple[float, float]) -> None:
        left, right, top, bottom = MARGIN
        self.x = _scale(x, (left, WIDTH - right))
        self.y = _scale(y, (HEIGHT - bottom, top))
        labels = [
            (left, HEIGHT - 8.0, x[0], "start"),
            (WIDTH - right, HEIGHT - 8.0, x[1], "end"),
            (left - 4, HEIGHT - bottom, y[0], "end"),
            (left - 4, top + 8, y[1], "end"),
        ]
        ends = "".join(_text(at, up, f"{value:.4g}", anchor, GREY) for at, up, value, anchor in labels)
        frame = f'<path d="M{left},{top}V{HEIGHT - bottom}H{WIDTH - right}" fill="none" stroke="#dfe2e9"/>'
        self.parts = [f'<text x="{left}" y="18" font-weight="600">{escape(title)}</text>', frame, ends]

    def line(
        self, xs: Sequence[float], ys: Sequence[float], colour: str, width: float, opacity: float = 1.0
    ) -> None:
        points = "L".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, ys, strict=True))
        style = f'fill="none" stroke="{colour}" stroke-width="{width}" opacity="{opacity}"'
        self.parts.append(f'<path d="M{points}" {style}/>')

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], opacity: float) -> None:
        there = [f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, high, strict=True)]
        back = [f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in zip(xs, low, strict=True)]
        path = "L".join([*there, *reversed(back)])
        self.parts.append(f'<path d="M{path}Z" fill="{BLUE}" opacity="{opacity}"/>')

    def drawn(self) -> str:
        return "".join(self.parts)


def _scale(values: tuple[float, float], places: tuple[float, float]) -> Callable[[float], float]:
    low, high = values
    span = high - low or 1.0
    return lambda value: places[0] + (value - low) / span * (places[1] - places[0])


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#191c23") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _fan(fan: dict[str, Any]) -> str:
    times, quantiles = fan["times"], fan["quantiles"]
    values = [*quantiles["0.05"], *quantiles["0.95"], *[x for path in fan["paths"] for x in path]]
    axes = _Axes("Paths", (0.0, times[-1]), (min(values), max(values)))
    axes.band(times, quantiles["0.05"], quantiles["0.95"], 0.12)
    axes.band(times, quantiles["0.25"], quantiles["0.75"], 0.2)
    for path in fan["paths"]:
        axes.line(times, path, BLUE, 0.7, 0.4)
    axes.line(times, quantiles["0.5"], BLUE, 1.8)
    return axes.drawn()


def _histogram(title: str, bins: dict[str, Any]) -> str:
    counts, low, high = bins["counts"], bins["low"], bins["high"]
    axes = _Axes(title, (low, high), (0.0, float(max(counts))))
    width = (high - low) / len(counts)
    for k, count in enumerate(counts):
        x, y = axes.x(low + k * width), axes.y(count)
        box = (
            f'width="{max(axes.x(low + (k + 1) * width) - x - 0.6, 0.3):.1f}" height="{axes.y(0.0) - y:.1f}"'
        )
        axes.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" {box} fill="{BLUE}"/>')
    return axes.drawn()


def _convergence(answer: dict[str, Any]) -> str:
    last = {"n": answer["n_paths"], "price": answer["price"], "se": answer["se"]}
    rows = [row for row in answer["convergence"] if None not in row.values()] or [last]
    ns, prices = [float(row["n"]) for row in rows], [row["price"] for row in rows]
    low = [row["price"] - Z95 * row["se"] for row in rows]
    high = [row["price"] + Z95 * row["se"] for row in rows]
    exact = answer["closed_form"]
    known = [] if exact is None else [exact["value"]]
    axes = _Axes("Convergence, 95 % band", (0.0, ns[-1]), (min(low + known), max(high + known)))
    axes.band(ns, low, high, 0.18)
    axes.line(ns, prices, BLUE, 1.8)
    if exact is not None:
        axes.line([0.0, ns[-1]], [exact["value"]] * 2, ORANGE, 1.2)
    return axes.drawn()


def _greeks(greeks: dict[str, Any]) -> str:
    lines = [f'<text x="{MARGIN[0]}" y="18" font-weight="600">Greeks, with standard errors</text>']
    shown = {name: own for name, own in greeks.items() if None not in (own["value"], own["se"])}
    for k, (name, own) in enumerate(list(shown.items())[:10]):
        y = MARGIN[2] + 14 + 18 * k
        lines += [_text(MARGIN[0], y, name), _text(200, y, f"{own['value']:.6g}", "end")]
        lines.append(_text(208, y, f"± {own['se']:.2g}, {own['method'].split()[0]}", "start", GREY))
    if not shown:
        lines.append(_text(MARGIN[0], MARGIN[2] + 14, "none were asked for", "start", GREY))
    return "".join(lines)


def _words(answer: dict[str, Any]) -> str:
    exact, draws = answer["closed_form"], answer["draws"]
    low, high = answer["ci95"]
    rows = [
        f"price {answer['price']:.8g} ± {answer['se']:.2g}",
        f"95 % interval {low:.6g} to {high:.6g}",
        f"{answer['n_paths']:,} paths, seed {draws['seed']}, {draws['rng']}",
        "" if exact is None else f"exact {exact['value']:.8g} ({exact['method']})",
        "" if answer["z"] is None else f"distance {answer['z']:+.2f} standard errors",
        *_wrapped(answer["method"], 52),
        *_wrapped(f"bias: {answer['bias']}", 52),
    ]
    lines = [_text(MARGIN[0], MARGIN[2] + 14 + 17 * k, row) for k, row in enumerate(filter(None, rows))]
    return f'<text x="{MARGIN[0]}" y="18" font-weight="600">The answer</text>' + "".join(lines)


def _wrapped(text: str, most: int) -> list[str]:
    rows = [""]
    for word in text.split():
        if len(rows[-1]) + len(word) + 1 > most and rows[-1]:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}".strip()
    return rows
