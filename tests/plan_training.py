"""A whole training step as one graph: forward, gradients and Adam, with the states that it replaces."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from engine import Generator, Graph, Tensor, nn
from engine.core import build as b
from engine.core.dtype import float32, int64
from engine.core.node import Node
from engine.devices.array import Array

Feeds = dict[Node, Array]


@dataclass(frozen=True)
class Step:
    """``rate`` and ``spread`` are Adam's scalars of one step; ``values`` are what the states begin with."""

    tokens: Node
    targets: Node
    rate: Node
    spread: Node
    loss: Node
    states: list[tuple[Node, Node]]
    values: Feeds

    @property
    def inputs(self) -> list[Node]:
        return [self.tokens, self.targets, self.rate, self.spread, *[old for old, _ in self.states]]

    def feeds(self, seed: int, step: int, vocabulary: int = 65) -> Feeds:
        """Random characters and the scalars of step number ``step``, from 1."""
        random = Generator(seed)
        tokens, targets = (
            Array.from_list(
                random.integers(0, vocabulary, (prod(node.shape),)).tolist(), node.shape, node.dtype
            )
            for node in (self.tokens, self.targets)
        )
        rate, spread = 1e-3 / (1 - 0.9**step), 1 / (1 - 0.999**step) ** 0.5
        scalars = [Array.from_list([value], (), float32) for value in (rate, spread)]
        return dict(
            zip((self.tokens, self.targets, self.rate, self.spread), (tokens, targets, *scalars), strict=True)
        )


def gpt(width: int, layers: int, length: int, vocabulary: int = 65) -> nn.GPT:
    return nn.GPT(vocabulary, width, max(1, width // 32), 2 * width, layers, length, generator=Generator(0))


def training_step(model: nn.GPT, batch: int, length: int, vocabulary: int = 65) -> Step:
    """One step of Adam on the mean cross-entropy of ``batch`` windows."""
    graph = Graph()
    tokens = graph.input("tokens", (batch, length), int64)
    targets = graph.input("targets", (batch * length,), int64)
    held = [(parameter, parameter._value) for parameter in model.parameters()]
    leaves = [graph.parameter(str(number), value.shape) for number, (_, value) in enumerate(held)]
    for leaf, (parameter, _) in zip(leaves, held, strict=True):
        parameter._set(leaf._value, None, True)
    with graph:
        logits = model(tokens).reshape(batch * length, vocabulary)
        loss = nn.CrossEntropyLoss()(logits, targets)
    gradients = graph.differentiate(loss, [parameter for parameter, _ in held])
    for parameter, value in held:
        parameter._set(value, None, True)
    rate, spread = b.input((), float32), b.input((), float32)
    states: list[tuple[Node, Node]] = []
    values: Feeds = {}
    for (_, value), leaf, slope in zip(held, leaves, gradients, strict=True):
        parameter, gradient = node_of(leaf), node_of(slope)
        m, v = (b.input(parameter.shape, float32) for _ in range(2))
        states += zip((parameter, m, v), adam(parameter, gradient, m, v, (rate, spread)), strict=True)
        values[parameter] = value
        for node in (m, v):
            values[node] = Array.from_bytes(bytes(4 * value.size), node.shape, float32)
    return Step(node_of(tokens), node_of(targets), rate, spread, node_of(loss), states, values)


def node_of(x: Tensor) -> Node:
    """What stands for a tensor of a recorded graph."""
    return x._value.node  # type: ignore[attr-defined, no-any-return]


def adam(p: Node, g: Node, m: Node, v: Node, scalars: tuple[Node, Node]) -> tuple[Node, Node, Node]:
    """New p, m and v; ``scalars`` are rate and spread."""
    rate, spread = scalars

    def every(x: Node | float) -> Node:
        return b.broadcast(x, p.shape) if isinstance(x, Node) else b.full(p.shape, float32, x)

    def mixed(old: Node, fresh: Node, beta: float) -> Node:
        return b.add(b.mul(fresh, every(1 - beta)), b.mul(old, every(beta)))

    new_m, new_v = mixed(m, g, 0.9), mixed(v, b.mul(g, g), 0.999)
    width = b.add(b.mul(b.sqrt(new_v), every(spread)), every(1e-8))
    return b.sub(p, b.div(b.mul(new_m, every(rate)), width)), new_m, new_v
