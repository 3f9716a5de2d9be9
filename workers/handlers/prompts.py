"""Prompts that a model can read."""

from __future__ import annotations

from engine.data.tokenizer import CharTokenizer
from workers.failures import InvalidPromptError

LINE_BREAK = "\n"


def readable_prompt(prompt: str, tokenizer: CharTokenizer) -> str:
    """The prompt, or nothing for a lone line break that the text never had: it is only the usual beginning.

    Raises InvalidPromptError for any other character that the model wasn't trained on.
    """
    if prompt == LINE_BREAK and LINE_BREAK not in tokenizer.characters:
        return ""
    try:
        tokenizer.encode(prompt)
    except ValueError as error:
        raise InvalidPromptError(f"prompt: {error}") from error
    return prompt
