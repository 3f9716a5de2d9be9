"""Shape rules of the primitives: from the inputs' shapes and the attributes to the shape of the result.

Sizes are ints or symbolic (``core.dim``). Two sizes agree when they are equal as polynomials; a rule that
compares magnitudes (a slice that leaves its axis) does so only where the size is an int.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from engine.core.dim import Dim, Poly, Shape
from engine.core.opdef import Attrs, Inputs
from engine.errors import ShapeError

REDUCE_KINDS = ("sum", "prod", "max", "min", "any", "all")
ARGREDUCE_KINDS = ("max", "min")
SCAN_KINDS = ("sum", "prod", "max")
INDEX_MODES = ("clamp", "wrap", "zero", "mirror", "checked")
SCATTER_KINDS = ("set", "add", "min", "max", "and", "or", "xor")
_MOST_ELEMENTS = 2**60


def text(shape: Shape) -> str:
    """``(2, rows)``, as error messages show a shape."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def check_sizes(shape: Shape) -> Shape:
    """The shape itself. Raises ShapeError for a size that is negative or no integer, and for more elements
    than can be addressed; symbolic sizes pass.
    """
    elements = 1
    for axis, size in enumerate(shape):
        if isinstance(size, Poly):
            continue
        if not isinstance(size, int) or isinstance(size, bool):
            raise ShapeError(f"size {size!r} of axis {axis} must be an integer")
        if size < 0:
            raise ShapeError(f"size {size} of axis {axis} in the shape {text(shape)} must not be negative")
        elements *= max(size, 1)
    if elements > _MOST_ELEMENTS:
        raise ShapeError(f"the shape {text(shape)} has too many elements; at most 2**60 can be addressed")
    return shape


def iota(inputs: Inputs, attrs: Attrs) -> Shape:
    shape = check_sizes(attrs[0])
    check_axis(attrs[1], shape)
    return shape


def scalar(inputs: Inputs, attrs: Attrs) -> Shape:
    return ()


def same(inputs: Inputs, attrs: Attrs) -> Shape:
    """All operands have one shape, which is the result's."""
    shape = inputs[0].shape
    for other in inputs[1:]:
        if other.shape != shape:
            raise ShapeError(
                f"operands have shapes {text(shape)} and {text(other.shape)}; they must be equal"
            )
    return shape


def random_bits(inputs: Inputs, attrs: Attrs) -> Shape:
    key, ordinal, turn = inputs
    if key.shape != (2,) or ordinal.shape != () or turn.shape != ():
        raise ShapeError(
            f"key has shape {text(key.shape)}, ordinal {text(ordinal.shape)} and turn {text(turn.shape)}; "
            "they must be (2,), () and ()"
        )
    return check_sizes(attrs[0])


def reshape(inputs: Inputs, attrs: Attrs) -> Shape:
    old: Shape = inputs[0].shape
    new = check_sizes(attrs[0])
    if prod(old) != prod(new):
        raise ShapeError(
            f"cannot give {text(old)} the shape {text(new)}: "
            f"{prod(old)} elements are not {prod(new)}; the number of elements must stay"
        )
    return new


def transpose(inputs: Inputs, attrs: Attrs) -> Shape:
    shape = inputs[0].shape
    perm: tuple[int, ...] = attrs[0]
    if sorted(perm) != list(range(len(shape))):
        raise ShapeError(f"perm {perm} must name each of the {len(shape)} axes of {text(shape)} once")
    return tuple([shape[axis] for axis in perm])


def broadcast(inputs: Inputs, attrs: Attrs) -> Shape:
    """Axes are aligned at the right; a literal 1 expands, any other size must be equal."""
    old = inputs[0].shape
    new = check_sizes(attrs[0])
    lead = len(new) - len(old)
    if lead < 0:
        raise ShapeError(f"cannot broadcast {text(old)} to {text(new)}: the result has fewer axes")
    for have, want in zip(old, new[lead:], strict=True):
        if have not in (want, 1):
            raise ShapeError(
                f"cannot broadcast {text(old)} to {text(new)}: size {have} is neither 1 nor {want} "
                "(axes are aligned at the right)"
            )
    return new


def slice_(inputs: Inputs, attrs: Attrs) -> Shape:
    shape = inputs[0].shape
    starts, sizes, steps = attrs
    if not len(starts) == len(sizes) == len(steps) == len(shape):
        raise ShapeError(
            f"starts, sizes and steps must each have {len(shape)} entries, one an axis of {text(shape)}"
        )
    for axis, (have, start, size, step) in enumerate(zip(shape, starts, sizes, steps, strict=True)):
        if step == 0:
            raise ShapeError(f"axis {axis}: the step must not be 0")
        if isinstance(have, int) and isinstance(start, int) and isinstance(size, int):
            last = start + (size - 1) * step
            if size < 0 or (size > 0 and not (0 <= start < have and 0 <= last < have)):
                raise ShapeError(
                    f"axis {axis} of {text(shape)}: {size} elements from {start} in steps of {step} leave it"
                )
    return tuple(sizes)


def pad(inputs: Inputs, attrs: Attrs) -> Shape:
    shape, fill = inputs[0].shape, inputs[1].shape
    low, high = attrs
    if fill != ():
        raise ShapeError(f"the fill value has shape {text(fill)}; it must be a scalar ()")
    if not len(low) == len(high) == len(shape):
        raise ShapeError(f"low and high must each have {len(shape)} entries, one an axis of {text(shape)}")
    for amount in (*low, *high):
        if isinstance(amount, int) and amount < 0:
            raise ShapeError(f"amounts {low} and {high} must not be negative; slice to make an axis shorter")
    return tuple([before + size + after for before, size, after in zip(low, shape, high, strict=True)])


def concat(inputs: Inputs, attrs: Attrs) -> Shape:
    if not inputs:
        raise ShapeError("needs at least one operand")
    first = inputs[0].shape
    axis = check_axis(attrs[0], first)
    total: Dim = 0
    for operand in inputs:
        shape = operand.shape
        if len(shape) != len(first) or shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            raise ShapeError(f"shapes {text(first)} and {text(shape)} may differ only on axis {axis}")
        total = total + shape[axis]
    return (*first[:axis], total, *first[axis + 1 :])


def reduce(inputs: Inputs, attrs: Attrs) -> Shape:
    shape = inputs[0].shape
    kind, axes = attrs
    check_choice("kind", kind, REDUCE_KINDS)
    previous = -1
    for axis in axes:
        if not previous < axis < len(shape):
            raise ShapeError(f"axes {axes} of {text(shape)} must rise strictly from 0 to {len(shape) - 1}")
        previous = axis
        if kind in ("max", "min") and shape[axis] == 0:
            raise ShapeError(
                f"the {kind} over axis {axis} of {text(shape)} does not exist: the axis is empty"
            )
    return tuple([size for axis, size in enumerate(shape) if axis not in axes])


def argreduce(inputs: Inputs, attrs: Attrs) -> Shape:
    shape = inputs[0].shape
    kind, axis = attrs
    check_choice("kind", kind, ARGREDUCE_KINDS)
    check_axis(axis, shape)
    if shape[axis] == 0:
        raise ShapeError(f"the {kind} over axis {axis} of {text(shape)} does not exist: the axis is empty")
    return (*shape[:axis], *shape[axis + 1 :])


def scan(inputs: Inputs, attrs: Attrs) -> Shape:
    kind, axis, _ = attrs
    check_choice("kind", kind, SCAN_KINDS)
    check_axis(axis, inputs[0].shape)
    return inputs[0].shape


def dot(inputs: Inputs, attrs: Attrs) -> Shape:
    """(batch…, M, K) and (batch…, K, N) give (batch…, M, N)."""
    a, b = inputs[0].shape, inputs[1].shape
    if len(a) < 2 or len(a) != len(b):
        raise ShapeError(f"{text(a)} and {text(b)} must have the same number of axes, at least two")
    if a[:-2] != b[:-2]:
        raise ShapeError(f"{text(a)} and {text(b)} differ in their batch axes; those must be equal")
    if a[-1] != b[-2]:
        raise ShapeError(f"{text(a)} by {text(b)}: inner sizes {a[-1]} and {b[-2]} must be equal")
    return (*a[:-1], b[-1])


def gather(inputs: Inputs, attrs: Attrs) -> Shape:
    """x and k indices of shape S give S + x.shape[k:]."""
    check_choice("mode", attrs[0], INDEX_MODES)
    x, indices = inputs[0].shape, inputs[1:]
    source = check_indices(x, indices)
    result = (*source, *x[len(indices) :])
    if 0 in x[: len(indices)] and 0 not in result and attrs[0] != "zero":
        raise ShapeError(f"no element can be read from {text(x)}: an indexed axis is empty")
    return result


def scatter(inputs: Inputs, attrs: Attrs) -> Shape:
    """x, k indices of shape S and values of shape S + x.shape[k:] give the shape of x."""
    kind, mode = attrs
    check_choice("kind", kind, SCATTER_KINDS)
    check_choice("mode", mode, INDEX_MODES)
    if len(inputs) < 2:
        raise ShapeError("needs x, indices and values")
    x, indices, values = inputs[0].shape, inputs[1:-1], inputs[-1].shape
    wanted = (*check_indices(x, indices), *x[len(indices) :])
    if values != wanted:
        raise ShapeError(
            f"values have shape {text(values)}; with these indices into {text(x)} it must be {text(wanted)}"
        )
    if 0 in x[: len(indices)] and 0 not in values and mode != "zero":
        raise ShapeError(f"no element of {text(x)} can be written: an indexed axis is empty")
    return x


def check_axis(axis: int, shape: Shape) -> int:
    if not 0 <= axis < len(shape):
        raise ShapeError(f"axis {axis} of {text(shape)} must be from 0 to {len(shape) - 1}")
    return axis


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} {value!r} must be one of {', '.join(choices)}")


def check_indices(x: Shape, indices: Inputs) -> Shape:
    """The common shape of the indices."""
    if not 0 < len(indices) <= len(x):
        raise ShapeError(f"{len(indices)} indices into {text(x)}; there must be from 1 to {len(x)}")
    source = indices[0].shape
    for index in indices[1:]:
        if index.shape != source:
            raise ShapeError(
                f"indices have shapes {text(source)} and {text(index.shape)}; they must be equal"
            )
    return source


# ---- what front ends share


def axis_of(axis: int, rank: int) -> int:
    """A non-negative axis. Raises IndexError outside -rank … rank-1; a scalar accepts 0 and -1."""
    bound = max(rank, 1)
    if not -bound <= axis < bound:
        raise IndexError(f"axis {axis} is out of range for a tensor of {rank} axes")
    return axis % bound


def axes_of(axis: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """Non-negative axes in rising order; all for None. Raises ValueError for a repeated axis."""
    if axis is None:
        return tuple(range(rank))
    named = (axis,) if isinstance(axis, int) else tuple(axis)
    axes = tuple(sorted(axis_of(one, rank) for one in named))
    if len(set(axes)) != len(axes):
        raise ValueError(f"axes {named} name an axis twice")
    return axes if rank else ()


def common_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's rule: axes are aligned at the right, and a size of 1 takes the other's."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    sizes = []
    for one, other in zip(left, right, strict=True):
        if one not in (1, other) and other != 1:
            raise ShapeError(
                f"shapes {text(a)} and {text(b)} do not broadcast: sizes {one} and {other} differ "
                "and neither is 1 (axes are aligned at the right)"
            )
        sizes.append(other if one == 1 else one)
    return tuple(sizes)
