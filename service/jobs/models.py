"""Calls on published models: the aliases that name them, and their end."""

from __future__ import annotations

from service.jobs.calls import Call
from service.jobs.scripts import script


def set_alias(alias: str, model: str) -> Call[bool]:
    """Lets an alias name a model; whether the model exists."""
    return Call(script("alias"), (alias, model, "set"), bool)


def drop_alias(alias: str, model: str) -> Call[bool]:
    """Takes an alias away from a model; whether it named it."""
    return Call(script("alias"), (alias, model, "drop"), bool)


def unpublish(model: str) -> Call[bool]:
    """Deletes a model and its aliases; whether it existed."""
    return Call(script("unpublish"), (model,), bool)
