"""C for fused kernels: a loop over rows, passes along each row over explicit vectors, one line a value.

``dims`` are {rows, row length, rows a chunk, columns a chunk, sizes of the outer dimensions, then for each
buffer its outer strides, its stride along a row, for scratch the elements a chunk has, and the edges of its
windows}. Where chunks are lanes, the third word counts lanes.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.compiler.loopir import Apply, Buffer, Collect, Draw, Kernel, Loop, Reduce, Stage
from engine.core.dtype import DType, float32, float64
from engine.core.opdef import OPS
from engine.emit.columns import STRIP, ColumnPrinter
from engine.emit.lines import OPERATIONS, LinePrinter
from engine.emit.values import HEAD_WORDS, indent, neutral, word_offsets

EXPENSIVE_PASS = 60  # additions an element
MOST_BYTES = 64  # in a vector
SHORT_TURN = 48  # additions an element
DRAW_COST = OPS["random_bits"].cost


def print_kernel(kernel: Kernel, name: str) -> str:
    """The C function of ``kernel``."""
    return _Printer(kernel).text(name)


def rows_signature(name: str) -> str:
    """Of the function that computes a block of rows and columns: what kernels of kind each and rows are made
    of.
    """
    return (
        f"static void {name}_rows(void **bufs, const int64_t *d, int64_t chunk, int64_t r0, int64_t r1, "
        "int64_t c0, int64_t c1)"
    )


def step_elements(kernel: Kernel) -> int:
    """The most elements that a step of a pass has, on any target."""
    return max(_unrolled(stage, kernel.lanes) for stage in kernel.stages) * MOST_BYTES // kernel.lanes


def word_count(kernel: Kernel) -> int:
    """The length of a kernel's ``dims``."""
    return word_offsets(kernel)[-1]


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        floats = any(own.written and own.dtype in (float32, float64) for own in kernel.buffers)
        self.streams = kernel.kind == "each" and floats
        self.lines = LinePrinter(kernel, self.streams)

    def text(self, name: str) -> str:
        kernel = self.kernel
        lines = [f"void {name}(void **bufs, const int64_t *d, int64_t chunk) {{"]
        frames = {
            "columns": self._columns,
            "lanes": self._lanes,
            "blocks": self._blocks,
            "finish": self._finish,
            "total": self._total,
        }
        constants = indent(self.lines.constants(kernel.constants))
        if kernel.kind in frames:
            return "\n".join([*lines, *constants, *indent(frames[kernel.kind]()), "}", ""])
        rows = [
            f"{rows_signature(name)} {{",
            *constants,
            "    const int64_t n = d[1];",
            *(["    const int stream = d[0] * n >= GM_STREAM;"] if self.streams else []),
            *indent(self._first_row()),
            "    for (int64_t r = r0; r < r1; r++) {",
            *indent(self._row(), 2),
            *indent(self._next_row(), 2),
            "    }",
            *(["    if (stream) stream_end();"] if self.streams else []),
            "}",
        ]
        return "\n".join([*rows, *lines, *indent(self._cut(name)), "}", ""])

    @property
    def width(self) -> str:
        return self.lines.width

    # ---- the frame

    def _cut(self, name: str) -> list[str]:
        """The rows and columns of a chunk."""
        lines = ["const int64_t rows = d[0], n = d[1];"]
        if self.kernel.kind == "rows":
            lines += ["const int64_t strips = 1, c0 = 0, c1 = n;"]
        else:
            lines += [
                "const int64_t strips = n > d[3] ? (n + d[3] - 1) / d[3] : 1;",
                "const int64_t c0 = chunk % strips * d[3], c1 = c0 + d[3] < n ? c0 + d[3] : n;",
            ]
        lines += ["const int64_t r0 = chunk / strips * d[2], r1 = r0 + d[2] < rows ? r0 + d[2] : rows;"]
        return [*lines, f"{name}_rows(bufs, d, chunk, r0, r1, c0, c1);"]

    def _row(self) -> list[str]:
        """What happens for row r, whose indices are i0, i1 …"""
        lines = self._pointers()
        for stage in self.kernel.stages:
            lines += self.lines.row(stage.row)
            if stage.inner:
                lines += self._pass(stage)
        return [*lines, *self.lines.row(self.kernel.last)]

    def _columns(self) -> list[str]:
        (stage,) = self.kernel.stages
        place = [*self._indices("r"), *self._pointers()]
        return ColumnPrinter(self.kernel, self.lines, place, once=_is_expensive(stage)).frame()

    def _lanes(self) -> list[str]:
        """Rows in the order of their lanes' chains: chunks own lanes, so that no two collect into one."""
        return [
            "const int64_t rows = d[0], n = d[1], c0 = 0, c1 = n, lanes = rows < GM_LANES ? rows : GM_LANES;",
            "const int64_t l0 = chunk * d[2], l1 = l0 + d[2] < lanes ? l0 + d[2] : lanes;",
            "for (int64_t t = 0; t < rows; t += GM_LANES) {",
            "    const int first = t % GM_TREE_BLOCK == 0;",
            "    for (int64_t lane = l0; lane < l1 && t + lane < rows; lane++) {",
            "        const int64_t r = t + lane, partial = (t / GM_TREE_BLOCK * lanes + lane) * n;",
            *indent(self._indices("r"), 2),
            *indent(self._row(), 2),
            "    }",
            "}",
        ]

    def _finish(self) -> list[str]:
        """The end of the tree whose lanes another kernel has collected."""
        ((collect,),) = [stage.inner for stage in self.kernel.stages]
        assert isinstance(collect, Collect)
        s, op = self.kernel.buffers[0].dtype.suffix, OPERATIONS[collect.kind]
        return [f"gm_finish_{s}({op}, bufs[0], d[0], d[1], chunk * {STRIP}, bufs[1]);"]

    def _blocks(self) -> list[str]:
        """One long row: chunks own blocks of the trees, whose results are the partial buffers."""
        stage = self.kernel.stages[0]
        collects = [line for line in stage.inner if isinstance(line, Collect)]
        accumulators = [
            (f"p{line.buffer}", self.kernel.buffers[line.buffer].dtype, line.kind) for line in collects
        ]
        lines = ["const int64_t n = d[1], partial = 0, b0 = chunk * d[2] * GM_TREE_BLOCK;"]
        lines += ["const int64_t b1 = b0 + d[2] * GM_TREE_BLOCK < n ? b0 + d[2] * GM_TREE_BLOCK : n;"]
        lines += [*self._pointers(), *self.lines.row(stage.row)]
        expensive = _is_expensive(stage)
        block = self._long_block if expensive else self._block
        lines += [
            "for (int64_t b = b0; b < b1; b += GM_TREE_BLOCK) {",
            *indent(block(stage, accumulators)),
        ]
        for line in collects:
            s, op, k = (
                self.kernel.buffers[line.buffer].dtype.suffix,
                OPERATIONS[line.kind],
                line.buffer,
            )
            folded = f"gm_fold_{s}({op}, ap{k}_)" if expensive else f"fold_{s}({op}, GM_LIST_{s}(ap{k}_))"
            lines.append(f"    stn_{s}(p{k} + b / GM_TREE_BLOCK, {folded}, 1);")
        return [*lines, "}"]

    def _long_block(self, stage: Stage, accumulators: Sequence[tuple[str, DType, str]]) -> list[str]:
        """As ``_block``, step by step: the lanes of a tree are an array in memory, and the text is built
        once.
        """
        self.lines.unroll = _unrolled(stage, self.kernel.lanes)
        lines, width = ["const int64_t e = b + GM_TREE_BLOCK < n ? b + GM_TREE_BLOCK : n;"], self.width
        for name, dtype, reduction in accumulators:
            lane, count = self.lines.lane(dtype), f"GM_LANES / {self.lines.count(dtype)}"
            lines.append(f"{lane.vector} a{name}_[{count}];")
            value = f"set1_{lane.suffix}({neutral(reduction, dtype)})"
            lines.append(f"for (int k = 0; k < {count}; k++) a{name}_[k] = {value};")
        lines += [
            f"for (int64_t j = b; j < e; j += {width}) {{",
            f"    const int64_t m = e - j, u = (j - b) / {width} % (GM_LANES / {width});",
            *indent(self.lines.inner(stage.inner, None)),
            "}",
        ]
        self.lines.unroll = 1
        return lines

    def _total(self) -> list[str]:
        """The end of the tree whose blocks another kernel has collected."""
        ((collect,),) = [stage.inner for stage in self.kernel.stages]
        assert isinstance(collect, Collect)
        s, op = self.kernel.buffers[0].dtype.suffix, OPERATIONS[collect.kind]
        return [f"gm_total_{s}({op}, bufs[0], d[1], bufs[1]);"]

    def _indices(self, row: str) -> list[str]:
        """The index of a row along each outer dimension."""
        rank = self.kernel.rank
        if rank <= 1:
            return []
        sizes = [f"d[{HEAD_WORDS + axis}]" for axis in range(rank)]
        lines = [f"int64_t i0 = {row};"]
        for axis in range(rank - 1, 0, -1):
            lines.append(f"int64_t i{axis} = i0 % {sizes[axis]};")
            lines.append(f"i0 /= {sizes[axis]};")
        return lines

    def _first_row(self) -> list[str]:
        indices = self._indices("r0")
        return ["if (r0 >= r1) return;", *indices] if indices else []

    def _next_row(self) -> list[str]:
        """Counts the indices on: the last fastest."""
        rank = self.kernel.rank
        if rank <= 1:
            return []
        text = "i0++;"
        for axis in range(1, rank):
            text = f"if (++i{axis} == d[{HEAD_WORDS + axis}]) {{ i{axis} = 0; {text} }}"
        return [text]

    def _pointers(self) -> list[str]:
        """The start of the row in each buffer, and of its numbers."""
        kernel, rank = self.kernel, self.kernel.rank
        lines = ["const int64_t i0 = r;"] if rank == 1 else []
        for k, buffer in enumerate(kernel.buffers):
            own = self.lines.words[k]
            place = "".join(f" + i{axis} * d[{own + axis}]" for axis in range(rank))
            if buffer.scratch or buffer.partial:
                place = " + partial" if buffer.partial else f" + chunk * d[{own + rank + 1}]"
            const = "" if buffer.written else "const "
            scalar = self.lines.lane(buffer.dtype).scalar
            lines.append(f"{const}{scalar} *p{k} = ({const}{scalar} *)bufs[{k}]{place};")
            if buffer.windows:
                lines.append(self._edges(k, buffer))
        for counter in range(len(kernel.counters)):
            own = self.lines.words[len(kernel.buffers) + counter]
            place = "".join(f" + i{axis} * d[{own + axis}]" for axis in range(rank))
            lines.append(f"const int64_t n{counter} = d[{own + rank + 1}]{place};")
        return lines

    def _edges(self, k: int, buffer: Buffer) -> str:
        """From where to where the row is in the buffer: nowhere if it is outside along an outer axis."""
        rank, edges = self.kernel.rank, self.lines.words[k] + self.kernel.rank + 2
        low, high, inside = "0", "n", []
        for axis in buffer.windows:
            if axis == rank:
                low, high = f"d[{edges}]", f"d[{edges + 1}]"
            else:
                inside.append(f"i{axis} >= d[{edges}] && i{axis} < d[{edges + 1}]")
            edges += 2
        if inside:
            high = f"{' && '.join(inside)} ? {high} : {low}"
        return f"const int64_t low{k} = {low}, high{k} = {high};"

    # ---- passes along a row

    def _pass(self, stage: Stage) -> list[str]:
        reductions = [line for line in stage.inner if isinstance(line, Reduce)]
        return self._reducing_pass(stage, reductions) if reductions else self._plain_pass(stage)

    def _plain_pass(self, stage: Stage) -> list[str]:
        """Whole vectors, then what is left; in one loop where the text is costly to build twice."""
        if _is_expensive(stage):
            self.lines.unroll = _unrolled(stage, self.kernel.lanes)
            lines = [
                f"for (int64_t j = c0; j < c1; j += {self.width}) {{",
                "    const int64_t m = c1 - j;",
                *indent(self.lines.inner(stage.inner, None)),
                "}",
            ]
            self.lines.unroll = 1
            return lines
        width = self.width
        lines = ["{", "    int64_t j = c0;", f"    for (; j + {width} <= c1; j += {width}) {{"]
        lines += indent(self.lines.inner(stage.inner, whole=True), 2)
        lines += ["    }", "    if (j < c1) {", "        const int64_t m = c1 - j;"]
        lines += indent(self.lines.inner(stage.inner, whole=False), 2)
        return [*lines, "    }", "}"]

    def _reducing_pass(self, stage: Stage, reductions: Sequence[Reduce]) -> list[str]:
        """Blocks of the tree: rounds of 64 elements, a vector to each vector of lanes; then whole vectors,
        then the elements that are left.
        """
        starts, counted, totals = [], [], []
        for line in reductions:
            k, lane, op = line.value, self.lines.lane(line.dtype), OPERATIONS[line.kind]
            s, empty = lane.suffix, "0" if line.kind == "sum" else neutral(line.kind, line.dtype)
            self.lines.single(k, line.dtype)
            starts += [f"{lane.vector} v{k} = set1_{s}({empty});", f"gm_counter_{s} k{k};"]
            counted += [
                f"v{k} = fold_{s}({op}, GM_LIST_{s}(a{k}_));",
                f"if (n > GM_TREE_BLOCK) count_{s}({op}, &k{k}, b / GM_TREE_BLOCK, v{k});",
            ]
            totals.append(f"if (n > GM_TREE_BLOCK) v{k} = total_{s}({op}, &k{k});")
        accumulators = [(str(line.value), line.dtype, line.kind) for line in reductions]
        return [
            *starts,
            "for (int64_t b = 0; b < n; b += GM_TREE_BLOCK) {",
            *indent([*self._block(stage, accumulators), *counted]),
            "}",
            *totals,
        ]

    def _block(self, stage: Stage, accumulators: Sequence[tuple[str, DType, str]]) -> list[str]:
        """The elements of block b, taken into accumulators: their names, dtypes and kinds of reduction."""
        width, kind = self.width, "f32" if self.kernel.lanes == 4 else "f64"
        body = [f"const int64_t j = s + i * {width};", *self.lines.inner(stage.inner, whole=True)]
        macro = ["#define ROUND(i) {", *indent(body), "}"]
        rest = [
            f"const int64_t u = (e - s) / {width}, j = s + u * {width}, m = e - j;",
            *self.lines.inner(stage.inner, whole=False),
        ]
        lines = ["const int64_t e = b + GM_TREE_BLOCK < n ? b + GM_TREE_BLOCK : n;"]
        for name, dtype, reduction in accumulators:
            lines.append(f"GM_START_{dtype.suffix}(a{name}_, {neutral(reduction, dtype)});")
        return [
            *lines,
            "int64_t s = b;",
            *[f"{line} \\" for line in macro[:-1]],
            macro[-1],
            "for (; s + GM_LANES <= e; s += GM_LANES) {",
            f"    GM_EACH_{kind}(ROUND)",
            "}",
            f"#define REST(i) if (s + (i + 1) * {width} <= e) ROUND(i)",
            f"GM_EACH_{kind}(REST)",
            "#undef ROUND",
            "#undef REST",
            f"if ((e - s) % {width}) {{",
            *indent(rest),
            "}",
        ]


def _unrolled(stage: Stage, lanes: int) -> int:
    """Two vectors a step where a short turn of a loop waits for the one before."""
    for line in stage.inner:
        if isinstance(line, Loop):
            cost = sum(OPS[own.op].cost for own in line.body if isinstance(own, Apply))
            chains = any(carry.dtype.size == lanes and not carry.single for carry in line.carries)
            drawn = any(isinstance(own, Draw | Loop) for own in line.body)
            if cost <= SHORT_TURN and chains and not drawn:
                return 2
    return 1


def _is_expensive(stage: Stage) -> bool:
    """Whether a pass is costly to build twice."""
    if any(isinstance(line, Loop) for line in stage.inner):
        return True
    applied = sum(OPS[line.op].cost for line in stage.inner if isinstance(line, Apply))
    return applied + DRAW_COST * sum(isinstance(line, Draw) for line in stage.inner) >= EXPENSIVE_PASS


__all__ = ["HEAD_WORDS", "STRIP", "print_kernel"]
