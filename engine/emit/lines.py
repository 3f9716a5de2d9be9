"""The lines of a kernel as C: what is loaded, applied, combined and stored, a step of elements at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.compiler.loopir import (
    Along,
    Apply,
    Carry,
    Collect,
    Constant,
    Count,
    Draw,
    First,
    Kernel,
    Line,
    Load,
    Loop,
    Reduce,
    Store,
)
from engine.core.dtype import DType, bool_, float32, float64, int64, uint32
from engine.emit.c import expression
from engine.emit.values import COUNTS, Form, Values, indent, literal, neutral

OPERATIONS = {"sum": "GM_SUM", "prod": "GM_PROD", "max": "GM_MAX", "min": "GM_MIN"}


class LinePrinter(Values):
    """``whole`` says of a step: all its elements exist, only ``m`` of them do, or (None) to be asked."""

    def __init__(self, kernel: Kernel, streams: bool) -> None:
        super().__init__(kernel)
        self.streams = streams

    # ---- lines of a kernel, of a row, of a step

    def constants(self, constants: Iterable[Constant]) -> list[str]:
        lines = []
        for constant in constants:
            self.single(constant.value, constant.dtype)
            value = self.everywhere(constant.dtype, literal(constant))
            lines.append(f"const {self.lane(constant.dtype).vector} v{constant.value} = {value};")
        return lines

    def row(self, lines: Iterable[Line]) -> list[str]:
        result = []
        for line in lines:
            if isinstance(line, Load):
                dtype = self.kernel.buffers[line.buffer].dtype
                self.single(line.value, dtype)
                value = self.everywhere(dtype, f"p{line.buffer}[0]")
                result.append(f"const {self.lane(dtype).vector} v{line.value} = {value};")
            elif isinstance(line, Apply):
                result += self.applied(line)
            elif isinstance(line, Count | Draw):
                result += self._numbered(line, single=True)
            elif isinstance(line, Store):
                dtype = self.kernel.buffers[line.buffer].dtype
                lane, value = self.lane(dtype), self.operand(line.value, self.size_of(dtype), 0)
                result.append(f"{lane.store}n_{lane.suffix}(p{line.buffer}, {value}, 1);")
        return result

    def inner(self, lines: Iterable[Line], whole: bool | None) -> list[str]:
        result = []
        for line in lines:
            if isinstance(line, Load):
                result += self._loaded(line, whole)
            elif isinstance(line, Apply):
                result += self.applied(line)
            elif isinstance(line, Count | Draw):
                result += self._numbered(line, single=False)
            elif isinstance(line, Store):
                result += self._stored(line, whole)
            elif isinstance(line, First):
                result += self._first(line, whole)
            elif isinstance(line, Loop):
                result += self._loop(line, whole)
            elif isinstance(line, Collect) and self.kernel.kind == "blocks":
                dtype = self.kernel.buffers[line.buffer].dtype
                result += self._taken(f"p{line.buffer}", line, dtype, whole)
            elif isinstance(line, Collect):
                result += self._collected(line, whole)
            elif self.kernel.kind == "columns":
                result += self._taken_by_column(line)
            else:
                result += self._taken(str(line.value), line, line.dtype, whole)
        return result

    # ---- memory

    def _at(self, part: int, size: int) -> str:
        return f" + {part} * {COUNTS[size]}" if part else ""

    def _left(self, part: int, size: int) -> str:
        """How many elements of a part exist."""
        count = COUNTS[size]
        return "m" if self.vectors(size) == 1 else f"gm_left(m, {part} * {count}, {count})"

    def _loaded(self, line: Load, whole: bool | None) -> list[str]:
        buffer = self.kernel.buffers[line.buffer]
        dtype, size = buffer.dtype, self.size_of(buffer.dtype)
        single = buffer.rows and buffer.along == "repeat"
        self.forms[line.value] = Form(dtype, size, single)
        vector = self.lane(dtype).vector
        if line.row is not None:
            p = f"r{line.value}"
            lines = [f"const {self.lane(dtype).scalar} *{p} = {self._row(line.buffer, line.row)};"]
            if single:
                return [*lines, f"const {vector} v{line.value} = {self.everywhere(dtype, f'{p}[0]')};"]
            for part in range(self.vectors(size)):
                value = self._read(line, dtype, part, whole, p)
                lines.append(f"const {vector} {self.name(line.value, part)} = {value};")
            return lines
        return [
            f"const {vector} {self.name(line.value, part)} = {self._read(line, dtype, part, whole)};"
            for part in range(self.vectors(size))
        ]

    def _row(self, buffer: int, row: int) -> str:
        """The place of a row that is picked as the kernel runs."""
        own, place = self.kernel.buffers[buffer], self.words[buffer] + self.kernel.rank
        count, step = f"d[{place + 2 + 2 * len(own.windows)}]", f"d[{place + 3 + 2 * len(own.windows)}]"
        if own.scratch:
            step = self.width
        return f"p{buffer} + gm_row({self.name(row)}[0], {count}) * {step}"

    def _read(self, line: Load, dtype: DType, part: int, whole: bool | None, place: str = "") -> str:
        p = place or f"p{line.buffer}"
        buffer, k, lane, size = (
            self.kernel.buffers[line.buffer],
            line.buffer,
            self.lane(dtype),
            self.size_of(dtype),
        )
        j, left = f"j{self._at(part, size)}", self._left(part, size)
        stride = f"d[{self.words[k] + self.kernel.rank}]" if buffer.along == "strided" else "1"
        if buffer.windows:
            stride = "0" if buffer.along == "repeat" else stride
            assert line.fill is not None
            return f"ldw_{lane.suffix}(p{k}, {stride}, {j}, low{k}, high{k}, {self.name(line.fill, part)})"
        if buffer.along == "strided":
            full = COUNTS[size]
            count = full if whole else left if whole is False else f"m < {self.width} ? {left} : {full}"
            place = f"({j}) * {stride}" if part else f"j * {stride}"
            return f"ldsn_{lane.suffix}({p} + {place}, {stride}, {count})"
        if buffer.scratch and buffer.rows:
            return f"{lane.load}_{lane.suffix}({p}{self._at(part, size)})"
        return self._asked(f"{lane.load}", lane.suffix, f"{p} + {j}", left, whole)

    def _asked(self, function: str, suffix: str, arguments: str, left: str, whole: bool | None) -> str:
        full, some = f"{function}_{suffix}({arguments})", f"{function}n_{suffix}({arguments}, {left})"
        return full if whole else some if whole is False else f"m >= {self.width} ? {full} : {some}"

    def _either(self, full: str, some: str, whole: bool | None) -> str:
        return full if whole else some if whole is False else f"if (m >= {self.width}) {full} else {some}"

    def _stored(self, line: Store, whole: bool | None) -> list[str]:
        dtype = self.kernel.buffers[line.buffer].dtype
        size = self.forms[line.value].size if dtype is bool_ else dtype.size
        lane, result, place, streams = self.lane(dtype, size), [], f"p{line.buffer}", self.streams
        own = self.kernel.buffers[line.buffer]
        if line.row is not None:
            place, streams = f"r{line.buffer}_{line.value}", False
            result.append(f"{lane.scalar} *{place} = {self._row(line.buffer, line.row)};")
        for part in range(self.vectors(size)):
            p, v = f"{place} + j{self._at(part, size)}", self.name(line.value, part)
            if own.scratch and own.rows:
                result.append(f"{lane.store}_{lane.suffix}({place}{self._at(part, size)}, {v});")
                continue
            full = f"{lane.store}_{lane.suffix}({p}, {v});"
            if streams and whole and lane.suffix in ("f32", "f64"):
                full = f"if (stream) stream_{lane.suffix}({p}, {v}); else {full}"
            some = f"{lane.store}n_{lane.suffix}({p}, {v}, {self._left(part, size)});"
            result.append(self._either(full, some, whole))
        return result

    # ---- loops

    def _first(self, line: First, whole: bool | None) -> list[str]:
        size = self.kernel.lanes
        self.forms[line.value] = Form(bool_, size)
        vector, numbers = ("vi32", "gm_lane_numbers") if size == 4 else ("vi64", "gm_wide_numbers")
        s = vector[1:]
        lines = []
        for part in range(self.vectors(size)):
            some = f"({vector})(ld_{s}({numbers}) < gm_left_{s}(m - {part} * {COUNTS[size]}))"
            value = f"set1_{s}(-1)" if whole else some
            lines.append(f"const {vector} {self.name(line.value, part)} = {value};")
        return lines

    def _loop(self, loop: Loop, whole: bool | None) -> list[str]:
        """Carries are variables; a turn computes all that replace them before the first is replaced."""
        t, limit = f"t{loop.turn}", None if loop.limit is None else f"n{loop.limit}"
        for carry in loop.carries:
            self.forms[carry.value] = Form(carry.dtype, self.size_of(carry.dtype), carry.single)
        self.single(loop.turn, int64)
        starts = [
            f"{vector} {name} = {self.operand(carry.first, self.size_of(carry.dtype), part)};"
            for carry, part, vector, name in self._carried(loop)
        ]
        end = limit
        if loop.count is not None:
            end = f"gm_turns({self.name(loop.count)}[0], {limit or 'INT64_MAX'})"
        lines = [f"const vi64 v{loop.turn} = set1_i64({t});", *self.inner(loop.body, whole)]
        lines += [
            f"const {vector} next_{name} = {self.operand(carry.next, self.size_of(carry.dtype), part)};"
            for carry, part, vector, name in self._carried(loop)
        ]
        lines += [f"{name} = next_{name};" for _, _, _, name in self._carried(loop)]
        if loop.stop is not None:
            lines.append(f"if ({self._any(loop.stop)}) end{t} = {t};")
        if loop.active is not None:
            lines.append(f"if (!({self._any(loop.active)})) end{t} = {t};")
        head = [f"int64_t {t} = 0, end{t} = {end};", f"for (; {t} < end{t}; {t}++) {{"]
        return [*starts, *head, *indent(lines), "}", *self._cleared(loop, whole)]

    def _carried(self, loop: Loop) -> Iterator[tuple[Carry, int, str, str]]:
        """Each carry's parts: number, type and name."""
        for carry in loop.carries:
            for part in range(1 if carry.single else self.vectors(self.size_of(carry.dtype))):
                yield carry, part, self.lane(carry.dtype).vector, self.name(carry.value, part)

    def _any(self, mask: int) -> str:
        """Whether a bool holds for some element of the step."""
        form = self.forms[mask]
        parts = 1 if form.single else self.vectors(form.size)
        return " || ".join([f"any_i{8 * form.size}({self.name(mask, part)})" for part in range(parts)])

    def _cleared(self, loop: Loop, whole: bool | None) -> list[str]:
        """The rows of stacks for turns that were not taken."""
        if not loop.stacks:
            return []
        lines = [f"const vi64 v{loop.turn} = set1_i64(t{loop.turn});"]
        for buffer, zero in loop.stacks:
            lines += self._stored(Store(buffer, zero, loop.turn), whole)
        head = f"for (; t{loop.turn} < n{loop.limit}; t{loop.turn}++) {{"
        return [head, *indent(lines), "}"]

    # ---- numbers

    def _numbered(self, line: Count | Draw, single: bool) -> list[str]:
        """What follows from the numbers of a counter: one of them for all elements, or each its own."""
        dtype = line.dtype if isinstance(line, Count) else uint32
        values = (line.value,) if isinstance(line, Count) else line.values
        single = single or self.kernel.counters[line.counter] == "repeat"
        for value in values:
            self.forms[value] = Form(dtype, dtype.size, single)
        along = "repeat" if single else self.kernel.counters[line.counter]
        word = self.words[len(self.kernel.buffers) + line.counter] + self.kernel.rank
        step = {"dense": "1", "repeat": "0", "strided": f"d[{word}]"}[along]
        result = []
        for part in range(1 if single else self.vectors(dtype.size)):
            at = f"n{line.counter}"
            if along != "repeat":
                at += f" + (j{self._at(part, dtype.size)}) * {step}"
            if isinstance(line, Count):
                counted = f"gm_count_{dtype.suffix}({at}, {step})"
                result.append(f"const {self.lane(dtype).vector} {self.name(line.value, part)} = {counted};")
            else:
                result += self._drawn(line, along, part, f"{at}, {step}")
        return result

    def _drawn(self, line: Draw, along: Along, part: int, numbers: str) -> list[str]:
        call = ", ".join([self.name(operand) for operand in (*line.key, line.ordinal, line.turn)])
        names = [self.name(value, part) for value in line.values]
        if len(names) == 1:
            function = "random_row" if along == "dense" else "random_each"
            return [f"const vu32 {names[0]} = {function}({numbers}, {call});"]
        drawn = f"random_lanes w{names[0]} = random_of({numbers}, {call});"
        words = [f"const vu32 {name} = w{names[0]}.word[{k}];" for k, name in enumerate(names)]
        return [f"const {drawn}", *words]

    # ---- arithmetic

    def applied(self, line: Apply) -> list[str]:
        """One vector where all operands are; else the step's."""
        single = all(self.forms[operand].single for operand in line.operands)
        size = self._lanes_of(line)
        self.forms[line.value] = Form(line.dtype, size, single)
        vector = self.lane(line.dtype, size).vector
        return [
            f"const {vector} {self.name(line.value, part)} = {self._text(line, vector, size, part)};"
            for part in range(1 if single else self.vectors(size))
        ]

    def _lanes_of(self, line: Apply) -> int:
        """The bytes of a lane of the result: a bool's are those of what it was computed from."""
        if line.dtype is not bool_:
            return line.dtype.size
        numbers = [dtype.size for dtype in line.dtypes if dtype is not bool_]
        return numbers[0] if numbers else max(self.forms[operand].size for operand in line.operands)

    def _text(self, line: Apply, vector: str, size: int, part: int) -> str:
        own, result = line.dtypes[-1], line.dtype
        if line.op == "cast" and bool_ not in (own, result) and own.size != result.size:
            return self._resized(line, part)
        names = [self.operand(operand, size, part) for operand in line.operands]
        text = names[0]  # of a bitcast: the cast below keeps the bits, and integers have no NaN to replace
        if line.op != "bitcast" or line.dtypes[0] in (float32, float64):
            text = expression(line.op, line.dtypes, result, names)
        if line.op == "select" and result is bool_:
            text = f"sel_i{8 * size}({', '.join(names)})"
        if result is bool_ or line.op == "bitcast":
            return f"({vector}){text}"
        return text[1:-1] if text[0] == "(" else text  # the table's parentheses, around an operator

    def _resized(self, line: Apply, part: int) -> str:
        """A number as one of other lanes: half a vector as a vector, or two joined to one."""
        (x,), (own,) = line.operands, line.dtypes
        cast = f"cvt_{own.suffix}_{line.dtype.suffix}"
        if own.size == 4:
            return f"{cast}({'high' if part % 2 else 'low'}_{own.suffix}({self.name(x, part // 2)}))"
        low, high = self.name(x, 2 * part), self.name(x, 2 * part + 1)
        return f"join_{line.dtype.suffix}({cast}({low}), {cast}({high}))"

    # ---- reductions

    def _collected(self, line: Collect, whole: bool | None) -> list[str]:
        dtype = self.kernel.buffers[line.buffer].dtype
        s, op, result = dtype.suffix, OPERATIONS[line.kind], []
        for part, v in enumerate(self.names(line.operand, dtype)):
            p, left = f"p{line.buffer} + j{self._at(part, dtype.size)}", self._left(part, dtype.size)
            full, some = (
                f"gm_collect_{s}({op}, first, {p}, {v});",
                f"gm_collectn_{s}({op}, first, {p}, {v}, {left});",
            )
            result.append(self._either(full, some, whole))
        return result

    def _taken(self, name: str, line: Reduce | Collect, dtype: DType, whole: bool | None) -> list[str]:
        """``line``'s operand into the accumulators ``name``."""
        s, op, count, result = dtype.suffix, OPERATIONS[line.kind], self.count(dtype), []
        values = self.names(line.operand, dtype)
        for part, value in enumerate(values):
            two = len(values) > 1
            if whole:
                own = f"GM_AT(a{name}_, GM_PART{part}_##i)" if two else f"a{name}_##i"
                result.append(f"{own} = gm_combine_{s}({op}, {own}, {value});")
                continue
            if whole is None:
                own = f"a{name}_[u * {len(values)} + {part}]" if two else f"a{name}_[u]"
                head = f"head_{s}({value}, m - {part} * {count}, {neutral(line.kind, dtype)})"
                some = f"m >= {self.width} ? {value} : {head}"
                result.append(f"{own} = gm_combine_{s}({op}, {own}, {some});")
                continue
            place, left = (f"u * 2 + {part}", f"m - {part} * {count}") if two else ("u", "m")
            head = f"head_{s}({value}, {left}, {neutral(line.kind, dtype)})"
            result.append(f"GM_TAKE_{s}({op}, a{name}_, {place}, {head})")
        return result

    def _taken_by_column(self, line: Reduce) -> list[str]:
        s, op, result = line.dtype.suffix, OPERATIONS[line.kind], []
        values = self.names(line.operand, line.dtype)
        for part, v in enumerate(values):
            place = "lane + u" if len(values) == 1 else f"(lane + u) * 2 + {part}"
            a = f"a{line.value}[{place}]"
            result.append(f"{a} = r - b < GM_LANES ? {v} : gm_combine_{s}({op}, {a}, {v});")
        return result
