"""A plan in words: each step with what it computes and moves, where it keeps it, and what was not fused and
why.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.compiler.binding import Binding
from engine.compiler.blueprint import Blueprint
from engine.compiler.report import BufferReport, Names, StepReport, reports
from engine.compiler.steps import CondStep, LoopStep
from engine.core.node import Node


def describe(binding: Binding, names: Names, targets: Iterable[str]) -> str:
    """The whole description, one paragraph a step."""
    steps = reports(binding, names)
    lines = [_headline(binding, steps), "", *_paragraphs(binding, steps)]
    lines += ["", "targets", *[f"    {target}" for target in targets]]
    refusals = _refusals(binding.blueprint, names)
    if refusals:
        lines += ["", "not fused", *[f"    {text}" for text in refusals]]
    lines += ["", "memory", *[f"    {text}" for text in _memory(binding)]]
    return "\n".join(lines) + "\n"


def shown_targets(binding: Binding, names: Names) -> list[str]:
    """How each target is read, and what each state becomes."""
    blueprint = binding.blueprint
    lines = []
    for access in blueprint.results:
        node = access.source
        shape = list(binding.shape(access.shape))
        whole = access.shape == node.shape and access.offset == 0
        lines.append(names(node) if whole else f"{names(node)} as {node.dtype}{shape}")
    return lines


def _headline(binding: Binding, steps: list[StepReport]) -> str:
    kernels = len({step.kernel for step in steps if step.kind != "single"})
    once = sum(step.wave is None for step in steps)
    launches = len(steps) - once
    sizes = ", ".join(f"{name} = {size}" for name, size in binding.sizes.items())
    parts = [
        f"{_count(launches, 'step')} in {_count(len(binding.waves), 'wave')}",
        f"{_count(kernels, 'fused kernel')}",
        f"{size_text(sum(step.moved for step in steps if step.wave is not None))} moved",
        f"{count_text(sum(step.flops for step in steps if step.wave is not None))} flops",
    ]
    if once:
        parts.append(f"{_count(once, 'step')} run once, when sizes are bound, or without elements")
    return "plan" + (f" at {sizes}" if sizes else "") + ": " + ", ".join(parts)


def _paragraphs(binding: Binding, steps: Iterable[StepReport]) -> list[str]:
    """One for each step, and within those of loops and conditions the ones of their bodies."""
    nested = {item.step: item.nested.bindings for item in binding.items if item.nested}
    lines = []
    for step in steps:
        lines += _paragraph(step)
        titles = ("each turn",) if step.kernel == "loop" else ("then", "otherwise")
        for title, inner in zip(titles, nested.get(step.step, ()), strict=False):
            own = binding.blueprint.steps[step.step]
            assert isinstance(own, LoopStep | CondStep)
            names = Names(inner.inputs, own.labels, inner.blueprint.steps)
            inside = _paragraphs(inner, reports(inner, names))
            lines += [f"    {title}", *[f"        {line}" for line in inside]]
    return lines


def _paragraph(step: StepReport) -> list[str]:
    when = "once" if step.wave is None else f"wave {step.wave}"
    head = f"{when}: {step.kernel}" + (f" ({step.kind})" if step.kind != "single" else "")
    traffic = f"{size_text(step.moved)}, {count_text(step.flops)} flops, {_count(step.chunks, 'chunk')}"
    lines = [f"{head}: {traffic}", f"    reads {', '.join(step.reads) or 'nothing'}"]
    lines += [f"    {equation}" for equation in step.computes]
    lines += [f"    writes {_place(buffer)}" for buffer in step.writes]
    return lines


def _place(buffer: BufferReport) -> str:
    text = f"{buffer.name}: {size_text(buffer.nbytes)}"
    if buffer.offset is None:
        return f"{text}, a result" if buffer.first >= 0 else f"{text}, kept"
    return f"{text} at {buffer.offset} of the arena, waves {buffer.first} to {buffer.last}"


def _refusals(blueprint: Blueprint, names: Names) -> list[str]:
    """Each reason once for a pair of nodes, or for a loop that no kernel runs."""
    texts = []
    for own in blueprint.refusals:
        pair = [own.consumer] if own.producer is own.consumer else [own.producer, own.consumer]
        texts.append(f"{' and '.join([_named(node, names) for node in pair])}: {own.reason}")
    return list(dict.fromkeys(texts))


def _named(node: Node, names: Names) -> str:
    return "a loop that is a plan" if node.op == "loop" else f"{names(node)} {node.op}"


def _memory(binding: Binding) -> list[str]:
    arena = binding.arena_bytes - binding.pointer_bytes
    share = 100 * arena / binding.buffer_bytes if binding.buffer_bytes else 0
    live = live_bytes(binding)
    peak = max(range(len(live)), key=live.__getitem__) if live else 0
    lines = [f"arena {size_text(arena)}"]
    if live and live[peak]:
        lines[0] += f", {share:.0f} % of the {size_text(binding.buffer_bytes)} of its buffers"
        lines.append(f"most in use in wave {peak}: {size_text(live[peak])}")
    results = sum(binding.output_bytes)
    own = zip(binding.state_bytes, binding.unchanged, strict=True)
    states = sum([nbytes for nbytes, unchanged in own if unchanged is None])
    lines.append(f"results {size_text(results)}")
    if states:
        in_place = sum(binding.blueprint.in_place)
        lines.append(f"states {size_text(states)}, {in_place} of {len(binding.state_bytes)} in place")
    return lines


def live_bytes(binding: Binding) -> list[int]:
    """The bytes of arena buffers in use in each wave."""
    live = [0] * (len(binding.waves) + 1)
    for block in binding.arena_blocks():
        live[block.first] += block.nbytes
        live[block.last + 1] -= block.nbytes
    for wave in range(1, len(live)):
        live[wave] += live[wave - 1]
    return live[:-1]


def size_text(nbytes: float) -> str:
    """``1536`` as ``1.5 KB``."""
    return _scaled(nbytes, 1024, ("B", "KB", "MB", "GB"))


def count_text(number: float) -> str:
    """``1500`` as ``1.5 k``."""
    return _scaled(number, 1000, ("", "k", "M", "G", "T"))


def _scaled(number: float, step: int, units: tuple[str, ...]) -> str:
    power = 0
    while number >= step and power < len(units) - 1:
        number /= step
        power += 1
    digits = f"{number:.1f}" if isinstance(number, float) else str(number)
    return f"{digits.removesuffix('.0')} {units[power]}".rstrip()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
