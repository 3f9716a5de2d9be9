"""How a Tensor is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.core.dtype import float32

if TYPE_CHECKING:
    from engine.tensor.tensor import Tensor

_SHOWN_WHOLE = 100  # elements; longer tensors show both ends of each axis
_EDGE = 3


def describe(x: Tensor) -> str:
    """``Tensor([[1.0, 2.0]])``, with dtype and requires_grad where they are not the usual ones."""
    elided = x.numel() > _SHOWN_WHOLE
    body = _show(x.detach(), elided)
    notes = [body]
    if x.dtype is not float32:
        notes.append(f"dtype={x.dtype}")
    if elided or 0 in x.shape:
        notes.append(f"shape={x.shape}")
    if x.requires_grad:
        notes.append("requires_grad=True")
    return f"{'Parameter' if type(x).__name__ == 'Parameter' else 'Tensor'}({', '.join(notes)})"


def format_(x: Tensor, spec: str) -> str:
    """``f"{x:.2f}"`` formats the only element; without a format it is ``str(x)``. TypeError for several."""
    if not spec:
        return str(x)
    if x.numel() != 1:
        raise TypeError(f"format {spec!r} takes one element; a tensor of shape {x.shape} has {x.numel()}")
    return format(x.item(), spec)


def _show(x: Tensor, elided: bool) -> str:
    if not x.shape:
        return _number(x.tolist())
    length = x.shape[0]
    if elided and length > 2 * _EDGE:
        parts = [_show(x[i], True) for i in range(_EDGE)]
        parts += ["…", *[_show(x[i], True) for i in range(length - _EDGE, length)]]
    else:
        parts = [_show(x[i], elided) for i in range(length)]
    return f"[{', '.join(parts)}]"


def _number(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    shown = f"{value:.6g}"
    return f"{shown}.0" if shown.lstrip("-").isdecimal() else shown
