"""C for reductions over all rows: strips of columns, by which the rows go in order.

Row r of a block goes to lane r mod 64 of each column's tree; the lanes of a strip lie on the stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.compiler.loopir import Kernel, Load, Reduce, Stage, Store
from engine.core.dtype import DType
from engine.emit.lines import OPERATIONS, LinePrinter
from engine.emit.values import indent, neutral

STRIP = 64  # columns that a column kernel takes at once


@dataclass(frozen=True, slots=True)
class ColumnPrinter:
    """``place`` are the lines that find row r in each buffer, ``once`` says that a pass is costly to build
    twice.
    """

    kernel: Kernel
    lines: LinePrinter
    place: Sequence[str]
    once: bool

    def frame(self) -> list[str]:
        kernel, width = self.kernel, self.lines.width
        (stage,) = kernel.stages
        reductions = [line for line in stage.inner if isinstance(line, Reduce)]
        lines = ["const int64_t rows = d[0], n = d[1];", f"const int64_t c0 = chunk * {STRIP};"]
        lines += [
            f"const int64_t c1 = c0 + {STRIP} < n ? c0 + {STRIP} : n;",
            f"const int vectors = (int)((c1 - c0 + {width} - 1) / {width});",
        ]
        for line in reductions:
            vector, per_strip = self.lines.lane(line.dtype).vector, self._per_strip(line.dtype)
            lines.append(
                f"{vector} a{line.value}[GM_LANES * {per_strip}], t{line.value}[GM_NODES * {per_strip}];"
            )
        lines += ["int64_t count = 0;", "for (int64_t b = 0; b < rows; b += GM_TREE_BLOCK) {"]
        lines += ["    const int64_t length = b + GM_TREE_BLOCK < rows ? GM_TREE_BLOCK : rows - b;"]
        lines += [
            "    for (int64_t r = b; r < b + length; r++) {",
            *indent(self.place, 2),
        ]
        lines += [f"        const int64_t lane = (r - b) % GM_LANES * ({STRIP} / {width});"]
        lines += indent([*self.lines.row(stage.row), *self._strip(stage)], 2)
        lines += ["    }", *indent(self._close_block(reductions)), "}"]
        lines += self._column_results(reductions)
        return lines

    def _strip(self, stage: Stage) -> list[str]:
        """A row's part of a strip, by itself where it is whole, unless the text is costly to build twice."""
        width = self.lines.width
        some = [
            "for (int u = 0; u < vectors; u++) {",
            f"    const int64_t j = c0 + u * {width}, m = c1 - j;",
            *indent(self.lines.inner(stage.inner, whole=None)),
            "}",
        ]
        if self.once:
            return some
        whole = [
            f"GM_UNROLL for (int u = 0; u < {STRIP} / {width}; u++) {{",
            f"    const int64_t j = c0 + u * {width};",
            *indent([*self._ahead(stage), *self.lines.inner(stage.inner, whole=True)]),
            "}",
        ]
        return [f"if (c1 - c0 == {STRIP}) {{", *indent(whole), "} else {", *indent(some), "}"]

    def _ahead(self, stage: Stage) -> list[str]:
        """Fetches what a later row reads."""
        rank = self.kernel.rank
        loads = {
            line.buffer: self.kernel.buffers[line.buffer] for line in stage.inner if isinstance(line, Load)
        }
        return [
            f"ahead(p{k} + j + GM_ROWS_AHEAD * d[{self.lines.words[k] + rank - 1}]);"
            for k, buffer in loads.items()
            if rank and buffer.along == "dense" and not buffer.windows
        ]

    def _close_block(self, reductions: Sequence[Reduce]) -> list[str]:
        """Halves the lanes of a finished block of rows and counts it."""
        lines = []
        for line in reductions:
            s, op, per_strip = line.dtype.suffix, OPERATIONS[line.kind], self._per_strip(line.dtype)
            a, t = f"a{line.value}", f"t{line.value}"
            merge = f"gm_merge_{s}({op}, {per_strip}, "
            lines += [
                "for (int64_t h = GM_LANES / 2; h > 0; h /= 2)",
                "    for (int64_t i = 0; i < h && i + h < length; i++)",
                f"        {merge}{a} + i * {per_strip}, {a} + (i + h) * {per_strip});",
                f"for (int u = 0; u < {per_strip}; u++) {t}[count * {per_strip} + u] = {a}[u];",
            ]
        lines += ["count++;", "for (int64_t bits = b / GM_TREE_BLOCK; bits & 1; bits >>= 1, count--) {"]
        lines += indent(self._merge_neighbours(reductions))
        return [*lines, "}"]

    def _merge_neighbours(self, reductions: Sequence[Reduce]) -> list[str]:
        lines = []
        for line in reductions:
            per_strip, t = self._per_strip(line.dtype), f"t{line.value}"
            lines.append(
                f"gm_merge_{line.dtype.suffix}({OPERATIONS[line.kind]}, {per_strip}, "
                f"{t} + (count - 2) * {per_strip}, {t} + (count - 1) * {per_strip});"
            )
        return lines

    def _per_strip(self, dtype: DType) -> str:
        """The vectors of a strip."""
        return f"({STRIP} / {self.lines.count(dtype)})"

    def _column_results(self, reductions: Sequence[Reduce]) -> list[str]:
        kernel = self.kernel
        lines = ["for (; count > 1; count--) {", *indent(self._merge_neighbours(reductions)), "}"]
        lines += [
            "for (int u = 0; u < vectors; u++) {",
            f"    const int64_t j = c0 + u * {self.lines.width}, m = c1 - j;",
        ]
        for line in reductions:
            lane, k = self.lines.lane(line.dtype), line.value
            empty = "0" if line.kind == "sum" else neutral(line.kind, line.dtype)
            self.lines.whole(k, line.dtype)
            parts = self.lines.names(k, line.dtype)
            for part, name in enumerate(parts):
                at = "u" if len(parts) == 1 else f"u * 2 + {part}"
                lines.append(
                    f"    const {lane.vector} {name} = rows ? t{k}[{at}] : set1_{lane.suffix}({empty});"
                )
        for store in kernel.last:
            if isinstance(store, Store):
                k = store.buffer
                lane = self.lines.lane(kernel.buffers[k].dtype)
                lines.append(f"    {lane.scalar} *p{k} = ({lane.scalar} *)bufs[{k}];")
        lines += indent(self.lines.inner(kernel.last, whole=None))
        return [*lines, "}"]
