"""C for fused kernels: a loop over rows, passes along each row over explicit vectors, one line a value.

``dims`` are {rows, row length, rows a chunk, columns a chunk, sizes of the outer dimensions, then for each
buffer its outer strides, its stride along a row, for scratch the elements a chunk has, and the edges of its
windows}. Where chunks are lanes, the third word counts lanes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence

from engine.compiler.loopir import Apply, Buffer, Collect, Constant, Kernel, Line, Load, Reduce, Stage, Store
from engine.core.dtype import DType, bool_, float32, float64
from engine.core.opdef import OPS
from engine.emit.c import LANES_4, LANES_8, expression

HEAD_WORDS = 4
EXPENSIVE_PASS = 60  # additions an element
STRIP = 64  # columns that a column kernel takes at once
_OPERATIONS = {"sum": "GM_SUM", "prod": "GM_PROD", "max": "GM_MAX", "min": "GM_MIN"}


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


def word_count(kernel: Kernel) -> int:
    """The length of a kernel's ``dims``."""
    return _word_offsets(kernel)[-1]


def _word_offsets(kernel: Kernel) -> list[int]:
    """Where the words of each buffer begin, and where the last ones end."""
    offsets = [HEAD_WORDS + kernel.rank]
    for buffer in kernel.buffers:
        offsets.append(offsets[-1] + kernel.rank + 2 + 2 * len(buffer.windows))
    return offsets


class _Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lanes = LANES_4 if kernel.lanes == 4 else LANES_8
        self.width = "LF" if kernel.lanes == 4 else "LD"
        self.types: dict[int, DType] = {}
        self.words = _word_offsets(kernel)[:-1]
        floats = any(own.written and own.dtype in (float32, float64) for own in kernel.buffers)
        self.streams = kernel.kind == "each" and floats

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
        constants = _indent(self._constants(kernel.constants))
        if kernel.kind in frames:
            return "\n".join([*lines, *constants, *_indent(frames[kernel.kind]()), "}", ""])
        rows = [
            f"{rows_signature(name)} {{",
            *constants,
            "    const int64_t n = d[1];",
            *(["    const int stream = d[0] * n >= GM_STREAM;"] if self.streams else []),
            *_indent(self._first_row()),
            "    for (int64_t r = r0; r < r1; r++) {",
            *_indent(self._row(), 2),
            *_indent(self._next_row(), 2),
            "    }",
            *(["    if (stream) stream_end();"] if self.streams else []),
            "}",
        ]
        return "\n".join([*rows, *lines, *_indent(self._cut(name)), "}", ""])

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
            lines += self._row_lines(stage.row)
            if stage.inner:
                lines += self._pass(stage)
        return [*lines, *self._row_lines(self.kernel.last)]

    def _lanes(self) -> list[str]:
        """Rows in the order of their lanes' chains: chunks own lanes, so that no two collect into one."""
        return [
            "const int64_t rows = d[0], n = d[1], c0 = 0, c1 = n, lanes = rows < GM_LANES ? rows : GM_LANES;",
            "const int64_t l0 = chunk * d[2], l1 = l0 + d[2] < lanes ? l0 + d[2] : lanes;",
            "for (int64_t t = 0; t < rows; t += GM_LANES) {",
            "    const int first = t % GM_TREE_BLOCK == 0;",
            "    for (int64_t lane = l0; lane < l1 && t + lane < rows; lane++) {",
            "        const int64_t r = t + lane, partial = (t / GM_TREE_BLOCK * lanes + lane) * n;",
            *_indent(self._indices("r"), 2),
            *_indent(self._row(), 2),
            "    }",
            "}",
        ]

    def _finish(self) -> list[str]:
        """The end of the tree whose lanes another kernel has collected."""
        ((collect,),) = [stage.inner for stage in self.kernel.stages]
        assert isinstance(collect, Collect)
        s, op = self.lanes[self.kernel.buffers[0].dtype].suffix, _OPERATIONS[collect.kind]
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
        lines += [*self._pointers(), *self._row_lines(stage.row)]
        lines += [
            "for (int64_t b = b0; b < b1; b += GM_TREE_BLOCK) {",
            *_indent(self._block(stage, accumulators)),
        ]
        for line in collects:
            s, op, k = (
                self.lanes[self.kernel.buffers[line.buffer].dtype].suffix,
                _OPERATIONS[line.kind],
                line.buffer,
            )
            lines.append(f"    stn_{s}(p{k} + b / GM_TREE_BLOCK, fold_{s}({op}, GM_LIST_{s}(ap{k}_)), 1);")
        return [*lines, "}"]

    def _total(self) -> list[str]:
        """The end of the tree whose blocks another kernel has collected."""
        ((collect,),) = [stage.inner for stage in self.kernel.stages]
        assert isinstance(collect, Collect)
        s, op = self.lanes[self.kernel.buffers[0].dtype].suffix, _OPERATIONS[collect.kind]
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
        """The start of the row in each buffer."""
        kernel, rank = self.kernel, self.kernel.rank
        lines = ["const int64_t i0 = r;"] if rank == 1 else []
        for k, buffer in enumerate(kernel.buffers):
            own = self.words[k]
            place = "".join(f" + i{axis} * d[{own + axis}]" for axis in range(rank))
            if buffer.scratch or buffer.partial:
                place = " + partial" if buffer.partial else f" + chunk * d[{own + rank + 1}]"
            const = "" if buffer.written else "const "
            scalar = self.lanes[buffer.dtype].scalar
            lines.append(f"{const}{scalar} *p{k} = ({const}{scalar} *)bufs[{k}]{place};")
            if buffer.windows:
                lines.append(self._edges(k, buffer))
        return lines

    def _edges(self, k: int, buffer: Buffer) -> str:
        """From where to where the row is in the buffer: nowhere if it is outside along an outer axis."""
        rank, edges = self.kernel.rank, self.words[k] + self.kernel.rank + 2
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
        width = self.width
        if sum(OPS[line.op].cost for line in stage.inner if isinstance(line, Apply)) >= EXPENSIVE_PASS:
            head = f"for (int64_t j = c0; j < c1; j += {width}) {{"
            return [
                head,
                "    const int64_t m = c1 - j;",
                *_indent(self._inner_lines(stage.inner, None)),
                "}",
            ]
        lines = ["{", "    int64_t j = c0;", f"    for (; j + {width} <= c1; j += {width}) {{"]
        lines += _indent(self._inner_lines(stage.inner, whole=True), 2)
        lines += ["    }", "    if (j < c1) {", "        const int64_t m = c1 - j;"]
        lines += _indent(self._inner_lines(stage.inner, whole=False), 2)
        return [*lines, "    }", "}"]

    def _reducing_pass(self, stage: Stage, reductions: Sequence[Reduce]) -> list[str]:
        """Blocks of the tree: rounds of 64 elements, a vector to each vector of lanes; then whole vectors,
        then the elements that are left.
        """
        starts, counted, totals = [], [], []
        for line in reductions:
            k, lane, op = line.value, self.lanes[line.dtype], _OPERATIONS[line.kind]
            s, neutral = lane.suffix, _neutral(line.kind, line.dtype)
            self.types[k] = line.dtype
            empty = "0" if line.kind == "sum" else neutral
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
            *_indent([*self._block(stage, accumulators), *counted]),
            "}",
            *totals,
        ]

    def _block(self, stage: Stage, accumulators: Sequence[tuple[str, DType, str]]) -> list[str]:
        """The elements of block b, taken into accumulators: their names, dtypes and kinds of reduction."""
        width, kind = self.width, self.lanes[accumulators[0][1]].suffix
        body = [f"const int64_t j = s + i * {width};", *self._inner_lines(stage.inner, whole=True)]
        macro = ["#define ROUND(i) {", *_indent(body), "}"]
        rest = [
            f"const int64_t u = (e - s) / {width}, j = s + u * {width}, m = e - j;",
            *self._inner_lines(stage.inner, whole=False),
        ]
        lines = ["const int64_t e = b + GM_TREE_BLOCK < n ? b + GM_TREE_BLOCK : n;"]
        for name, dtype, reduction in accumulators:
            lines.append(f"GM_START_{self.lanes[dtype].suffix}(a{name}_, {_neutral(reduction, dtype)});")
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
            *_indent(rest),
            "}",
        ]

    # ---- columns

    def _columns(self) -> list[str]:
        """Strips of columns; the rows go by in order, row r to lane r mod 64 of each column's tree."""
        kernel, width = self.kernel, self.width
        (stage,) = kernel.stages
        reductions = [line for line in stage.inner if isinstance(line, Reduce)]
        per_strip = f"({STRIP} / {width})"
        lines = ["const int64_t rows = d[0], n = d[1];", f"const int64_t c0 = chunk * {STRIP};"]
        lines += [
            f"const int64_t c1 = c0 + {STRIP} < n ? c0 + {STRIP} : n;",
            f"const int vectors = (int)((c1 - c0 + {width} - 1) / {width});",
        ]
        for line in reductions:
            vector = self.lanes[line.dtype].vector
            lines.append(
                f"{vector} a{line.value}[GM_LANES * {per_strip}], t{line.value}[GM_NODES * {per_strip}];"
            )
        lines += ["int64_t count = 0;", "for (int64_t b = 0; b < rows; b += GM_TREE_BLOCK) {"]
        lines += ["    const int64_t length = b + GM_TREE_BLOCK < rows ? GM_TREE_BLOCK : rows - b;"]
        lines += [
            "    for (int64_t r = b; r < b + length; r++) {",
            *_indent([*self._indices("r"), *self._pointers()], 2),
        ]
        lines += [f"        const int64_t lane = (r - b) % GM_LANES * {per_strip};"]
        lines += _indent(self._row_lines(stage.row), 2)
        lines += ["        for (int u = 0; u < vectors; u++) {"]
        lines += [f"            const int64_t j = c0 + u * {width}, m = c1 - j;"]
        lines += _indent(self._inner_lines(stage.inner, whole=None), 3)
        lines += ["        }", "    }", *_indent(self._close_block(reductions, per_strip)), "}"]
        lines += self._column_results(reductions, per_strip)
        return lines

    def _close_block(self, reductions: Sequence[Reduce], per_strip: str) -> list[str]:
        """Halves the lanes of a finished block of rows and counts it."""
        lines = []
        for line in reductions:
            s, op = self.lanes[line.dtype].suffix, _OPERATIONS[line.kind]
            a, t = f"a{line.value}", f"t{line.value}"
            merge = f"gm_merge_{s}({op}, {per_strip}, "
            lines += [
                "for (int64_t h = GM_LANES / 2; h > 0; h /= 2)",
                "    for (int64_t i = 0; i < h && i + h < length; i++)",
                f"        {merge}{a} + i * {per_strip}, {a} + (i + h) * {per_strip});",
                f"for (int u = 0; u < {per_strip}; u++) {t}[count * {per_strip} + u] = {a}[u];",
            ]
        lines += ["count++;", "for (int64_t bits = b / GM_TREE_BLOCK; bits & 1; bits >>= 1, count--) {"]
        lines += _indent(self._merge_neighbours(reductions, per_strip))
        return [*lines, "}"]

    def _merge_neighbours(self, reductions: Sequence[Reduce], per_strip: str) -> list[str]:
        return [
            f"gm_merge_{self.lanes[line.dtype].suffix}({_OPERATIONS[line.kind]}, {per_strip}, "
            f"t{line.value} + (count - 2) * {per_strip}, t{line.value} + (count - 1) * {per_strip});"
            for line in reductions
        ]

    def _column_results(self, reductions: Sequence[Reduce], per_strip: str) -> list[str]:
        lines = ["for (; count > 1; count--) {", *_indent(self._merge_neighbours(reductions, per_strip)), "}"]
        lines += [
            "for (int u = 0; u < vectors; u++) {",
            f"    const int64_t j = c0 + u * {self.width}, m = c1 - j;",
        ]
        for line in reductions:
            lane = self.lanes[line.dtype]
            empty = "0" if line.kind == "sum" else _neutral(line.kind, line.dtype)
            lines.append(
                f"    const {lane.vector} v{line.value} = "
                f"rows ? t{line.value}[u] : set1_{lane.suffix}({empty});"
            )
            self.types[line.value] = line.dtype
        for store in self.kernel.last:
            if isinstance(store, Store):
                k = store.buffer
                lane = self.lanes[self.kernel.buffers[k].dtype]
                lines.append(f"    {lane.scalar} *p{k} = ({lane.scalar} *)bufs[{k}];")
                lines.append(f"    {self._stored(store, whole=None)}")
        return [*lines, "}"]

    # ---- lines

    def _constants(self, constants: Iterable[Constant]) -> list[str]:
        lines = []
        for constant in constants:
            lane = self.lanes[constant.dtype]
            self.types[constant.value] = constant.dtype
            value = self._everywhere(constant.dtype, literal(constant))
            lines.append(f"const {lane.vector} v{constant.value} = {value};")
        return lines

    def _everywhere(self, dtype: DType, scalar: str) -> str:
        lane = self.lanes[dtype]
        if dtype is bool_:
            return f"set1_{'i32' if self.kernel.lanes == 4 else 'i64'}({scalar} ? -1 : 0)"
        return f"set1_{lane.suffix}({scalar})"

    def _row_lines(self, lines: Iterable[Line]) -> list[str]:
        result = []
        for line in lines:
            if isinstance(line, Load):
                dtype = self.kernel.buffers[line.buffer].dtype
                self.types[line.value] = dtype
                vector = self.lanes[dtype].vector
                result.append(
                    f"const {vector} v{line.value} = {self._everywhere(dtype, f'p{line.buffer}[0]')};"
                )
            elif isinstance(line, Apply):
                result.append(self._applied(line))
            elif isinstance(line, Store):
                lane = self.lanes[self.kernel.buffers[line.buffer].dtype]
                result.append(f"{lane.store}n_{lane.suffix}(p{line.buffer}, v{line.value}, 1);")
        return result

    def _inner_lines(self, lines: Iterable[Line], whole: bool | None) -> list[str]:
        """``whole``: full vectors, vectors of which only ``m`` elements exist, or (None) to be asked."""
        result = []
        for line in lines:
            if isinstance(line, Load):
                result.append(self._loaded(line, whole))
            elif isinstance(line, Apply):
                result.append(self._applied(line))
            elif isinstance(line, Store):
                result.append(self._stored(line, whole))
            elif isinstance(line, Collect) and self.kernel.kind == "blocks":
                dtype = self.kernel.buffers[line.buffer].dtype
                result.append(self._taken(f"p{line.buffer}", line, dtype, whole))
            elif isinstance(line, Collect):
                result.append(self._collected(line, whole))
            elif self.kernel.kind == "columns":
                result.append(self._taken_by_column(line))
            else:
                result.append(self._taken(str(line.value), line, line.dtype, whole))
        return result

    def _loaded(self, line: Load, whole: bool | None) -> str:
        buffer: Buffer = self.kernel.buffers[line.buffer]
        self.types[line.value] = buffer.dtype
        lane = self.lanes[buffer.dtype]
        p, k = f"p{line.buffer} + j", line.buffer
        stride = f"d[{self.words[k] + self.kernel.rank}]" if buffer.along == "strided" else "1"
        if buffer.windows:
            stride = "0" if buffer.along == "repeat" else stride
            value = f"ldw_{lane.suffix}(p{k}, {stride}, j, low{k}, high{k}, v{line.fill})"
        elif buffer.along == "strided":
            count = self.width if whole else "m" if whole is False else f"m < {self.width} ? m : {self.width}"
            value = f"ldsn_{lane.suffix}(p{line.buffer} + j * {stride}, {stride}, {count})"
        else:
            full, part = f"{lane.load}_{lane.suffix}({p})", f"{lane.load}n_{lane.suffix}({p}, m)"
            value = full if whole else part if whole is False else f"m >= {self.width} ? {full} : {part}"
        return f"const {lane.vector} v{line.value} = {value};"

    def _applied(self, line: Apply) -> str:
        lane = self.lanes[line.dtype]
        self.types[line.value] = line.dtype
        names = [f"v{operand}" for operand in line.operands]
        text = names[0]  # of a bitcast: the cast below keeps the bits, and integers have no NaN to replace
        if line.op != "bitcast" or line.dtypes[0] in (float32, float64):
            text = expression(line.op, line.dtypes, line.dtype, names)
        if line.op == "select" and line.dtype is bool_:
            text = f"sel_i{8 * self.kernel.lanes}({', '.join(names)})"
        if line.dtype is bool_ or line.op == "bitcast":
            text = f"({lane.vector}){text}"
        elif text[0] == "(":  # the table's parentheses, around an operator
            text = text[1:-1]
        return f"const {lane.vector} v{line.value} = {text};"

    def _stored(self, line: Store, whole: bool | None) -> str:
        lane = self.lanes[self.kernel.buffers[line.buffer].dtype]
        p, v = f"p{line.buffer} + j", f"v{line.value}"
        full = f"{lane.store}_{lane.suffix}({p}, {v});"
        if self.streams and whole and lane.suffix in ("f32", "f64"):
            full = f"if (stream) stream_{lane.suffix}({p}, {v}); else {full}"
        part = f"{lane.store}n_{lane.suffix}({p}, {v}, m);"
        return full if whole else part if whole is False else f"if (m >= {self.width}) {full} else {part}"

    def _collected(self, line: Collect, whole: bool | None) -> str:
        lane, op = self.lanes[self.kernel.buffers[line.buffer].dtype], _OPERATIONS[line.kind]
        p, v, s = f"p{line.buffer} + j", f"v{line.operand}", lane.suffix
        full, part = f"gm_collect_{s}({op}, first, {p}, {v});", f"gm_collectn_{s}({op}, first, {p}, {v}, m);"
        return full if whole else part if whole is False else f"if (m >= {self.width}) {full} else {part}"

    def _taken(self, name: str, line: Reduce | Collect, dtype: DType, whole: bool | None) -> str:
        """``line``'s operand into the accumulators ``name``."""
        s, op, value = self.lanes[dtype].suffix, _OPERATIONS[line.kind], f"v{line.operand}"
        if whole:
            return f"a{name}_##i = gm_combine_{s}({op}, a{name}_##i, {value});"
        return f"GM_TAKE_{s}({op}, a{name}_, u, head_{s}({value}, m, {_neutral(line.kind, dtype)}))"

    def _taken_by_column(self, line: Reduce) -> str:
        s, op = self.lanes[line.dtype].suffix, _OPERATIONS[line.kind]
        a, v = f"a{line.value}[lane + u]", f"v{line.operand}"
        return f"{a} = r - b < GM_LANES ? {v} : gm_combine_{s}({op}, {a}, {v});"


def literal(constant: Constant) -> str:
    """A constant as C: floats in hexadecimal, so that no digit is lost."""
    dtype = constant.dtype
    (value,) = struct.unpack(f"<{dtype.struct}", constant.raw)
    if dtype not in (float32, float64):
        return f"(-{2**63 - 1} - 1)" if value == -(2**63) else str(int(value))
    suffix = "f" if dtype is float32 else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if value in (float("inf"), float("-inf")):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    return f"{value.hex()}{suffix}"


def _neutral(kind: str, dtype: DType) -> str:
    """What changes nothing when it is combined, not even the sign of a zero."""
    inf = "__builtin_inff()" if dtype is float32 else "__builtin_inf()"
    return {"sum": "-0.0f", "prod": "1", "max": f"-{inf}", "min": inf}[kind]


def _indent(lines: Iterable[str], depth: int = 1) -> list[str]:
    return ["    " * depth + line for line in lines]


__all__ = ["HEAD_WORDS", "STRIP", "print_kernel"]
