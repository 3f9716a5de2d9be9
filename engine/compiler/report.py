"""What each step of a bound plan does: what it computes, moves and keeps, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from engine.compiler.anywhere import BLOCK_WORDS
from engine.compiler.binding import Binding
from engine.compiler.lower import Lowered
from engine.compiler.memory import Block
from engine.compiler.sized import at_sizes
from engine.compiler.steps import ChainStep, CondStep, FusedStep, LoopStep, SingleStep, Step
from engine.compiler.table import ARENA
from engine.core.node import Node
from engine.core.opdef import OPS


@dataclass(frozen=True, slots=True)
class BufferReport:
    """A buffer that a step writes: in use from wave to wave, at an offset of the arena or elsewhere."""

    name: str
    nbytes: int
    first: int
    last: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class StepReport:
    """``kind`` is a fused kernel's kind or a primitive; ``reads`` name nodes by their numbers.

    ``moved`` bytes are those of what is read and written, each once; ``flops`` counts an exp as its cost.
    """

    step: int
    wave: int | None
    kernel: str
    kind: str
    computes: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[BufferReport, ...]
    moved: int
    flops: int
    chunks: int


class Names:
    """Short names of nodes: inputs by their own, others by their number in the order of the steps."""

    def __init__(self, inputs: Sequence[Node], labels: Sequence[str], steps: Iterable[Step]) -> None:
        self._names: dict[Node, str] = dict(zip(inputs, labels, strict=True))
        count = 0
        for step in steps:
            for node in (*step.nodes, *step.writes):
                if node not in self._names:
                    self._names[node] = f"%{count}"
                    count += 1

    def __call__(self, node: Node) -> str:
        found = self._names.get(node)
        if found is not None:
            return found
        if node.op != "constant":
            return f"a given {node.op}"
        return str(node.dtype.decode(node.attrs[0]))

    def equation(self, node: Node, operands: Sequence[Node], shape: tuple[int, ...]) -> str:
        """``%3 = add(%1, b)  float32[8, 32]``; a loop within a kernel has no value of its own."""
        which = [attr for attr in node.attrs if isinstance(attr, str)]
        op = f"{node.inputs[0].op}[{node.attrs[0]}]" if node.op == "item" else node.op
        read = ", ".join([self(operand) for operand in operands])
        if node.op == "loop":
            return f"{self(node)} = {_turns(node)}({read})"
        return f"{self(node)} = {' '.join([op, *which])}({read})  {node.dtype}{list(shape)}"


def _turns(node: Node) -> str:
    """``loop of 252 turns of 3 add, 2 mul``."""
    body, limit = node.attrs[:2]
    counts = Counter([own.op for own in body.nodes if OPS[own.op].kind in ("elementwise", "index", "leaf")])
    parts = [f"{count} {op}" for op, count in counts.items() if op != "constant"]
    return f"loop of {'counted' if limit is None else limit} turns of {', '.join(parts)}"


def reports(binding: Binding, names: Names) -> list[StepReport]:
    """One for each step of the binding's blueprint."""
    wave_of: dict[int, int] = {}
    chunks: dict[int, int] = {}
    for number, wave in enumerate(binding.waves):
        for item in wave.items:
            wave_of.setdefault(item.step, number)
            chunks[item.step] = chunks.get(item.step, 0) + (item.call.chunks if item.call else 0)
    operands = binding.blueprint.operands
    scratch = _scratch(binding)
    found = []
    for number, step in enumerate(binding.blueprint.steps):
        found.append(
            StepReport(
                step=number,
                wave=wave_of.get(number),
                kernel=step.node.op if isinstance(step, SingleStep) else step.name,
                kind=_kind(step),
                computes=tuple(
                    [
                        names.equation(node, operands.get(node, ()), binding.shape(node.shape))
                        for node in step.nodes
                    ]
                ),
                reads=tuple([names(node) for node in dict.fromkeys(step.reads) if node.op != "constant"]),
                writes=(
                    *[_buffer(names(node), binding.block(node)) for node in step.writes],
                    *[_buffer("scratch", block) for block in scratch.get(number, ())],
                ),
                moved=_bytes(step, binding),
                flops=sum(_flops(node, binding) for node in _computed(step)),
                chunks=chunks.get(number, 0),
            )
        )
    return found


def _scratch(binding: Binding) -> dict[int, list[Block]]:
    """What each step keeps in the arena for itself."""
    shared = {binding.block(node) for step in binding.blueprint.steps for node in step.writes}
    found: dict[int, dict[Block, None]] = {}
    for item in binding.items:
        for block, _ in item.buffers:
            if block.base == ARENA and block not in shared:
                found.setdefault(item.step, {})[block] = None
    return {number: list(blocks) for number, blocks in found.items()}


def _buffer(name: str, block: Block) -> BufferReport:
    return BufferReport(
        name, block.nbytes, block.first, block.last, block.offset if block.base == ARENA else None
    )


def _kind(step: Step) -> str:
    if isinstance(step, ChainStep):
        return "chain"
    if isinstance(step, LoopStep | CondStep):
        return "nested"
    return "single" if isinstance(step, SingleStep) else step.lowered.kernel.kind


def _bytes(step: Step, binding: Binding) -> int:
    """What a step reads and writes, each element once."""
    total = 0
    if isinstance(step, ChainStep):
        return sum(_bytes(part, binding) for part in step.parts)
    if isinstance(step, LoopStep | CondStep):
        total += sum([binding.nbytes(node) for node in step.writes])
    elif isinstance(step, SingleStep):
        total += prod(binding.shape(step.node.shape)) * step.node.dtype.size
    else:
        total += _kernel_bytes(step.lowered, binding)
    if not isinstance(step, FusedStep):
        for access in step.accesses:
            shape, strides = binding.shape(access.shape), binding.shape(access.strides)
            elements = prod([size for size, stride in zip(shape, strides, strict=True) if stride])
            total += elements * access.source.dtype.size
    return total


def _kernel_bytes(lowered: Lowered, binding: Binding) -> int:
    outer, partial = binding.shape(lowered.outer), at_sizes(lowered, binding.sizes).partial
    total = 0
    for buffer, layout in zip(lowered.kernel.buffers, lowered.layouts, strict=True):
        strides = binding.shape(layout.outer)
        rows = prod([size for size, stride in zip(outer, strides, strict=False) if stride])
        along = binding.size(lowered.inner) if binding.size(layout.inner) else 1
        if not buffer.scratch:
            total += (partial if buffer.partial else rows * along) * buffer.dtype.size
    return total


def _computed(step: Step) -> Iterable[Node]:
    """The nodes whose work a step is: of items, what they are of."""
    if isinstance(step, LoopStep | CondStep):
        return dict.fromkeys([node.inputs[0] for node in step.nodes])
    return step.nodes


def _flops(node: Node, binding: Binding) -> int:
    kind = OPS[node.op].kind if node.op in OPS else "movement"
    elements = prod(binding.shape(node.shape))
    if node.op == "dot":
        return 2 * elements * binding.size(node.inputs[0].shape[-1])
    if kind == "reduce":
        return prod(binding.shape(node.inputs[0].shape))
    if node.op == "loop":
        body, limit = node.attrs[:2]
        return (1 if limit is None else binding.size(limit)) * sum(_flops(own, binding) for own in body.nodes)
    if node.op == "cond":
        return max([sum([_flops(own, binding) for own in branch.nodes]) for branch in node.attrs])
    if node.op == "random_bits":
        return elements * OPS[node.op].cost // BLOCK_WORDS
    return elements * OPS[node.op].cost if kind == "elementwise" else 0
