"""Prompts against the characters that a model knows."""

from __future__ import annotations

from service.errors import FieldError, show

LINE_BREAK = "\n"


def check_prompt(param: str, prompt: str, alphabet: str) -> list[FieldError]:
    """What is wrong with a prompt, if anything: it may hold only characters of the text.

    A lone line break is always allowed: it is only the usual beginning.
    """
    unknown = sorted(set(prompt) - set(alphabet))
    if not unknown or prompt == LINE_BREAK:
        return []
    listed = ", ".join(map(repr, unknown[:8])) + (", …" if len(unknown) > 8 else "")
    rule = f"must have only characters of the text that the model is trained on, which lacks {listed}"
    return [FieldError(param, show(prompt), rule)]
