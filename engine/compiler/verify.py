"""The grammar of each stage of the compiler, executable: what a graph, clusters and loops must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from engine.compiler.access import Access
from engine.compiler.cluster import Cluster, Hosted, Place
from engine.compiler.fit import lanes_of
from engine.compiler.fuse import MOST_NODES, Fusion
from engine.compiler.loopir import (
    Apply,
    Buffer,
    Collect,
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
from engine.core.dtype import DType, bool_, int64, uint32
from engine.core.node import Node
from engine.core.opdef import OPS
from engine.core.region import Region
from engine.core.walk import post_order

Stage: TypeAlias = Literal["graph", "clusters", "loops"]


class VerificationError(AssertionError):
    """A pass broke what the stage after it relies on."""


def verify(stage: Stage, subject: Any) -> None:
    """Checks targets of a graph, a Fusion, or a Kernel. Raises VerificationError with what is wrong."""
    _STAGES[stage](subject)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise VerificationError(message)


# ---- graph


def _graph(targets: Sequence[Node]) -> None:
    for node in post_order(targets):
        _require(node.op in OPS, f"{node}: no primitive {node.op!r}")
        row = OPS[node.op]
        _require(row.arity is None or len(node.inputs) == row.arity, f"{node}: {len(node.inputs)} inputs")
        _require(len(node.attrs) == len(row.attrs), f"{node}: attributes {node.attrs}, not {row.attrs}")
        if not node.inputs:
            continue
        regions = [x for x in node.inputs if OPS[x.op].kind == "region"]
        _require(not regions or node.op == "item", f"{node} reads {regions}, which only items may")
        _require(all(x.dtype in row.dtypes for x in node.inputs), f"{node}: an input's dtype is not allowed")
        shape, dtype = row.shape(node.inputs, node.attrs), row.dtype(node.inputs, node.attrs)
        _require((shape, dtype) == (node.shape, node.dtype), f"{node}: the rule gives {dtype}{list(shape)}")
        for attr in node.attrs:
            if isinstance(attr, Region):
                _graph(attr.outs)


# ---- clusters


def _clusters(fusion: Fusion) -> None:
    done: dict[Node, int] = {}  # what is complete, and from which level on it may be read
    for step in fusion.steps:
        for access in step.accesses:
            source = access.source
            if source in fusion.home:
                _require(source in done, f"{source} is read before it is computed")
                varying = not fusion.home[source].fixed
                _require(not (step.fixed and varying), f"a step that runs once reads {source}, which varies")
                _require(not varying or done[source] <= step.level, f"{source} is complete after its reader")
        if isinstance(step, Cluster):
            _cluster(fusion, step)
            for partial in step.partials.values():
                done[partial] = step.level + 1
        for node in step.nodes:
            if fusion.home.get(node) is step:
                done[node] = step.level + 1
        _require(
            isinstance(step, (Cluster, Hosted)) or len(step.nodes) == 1, "a step of its own has one node"
        )
    for node, step in fusion.home.items():
        _require(isinstance(step, Hosted) or node in done, f"{node} has a home among no steps")


def _cluster(fusion: Fusion, cluster: Cluster) -> None:
    _require(0 < len(cluster.places) <= MOST_NODES, f"a cluster of {len(cluster.places)} nodes")
    _require(cluster.places.keys() == cluster.reads.keys(), "places and reads name different nodes")
    space, seen = cluster.space, set[Node]()
    for node, place in cluster.places.items():
        lanes = fusion.loops[node].lanes if node in fusion.loops else lanes_of(node)
        _require(lanes is not None and lanes in (0, *range(cluster.lanes, 9)), f"{node} in {cluster.lanes}")
        reduces = node.op == "reduce"
        _require(
            reduces or place is not Place.COLUMN, f"{node} varies along columns only, and reduces nothing"
        )
        reader = space.dims if reduces or place is Place.FULL else space.outer
        for access in cluster.reads[node]:
            _access(cluster, node, access, seen)
            _require(
                access.source.op == "constant" or place is Place.ANYWHERE or access.over(reader) is not None,
                f"{node} reads {access.source} along no strides of {reader}",
            )
        seen.add(node)


def _access(cluster: Cluster, node: Node, access: Access, seen: set[Node]) -> None:
    own = cluster.places.get(access.source)
    if own is None:
        return
    _require(access.source in seen, f"{node} comes before its operand {access.source}")
    _require(own is not Place.COLUMN, f"{node} reads {access.source}, which is complete when the kernel ends")
    outer = cluster.places[node] is Place.OUTER and node.op != "reduce"
    _require(not (outer and own is Place.FULL), f"{node} of a row reads one element of {access.source}")
    _require(not access.windows, f"{node} reads {access.source} through a window")


# ---- loops


def _loops(kernel: Kernel) -> None:
    ends = "finish", "total"
    kinds = {
        "each": (),
        "rows": (Reduce,),
        "columns": (Reduce,),
        "lanes": (Reduce, Collect),
        "blocks": (Collect,),
        **dict.fromkeys(ends, (Collect,)),
    }
    lines = [line for stage in kernel.stages for line in stage.inner]
    reducing = [line for line in lines if isinstance(line, (Reduce, Collect))]
    _require(kernel.lanes in (4, 8), f"elements of {kernel.lanes} bytes")
    _require(
        all(isinstance(line, kinds[kernel.kind]) for line in reducing),
        f"a reduction that {kernel.kind} lacks",
    )
    for buffer in kernel.buffers:
        _buffer(kernel, buffer)
    if kernel.kind in ends:
        return
    if kernel.kind in ("columns", "blocks"):
        _require(len(kernel.stages) == 1, f"{kernel.kind} have one stage")
    everywhere = {constant.value: constant.dtype for constant in kernel.constants}
    stored: set[int] = set()
    for stage in kernel.stages:
        _lines(kernel, stage.row, everywhere, stored)
        inner = dict(everywhere)
        _lines(kernel, stage.inner, inner, stored)
        everywhere.update({line.value: line.dtype for line in stage.inner if isinstance(line, Reduce)})
    _lines(kernel, kernel.last, everywhere, stored)
    written = {k for k, buffer in enumerate(kernel.buffers) if buffer.written and not buffer.partial}
    _require(written == stored, f"buffers {written ^ stored} are written, or should be")


def _buffer(kernel: Kernel, buffer: Buffer) -> None:
    _require(
        not (buffer.scratch or buffer.partial) or buffer.written or kernel.kind in ("finish", "total"),
        "unwritten scratch",
    )
    _require(not (buffer.windows and buffer.written), "a window onto what is written")
    _require(
        all(0 <= axis <= kernel.rank for axis in buffer.windows), f"a window along axis {buffer.windows}"
    )
    _require(list(buffer.windows) == sorted(set(buffer.windows)), "windows out of order")


def _lines(kernel: Kernel, lines: Sequence[Line], values: dict[int, DType], stored: set[int]) -> None:
    """Every value is assigned once, before it is used, with the dtype that its reader expects."""
    for line in lines:
        match line:
            case Load(value, buffer, fill, row):
                own = kernel.buffers[buffer]
                _require((row is None) != own.rows, f"buffer {buffer}: a row is picked where there are rows")
                _require(not own.written or buffer in stored, f"buffer {buffer} is read before it is written")
                _require((fill is None) == (not own.windows), f"buffer {buffer}: a window needs a fill")
                _require(fill is None or values.get(fill) is own.dtype, f"v{fill} fills buffer {buffer}")
                _assign(values, value, own.dtype)
            case First(value):
                _assign(values, value, bool_)
            case Loop():
                _loop(kernel, line, values, stored)
            case Count(value, counter, dtype):
                _require(counter < len(kernel.counters), f"v{value} counts by no counter")
                _assign(values, value, dtype)
            case Draw(words, counter, key, ordinal, turn):
                _require(counter < len(kernel.counters), f"v{words[0]} is drawn by no counter")
                for operand in (*key, ordinal, turn):
                    _require(values.get(operand) is uint32, f"v{words[0]}: v{operand} is no uint32")
                for value in words:
                    _assign(values, value, uint32)
            case Apply(value, op, operands, dtypes, dtype):
                _require(OPS[op].kind == "elementwise", f"{op} is not elementwise")
                for operand, expected in zip(operands, dtypes, strict=True):
                    _require(values.get(operand) is expected, f"v{value}: v{operand} is no {expected}")
                _require(dtype is bool_ or dtype.size >= kernel.lanes, f"v{value}: {dtype} in {kernel.lanes}")
                _assign(values, value, dtype)
            case Reduce(value, _, operand, dtype):
                _require(values.get(operand) is dtype, f"v{value} reduces v{operand}")
                _require(value not in values, f"v{value} is assigned twice")
                if kernel.kind == "columns":
                    values[value] = dtype
            case Collect(buffer, _, operand):
                _require(kernel.buffers[buffer].partial, f"buffer {buffer} collects nothing")
                _require(operand in values, f"v{operand} is collected before it is there")
            case Store(buffer, value, row):
                _require((row is None) != kernel.buffers[buffer].rows, f"a row of buffer {buffer} is written")
                _require(kernel.buffers[buffer].written, f"buffer {buffer} is only read")
                _require(buffer not in stored, f"buffer {buffer} is written twice")
                _require(values.get(value) is kernel.buffers[buffer].dtype, f"v{value} into buffer {buffer}")
                stored.add(buffer)


def _loop(kernel: Kernel, loop: Loop, values: dict[int, DType], stored: set[int]) -> None:
    """Carries are there after the loop; what its body computes is not."""
    _require(loop.count is not None or loop.limit is not None, f"v{loop.turn} counts without end")
    _require(loop.limit is None or loop.limit < len(kernel.counters), f"v{loop.turn} has no such limit")
    for carry in loop.carries:
        _require(values.get(carry.first) is carry.dtype, f"v{carry.value} begins as v{carry.first}")
        _assign(values, carry.value, carry.dtype)
    inner = values | {loop.turn: int64}
    _lines(kernel, loop.body, inner, stored)
    for carry in loop.carries:
        _require(inner.get(carry.next) is carry.dtype, f"v{carry.value} becomes v{carry.next}")
    for flag in (loop.stop, loop.active):
        _require(flag is None or inner.get(flag) is bool_, f"v{flag} ends a loop and is no bool")


def _assign(values: dict[int, DType], value: int, dtype: DType) -> None:
    _require(value not in values, f"v{value} is assigned twice")
    values[value] = dtype


_STAGES: dict[Stage, Callable[[Any], None]] = {"graph": _graph, "clusters": _clusters, "loops": _loops}
