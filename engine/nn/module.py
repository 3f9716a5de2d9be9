"""Modules: functions with parameters that can be listed, saved, loaded and switched between modes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from engine.core.dtype import DType
from engine.core.shapes import text
from engine.errors import ShapeError
from engine.tensor import Tensor, no_grad
from engine.tensor.cell import depend_on


class Parameter(Tensor):
    """A Tensor that a module learns; it requires a gradient unless told otherwise."""

    __slots__ = ()

    def __init__(self, data: Any, dtype: DType | None = None, requires_grad: bool = True) -> None:
        super().__init__(data, dtype, requires_grad)


class Module:
    """Base of layers and models: define ``forward``, call the object.

    Parameters and modules are found in attributes, also inside lists, tuples and dicts; their order is that
    of assignment. A parameter that is reachable by two names counts once, under the first.
    """

    _training = True

    @property
    def training(self) -> bool:
        """Whether layers that tell the two apart behave as in training, not as in evaluation."""
        depend_on(lambda: self._training)
        return self._training

    @training.setter
    def training(self, mode: bool) -> None:
        self._training = mode

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.forward(*args, **kwargs)

    def _walk(self) -> Iterator[tuple[str, Parameter | Module]]:
        """Everything beneath this module under its dotted name, each object once, in order of assignment."""
        seen: set[int] = set()
        stack: list[tuple[str, Any]] = [("", self)]
        while stack:
            name, item = stack.pop()
            if isinstance(item, Parameter | Module):
                if id(item) in seen:
                    continue
                seen.add(id(item))
                yield name, item
            prefix = f"{name}." if name else ""
            stack.extend((f"{prefix}{key}", child) for key, child in reversed(_children(item)))

    def named_modules(self) -> list[tuple[str, Module]]:
        """This module, as ``""``, and all beneath it."""
        return [(name, item) for name, item in self._walk() if isinstance(item, Module)]

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        return [(name, item) for name, item in self._walk() if isinstance(item, Parameter)]

    def parameters(self) -> list[Parameter]:
        return [parameter for _, parameter in self.named_parameters()]

    def parameter_count(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def __repr__(self) -> str:
        """One line a module: its dotted name, its class, its parameters' shapes and its settings."""
        lines, shown = [], set()
        for name, item in self._walk():
            own = {} if isinstance(item, Parameter) else vars(item)
            shown |= {id(value) for value in own.values()}
            if isinstance(item, Module):
                facts = [f"{key}={value}" for key, value in _facts(own)]
                lines.append(f"{name}: {type(item).__name__}({', '.join(facts)})")
            elif id(item) not in shown:  # it stands in a list, tuple or dict
                lines.append(f"{name}: Parameter{text(item.shape)}")
        return "\n  ".join(lines).removeprefix(": ")

    def zero_grad(self) -> None:
        """Forgets the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def train(self, mode: bool = True) -> Self:
        """Switches this module and all beneath it to training (dropout on), or with False to evaluation."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        return self.train(False)

    def state_dict(self) -> dict[str, Tensor]:
        """The parameters' values by name; later training does not change them."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Rebinds every parameter to the value of its name.

        Raises KeyError for names that are missing or unknown and ValueError for another shape or dtype; then
        nothing was changed.
        """
        own = dict(self.named_parameters())
        if own.keys() != state.keys():
            missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
            raise KeyError(f"the names do not match: missing {missing}, unknown {unknown}")
        for name, parameter in own.items():
            value = state[name]
            if value.shape != parameter.shape or value.dtype is not parameter.dtype:
                raise ValueError(
                    f"{name} is {parameter.dtype}{list(parameter.shape)}, "
                    f"the value given is {value.dtype}{list(value.shape)}"
                )
        with no_grad():
            for name, parameter in own.items():
                parameter.assign(state[name])


def _facts(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a module says of itself: shapes of parameters, and numbers, flags and names."""
    for key, value in attributes.items():
        if isinstance(value, Parameter):
            yield key, text(value.shape)
        elif isinstance(value, bool | int | float | str) and not key.startswith("_"):
            yield key, repr(value)


def require_positive(**sizes: int) -> None:
    """Raises ShapeError naming the first size that is not an integer of at least 1."""
    for name, size in sizes.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ShapeError(f"{name} is {size!r}; it must be an integer of at least 1")


def require_last(x: Tensor, name: str, size: int) -> None:
    """Raises ShapeError unless the last axis of ``x`` has ``size``, which the message calls ``name``."""
    if not x.shape or x.shape[-1] != size:
        raise ShapeError(f"the input has shape {text(x.shape)}; its last axis must be {name} = {size}")


def _children(item: Any) -> list[tuple[str, Any]]:
    if isinstance(item, Module):
        return list(vars(item).items())
    if isinstance(item, dict):
        return [(str(key), child) for key, child in item.items()]
    if isinstance(item, list | tuple):
        return [(str(i), child) for i, child in enumerate(item)]
    return []
