"""Random graphs of every primitive, and both ways to their values: a plan, and one node a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.autodiff.merge import merge
from engine.compiler.cluster import Single
from engine.compiler.fuse import Fusion
from engine.compiler.lower import lower
from engine.compiler.plan import Plan
from engine.compiler.same_turns import united
from engine.compiler.simplify import simplify
from engine.compiler.verify import verify
from engine.core import build as b
from engine.core.dim import Dim
from engine.core.dim import evaluate as size_at
from engine.core.dtype import (
    ALL,
    FLOATS,
    INTS,
    NUMBERS,
    DType,
    bfloat16,
    bool_,
    float32,
    float64,
    int32,
    int64,
    uint32,
)
from engine.core.node import Node
from engine.core.opdef import OPS, make
from engine.core.region import LoopBody, at_sizes, results
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu import CpuDevice
from engine.devices.evaluate import evaluate

SPECIAL = (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-40, -1e-44, 3e38, 0.5, 2.0)
UNARY = [name for name, row in OPS.items() if row.kind == "elementwise" and row.arity == 1]
BINARY = [name for name, row in OPS.items() if row.kind == "elementwise" and row.arity == 2]
MODES = ("clamp", "wrap", "zero", "mirror")


@dataclass
class Pool:
    """Nodes that grow one primitive at a time over a few sizes; the first size may be a symbol."""

    random: np.random.Generator
    sizes: tuple[Dim, ...]
    dtypes: Sequence[DType]
    most: int = 4096
    nodes: list[Node] = field(default_factory=list)
    leaves: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        m, n, k = self.sizes
        for shape in ((m, n), (m, n), (n,), (m, 1), (n, k), (m, n, k), ()):
            self.leaf(shape, self.dtype())

    def choose(self, items: Sequence[Any]) -> Any:
        return items[int(self.random.integers(len(items)))]

    def dtype(self) -> DType:
        return self.choose(self.dtypes)

    def leaf(self, shape: tuple[Dim, ...], dtype: DType) -> Node:
        node = b.input(shape, dtype)
        self.leaves.append(node)
        self.nodes.append(node)
        return node

    def pick(self) -> Node:
        """Some node, more often a late one, so that chains grow long."""
        late = len(self.nodes) - 1 - int(self.random.exponential(3))
        return self.nodes[late] if late >= 0 and self.random.random() < 0.6 else self.choose(self.nodes)

    def like(self, x: Node, dtype: DType | None = None) -> Node:
        """Some node brought to x's shape by broadcasts and transposes, and to ``dtype`` by a cast."""
        dtype = dtype or x.dtype
        for _ in range(8):
            y = self.pick()
            found = _fitted(y, x.shape)
            if found is not None:
                return found if found.dtype is dtype else b.cast(found, dtype)
        if self.random.random() < 0.5:
            return b.full(x.shape, dtype, float(self.choose((0, 1, 2, 0.5))))
        return self.leaf(x.shape, dtype)

    def of(self, dtypes: Sequence[DType]) -> Node:
        x = self.pick()
        if x.dtype in dtypes:
            return x
        usual = [dtype for dtype in self.dtypes if dtype in dtypes] or [self.choose(dtypes)]
        return b.cast(x, self.choose(usual))

    def grow(self, steps: int) -> None:
        while steps:
            node = self.choose(GROW)(self)
            if node is None:
                continue
            steps -= 1
            elements: Dim = 1
            for size in node.shape:
                elements = elements * size
            if size_at(elements, {"rows": 100}) <= self.most:
                self.nodes.append(node)


def _fitted(y: Node, shape: tuple[Dim, ...]) -> Node | None:
    if y.rank == 2 and len(shape) >= 2 and y.shape != shape[-2:] and y.shape[::-1] == shape[-2:]:
        y = b.swap_last(y)
    if y.rank > len(shape):
        return None
    lead = len(shape) - y.rank
    fits = all(size in (1, want) for size, want in zip(y.shape, shape[lead:], strict=True))
    if not fits:
        return None
    return y if y.shape == shape else b.broadcast(y, shape)


# ---- one more node


def unary(pool: Pool) -> Node:
    op = pool.choose(UNARY)
    x = pool.of(OPS[op].dtypes)
    if op == "cast":
        return b.cast(x, pool.dtype())
    if op == "bitcast":
        alike = [dtype for dtype in NUMBERS if dtype.size == x.dtype.size]
        return b.bitcast(x, pool.choose(alike))
    return make(op, (x,))


def binary(pool: Pool) -> Node:
    op = pool.choose(BINARY)
    x = pool.of(OPS[op].dtypes)
    operands = (x, pool.like(x))
    return make(op, operands if pool.random.random() < 0.5 else operands[::-1])


def arithmetic(pool: Pool) -> Node:
    x = pool.of(FLOATS)
    return make(pool.choose(("add", "sub", "mul", "div", "max", "min")), (x, pool.like(x)))


def choice(pool: Pool) -> Node:
    x = pool.pick()
    return b.select(pool.like(x, bool_), x, pool.like(x))


def reduction(pool: Pool) -> Node | None:
    kind = pool.choose(("sum", "sum", "max", "min", "prod", "any"))
    x = pool.of({"any": [bool_], "sum": [*FLOATS, int64], "prod": [*FLOATS, int64]}.get(kind, list(NUMBERS)))
    count = int(pool.random.integers(1, x.rank + 1)) if x.rank else 0
    if not count:
        return None
    axes = tuple(sorted(int(axis) for axis in pool.random.permutation(x.rank)[:count]))
    if kind in ("max", "min") and any(
        x.shape[axis] == 0 or not isinstance(x.shape[axis], int) for axis in axes
    ):
        return None
    result = b.reduce(x, kind, axes)
    return b.expand(result, axes, x.shape) if pool.random.random() < 0.6 else result


def movement(pool: Pool) -> Node:
    x = pool.pick()
    kind = int(pool.random.integers(6))
    if kind == 0 and x.rank:
        return b.transpose(x, tuple(int(axis) for axis in pool.random.permutation(x.rank)))
    if kind == 1 and x.rank:
        return b.flip(x, int(pool.random.integers(x.rank)))
    if kind == 2 and x.rank and isinstance(x.shape[-1], int) and x.shape[-1] > 1:
        size = int(pool.random.integers(1, x.shape[-1]))
        return b.take(x, x.rank - 1, int(pool.random.integers(x.shape[-1] - size + 1)), size)
    if kind == 3 and x.rank > 1:
        return b.reshape(x, (*x.shape[:-2], x.shape[-2] * x.shape[-1]))
    if kind == 4:
        return make(pool.choose(("detach", "pass_grad", "keep")), (x,))
    return b.reshape(x, (*x.shape, 1))


def padded(pool: Pool) -> Node:
    x = pool.pick()
    low, high = (tuple(int(n) for n in pool.random.integers(0, 3, x.rank)) for _ in range(2))
    return b.pad(x, b.constant(1, x.dtype), low, high)


def joined(pool: Pool) -> Node | None:
    x = pool.pick()
    return b.concat((x, pool.like(x)), int(pool.random.integers(x.rank))) if x.rank else None


def running(pool: Pool) -> Node | None:
    x = pool.of((*FLOATS, int64))
    kind = pool.choose(("sum", "prod", "max"))
    return (
        b.scan(x, kind, int(pool.random.integers(x.rank)), bool(pool.random.integers(2))) if x.rank else None
    )


def extreme(pool: Pool) -> Node | None:
    x = pool.of(NUMBERS)
    axes = [axis for axis, size in enumerate(x.shape) if isinstance(size, int) and size]
    return b.argreduce(x, pool.choose(("max", "min")), pool.choose(axes)) if axes else None


def product(pool: Pool) -> Node | None:
    x = pool.of((float32, float64))
    return b.dot(x, b.swap_last(pool.like(x))) if x.rank >= 2 else None


def indexed(pool: Pool) -> Node | None:
    x = pool.pick()
    if not x.rank or x.shape[0] == 0:
        return None
    index = b.argreduce(pool.leaf((3, 4), float32), "max", 1)
    picked = b.gather(x, (index,), pool.choose(MODES))
    if pool.random.random() < 0.5:
        return picked
    kinds = ("set", "min", "max") if x.dtype is not bool_ else ("set",)
    adds = ("add",) if x.dtype in (float32, float64, int64) else ()
    return b.scatter(x, (index,), picked, pool.choose((*kinds, *adds)), pool.choose(MODES))


def counted(pool: Pool) -> Node:
    x = pool.pick()
    if not x.rank:
        return b.iota((pool.sizes[1],), 0, int64)
    dtype = pool.choose([dtype for dtype in pool.dtypes if dtype is not bool_])
    return b.iota(x.shape, int(pool.random.integers(x.rank)), dtype)


def normalised(pool: Pool) -> Node | None:
    """A softmax's steps along the last axis."""
    x = pool.of((float32, float64))
    if not x.rank or not isinstance(x.shape[-1], int) or not x.shape[-1]:
        return None
    last = (x.rank - 1,)
    e = b.exp(b.sub(x, b.expand(b.reduce(x, "max", last), last, x.shape)))
    return b.div(e, b.expand(b.sum(e, last), last, x.shape))


def drawn(pool: Pool) -> Node:
    """Random words, or one number made of them: of blocks side by side, or of words a whole shape apart."""
    key, ordinal = b.cast(pool.leaf((2,), int32), uint32), b.cast(pool.leaf((), int32), uint32)
    shape = pool.pick().shape
    form = int(pool.random.integers(4))
    if form == 0:
        return b.random_bits(key, ordinal, shape)
    if form == 1:
        bits = b.random_bits(key, ordinal, (2, *shape))
        high, low = (b.reshape(b.take(bits, 0, k, 1), shape) for k in (0, 1))
    else:
        bits = b.random_bits(key, ordinal, (*shape, 4))
        high, low = (b.reshape(b.take(bits, len(shape), k, 1), shape) for k in (form - 1, 3))
    dtype = float64 if float64 in pool.dtypes else float32
    shifted = b.shr(high, b.full(shape, uint32, 5)), b.shr(low, b.full(shape, uint32, 6))
    scales = b.full(shape, dtype, 2.0**-27), b.full(shape, dtype, 2.0**-53)
    return b.add(*[b.mul(b.cast(x, dtype), scale) for x, scale in zip(shifted, scales, strict=True)])


def nested(pool: Pool, around: Pool, x: Node, turn: Node) -> Node | None:
    """The result of a loop in the body of another one, over the same shape; now and then as many turns as the
    other has taken before.
    """
    fit = [node for node in around.nodes if node.shape == x.shape and node.dtype is x.dtype]
    first, constant = (fit[int(pool.random.integers(len(fit)))] for _ in range(2))
    number, carry, held = b.input((), int64), b.input(x.shape, x.dtype), b.input(x.shape, x.dtype)
    count = b.cast(number, x.dtype)
    inner = Pool(pool.random, (1, 1, 1), pool.dtypes, pool.most)
    inner.nodes = [carry, held, b.broadcast(count, x.shape) if x.shape else count]
    inner.leaves = []
    for _ in range(int(pool.random.integers(1, 4))):
        node = pool.choose((unary, binary, choice))(inner)
        if node is not None and node.shape == x.shape:
            inner.nodes.append(node)
    if inner.leaves:
        return None
    last = inner.nodes[-1] if inner.nodes[-1].dtype is x.dtype else b.cast(inner.nodes[-1], x.dtype)
    stop = b.lt(last, held) if pool.random.random() < 0.4 else None
    body = LoopBody(number, (carry,), (held,), (last,), (), stop)
    counted = turn if pool.random.random() < 0.3 else None
    loop = b.loop(body, (first,), (constant,), int(pool.random.integers(0, 5)), counted)
    turns = b.item(loop, 0)
    if pool.random.random() < 0.3 and turns.shape == x.shape:
        around.nodes.append(b.cast(turns, x.dtype))
    return b.item(loop, 1)


def looped(pool: Pool, nests: bool = False) -> Node | None:
    """A result of a loop whose turns are elementwise over the shape of some node, mostly: now and then a
    turn does what only a plan within the plan can do. Elements may stop each for itself. A turn of one that
    ``nests`` has a loop of its own.
    """
    x = pool.of((float32, float64, int32, int64))
    if 0 in x.shape:
        return None
    turn, scalar = b.input((), int64), b.input((), x.dtype)
    carries = [b.input(x.shape, x.dtype), b.input(x.shape, x.dtype), scalar]
    limit = int(pool.random.integers(0, 6))
    table = pool.leaf((5, *x.shape), x.dtype) if pool.random.random() < 0.4 else pool.leaf((5,), x.dtype)
    outside = [pool.like(x), pool.leaf((2,), uint32), table]
    constants = [b.input(node.shape, node.dtype) for node in outside]
    row = b.gather(constants[2], (turn,), "clamp")
    inner = Pool(pool.random, (1, 1, 1), pool.dtypes, pool.most)
    count = b.cast(turn, x.dtype)
    wide = [b.broadcast(own, x.shape) if own.shape != x.shape else own for own in (scalar, count, row)]
    inner.nodes = [*carries[:2], constants[0], *wide]
    inner.leaves = []
    if pool.random.random() < 0.5:
        ordinal = b.constant(3, uint32)
        bits = b.random_bits(constants[1], ordinal, (*x.shape, 4), b.cast(turn, uint32))
        for k in (0, 3):
            word = b.reshape(b.take(bits, x.rank, k, 1), x.shape)
            inner.nodes.append(b.cast(b.shr(word, b.full(x.shape, uint32, 8)), x.dtype))
    if nests:
        own = nested(pool, inner, x, turn)
        inner.nodes += [] if own is None else [own]
    for _ in range(int(pool.random.integers(2, 9))):
        node = pool.choose((unary, binary, binary, choice, choice, movement))(inner)
        if node is not None and (node.shape == x.shape or pool.random.random() < 0.03):
            inner.nodes.append(node)
    if inner.leaves:
        return None
    fit = [
        own if own.dtype is x.dtype else b.cast(own, x.dtype) for own in inner.nodes if own.shape == x.shape
    ]
    following = [fit[-1], fit[int(pool.random.integers(len(fit)))], b.add(scalar, count)]
    slices = [fit[-2]] if pool.random.random() < 0.5 else []
    stop = None
    if pool.random.random() < 0.4:
        four = b.constant(4, x.dtype)
        stop = b.lt(fit[-1], fit[0]) if pool.random.random() < 0.7 else b.lt(four, scalar)
    start = b.constant(1, x.dtype) if pool.random.random() < 0.5 else pool.leaf((), x.dtype)
    if stop is not None and stop.shape:  # what has no elements cannot stop with them
        following.pop()
        outside.append(start)
        constants.append(carries.pop())
    body = LoopBody(turn, carries, constants, following, slices, stop)
    bound = b.cast(pool.leaf((), int32), int64) if pool.random.random() < 0.3 else None
    node = b.loop(body, (x, pool.like(x), start)[: len(following)], tuple(outside), limit, bound)
    kinds = results(node)
    wanted = [k for k, (shape, _) in enumerate(kinds) if shape == x.shape or pool.random.random() < 0.15]
    if slices and pool.random.random() < 0.7:
        wanted.append(len(kinds) - 1)
    for k in dict.fromkeys(wanted[1:]):
        pool.nodes.append(b.item(node, k))
    return b.item(node, wanted[0])


GROW: list[Callable[[Pool], Node | None]] = [
    *(arithmetic, arithmetic, arithmetic, unary, unary, binary, choice, reduction, reduction, normalised),
    *(movement, movement, padded, joined, running, extreme, product, indexed, counted, drawn, looped),
]


# ---- values


def fill(random: np.random.Generator, shape: tuple[int, ...], dtype: DType, special: bool) -> Array:
    count = int(np.prod(shape))
    if dtype is bool_:
        return Array.from_list(random.integers(0, 2, count).astype(bool).tolist(), shape, dtype)
    if dtype in INTS:
        least = 0 if dtype is uint32 else -40
        return Array.from_list(random.integers(least, 40, count).tolist(), shape, dtype)
    values = random.normal(0, 1.5, count)
    if special and count:
        where = random.random(count) < 0.15
        values[where] = random.choice(SPECIAL, int(where.sum()))
    with np.errstate(over="ignore"):
        if dtype is not float64:
            values = values.astype(np.float32)
    return Array.from_list(values.tolist(), shape, dtype)


def canonical(x: Array) -> bytes:
    """The bytes of ``x`` with one NaN."""
    raw = np.frombuffer(x.tobytes(), {bfloat16: "<u2", bool_: "u1"}.get(x.dtype, x.dtype.name)).copy()
    if x.dtype is bfloat16:
        raw[(raw & 0x7FFF) > 0x7F80] = 0x7FC0
    elif x.dtype in (float32, float64):
        raw[np.isnan(raw)] = np.nan
    return raw.tobytes()


def sized(nodes: Sequence[Node], sizes: Mapping[str, int]) -> list[Node]:
    """The same graph with its symbols replaced."""

    made: dict[Node, Node] = {}
    for node in post_order(nodes):
        inputs = tuple([made[operand] for operand in node.inputs])
        made[node] = Node(
            node.op, inputs, at_sizes(node.attrs, sizes), at_sizes(node.shape, sizes), node.dtype
        )
    return [made[node] for node in nodes]


def verified(targets: Sequence[Node]) -> None:
    """Compiles as far as kernels, and checks every stage."""
    verify("graph", targets)
    simple = united(simplify(targets))
    verify("graph", simple)
    order, leaders = merge(simple)
    fusion = Fusion(order, leaders, simple)
    verify("clusters", fusion)
    stored = {fusion.read(target).source for target in simple}
    for step in fusion.steps:
        stored.update(access.source for access in step.accesses if fusion.home.get(access.source) is not step)
    for step in fusion.steps:
        if not isinstance(step, Single):
            verify("loops", lower(step, fusion, stored).kernel)


def compare(  # noqa: PLR0917
    plan: Plan,
    leaves: Sequence[Node],
    targets: Sequence[Node],
    device: CpuDevice,
    random: np.random.Generator,
    sizes: Mapping[str, int],
    special: bool = True,
) -> None:
    """Asserts that the plan's results at these sizes are those of one node a kernel."""
    concrete = sized([*leaves, *targets], sizes)
    inputs, wanted = concrete[: len(leaves)], concrete[len(leaves) :]
    for leaf, node in zip(leaves, inputs, strict=True):
        node.value = fill(random, node.shape, leaf.dtype, special)
    expected = evaluate(wanted, device)
    feeds = {leaf: node.value for leaf, node in zip(leaves, inputs, strict=True)}
    for turn in range(2):  # again: what a run leaves behind must not show
        results = plan.run(feeds)
        for target, want, got in zip(targets, expected, results, strict=True):
            assert got.shape == want.shape
            assert canonical(got) == canonical(want), f"{target} in run {turn}, sizes {dict(sizes)}"


__all__ = ["ALL", "Pool", "canonical", "compare", "fill", "sized", "verified"]
