"""Command-line options made from a spec: the same fields, defaults and descriptions as the API's."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Command = TypeVar("Command", bound=Callable[..., Any])
BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
PARAMETER_TYPES: dict[Any, Any] = {int: click.INT, float: click.FLOAT, str: click.STRING}


@dataclass(frozen=True)
class Leaf:
    """A field that one option sets: its path in the spec and its description there."""

    path: tuple[str, ...]
    kind: Any
    field: FieldInfo

    @property
    def name(self) -> str:
        return self.path[-1]


def without_none(annotation: Any) -> Any:
    """``X`` from ``X | None``."""
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [part for part in get_args(annotation) if part is not type(None)]
        return rest[0] if len(rest) == 1 else annotation
    return annotation


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The pydantic models that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def leaves(model: type[BaseModel], skip: frozenset[str], path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """The fields of a spec and of the models inside it; a name that several have comes once."""
    seen = set()
    for name, field in model.model_fields.items():
        if name in skip:
            continue
        if inner := models_in(field.annotation):
            for leaf in (leaf for each in inner for leaf in leaves(each, skip | {"name"}, (*path, name))):
                if leaf.name not in seen:
                    seen.add(leaf.name)
                    yield leaf
        elif name not in seen:
            seen.add(name)
            yield Leaf((*path, name), without_none(field.annotation), field)


def spec_options(model: type[BaseModel], skip: frozenset[str] = frozenset()) -> Callable[[Command], Command]:
    """A decorator that adds an option for each field of a spec, and ``--file`` and ``--set``.

    What was given arrives as the keyword ``given``: the pairs of a field's path and its value.
    """
    found = list(leaves(model, skip))

    def decorate(command: Command) -> Command:
        for option in reversed([option_of(leaf) for leaf in found]):
            command = option(command)
        command = click.option("--set", "settings", multiple=True, metavar="FIELD=VALUE", help=SET_HELP)(
            command
        )
        path = click.Path(exists=True, dir_okay=False, path_type=Path)
        return click.option("--file", "spec_file", type=path, help="Spec as JSON to begin with.")(command)

    return decorate


SET_HELP = "Any field, by its path, as in model.embed_dim=64; the value is JSON or text."


def option_of(leaf: Leaf) -> Callable[[Command], Command]:
    """The click option of a field; it has no default of its own, so that the server's holds."""
    flag = "--" + leaf.name.replace("_", "-")
    more: dict[str, Any] = {"help": help_of(leaf.field), "default": None}
    if leaf.kind is bool:
        flag += f"/--no-{leaf.name.replace('_', '-')}"
    elif get_origin(leaf.kind) is Literal:
        more["type"] = click.Choice(get_args(leaf.kind))
    elif get_origin(leaf.kind) is list:
        more |= {"multiple": True, "type": click.STRING}
    else:
        more["type"] = PARAMETER_TYPES[leaf.kind]
    return click.option(flag, leaf.name, **more)


def help_of(field: FieldInfo) -> str:
    """The field's description, its bounds and its default."""
    notes = [
        f"{BOUNDS[name]} {getattr(rule, name)}"
        for rule in field.metadata
        if (name := type(rule).__name__.lower()) in BOUNDS
    ]
    if not field.is_required() and field.default not in (None, []):
        notes.append(f"default {json.dumps(field.default)}")
    text = field.description or ""
    text = text[:1].upper() + text[1:]
    return f"{text} [{', '.join(notes)}]".strip() if notes else text


def build_spec(
    model: type[BaseModel], given: Mapping[str, Any], spec_file: Path | None, settings: tuple[str, ...]
) -> dict[str, Any]:
    """The spec to send: the file's, then the options given, then ``--set``."""
    spec: dict[str, Any] = {}
    if spec_file is not None:
        spec = read_json_object(spec_file)
    for leaf in leaves(model, frozenset()):
        value = given.get(leaf.name)
        if value not in (None, ()):
            put(spec, leaf.path, list(value) if isinstance(value, tuple) else value)
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not path:
            raise click.UsageError(f"--set {setting!r}: it must read FIELD=VALUE, as in model.embed_dim=64")
        put(spec, tuple(path.split(".")), json_or_text(value))
    return spec


def read_json_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise click.UsageError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise click.UsageError(f"{path} holds {type(value).__name__}; it must hold an object")
    return value


def json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def put(spec: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    """Sets the member at a path, making the objects on the way."""
    *way, last = path
    for name in way:
        inner = spec.setdefault(name, {})
        if not isinstance(inner, dict):
            raise click.UsageError(f"{'.'.join(path)}: {name} is {inner!r}, which has no members")
        spec = inner
    spec[last] = value
