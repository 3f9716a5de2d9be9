"""Characters a second from the 550,977-parameter GPT beside torch eager: ``python -m bench.sample``.

"inside the context" generates the 31 characters that follow one, preparation included; "past the
context" 256 of them, where torch too reads the last half again whenever the context is full; with "exact"
both compute the whole context for each character then.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from bench.pairing import OURS, compare, write
from bench.train_step import new_model
from engine.data.tokenizer import CharTokenizer
from engine.models.decoding import Window
from engine.models.sampling import generate
from engine.nn import GPT

CHARACTERS = "\n" + "".join(map(chr, range(33, 97)))
TEXTS: list[tuple[str, int, Window]] = [
    ("inside the context", 31, "half"),
    ("past the context", 256, "half"),
    ("past the context, exact", 256, "exact"),
]


def our_text(model: GPT, count: int, window: Window) -> Callable[[], object]:
    tokenizer = CharTokenizer(CHARACTERS)
    return lambda: list(generate(model, tokenizer, "\n", max_tokens=count, seed=1, window=window))


def torch_text(model: GPT, count: int, window: Window) -> Callable[[], object]:
    import torch

    from bench.torch_gpt import TorchGPT

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    peer, room = TorchGPT(model).eval(), model.config.seq_len
    kept = room // 2 if window == "half" else room - 1

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def text() -> list[int]:
        torch.manual_seed(1)
        seen, memories = [0], fresh_memories(model)
        logits = peer(torch.tensor([seen]), memories)
        for _ in range(count):
            token = int(torch.multinomial(logits[0, -1].softmax(-1), 1))
            start = len(seen)
            if start == room:
                seen, memories, start = seen[room - kept :], fresh_memories(model), 0
                fed = [*seen, token]
            else:
                fed = [token]
            logits = peer(torch.tensor([fed]), memories, start)
            seen.append(token)
        return seen

    return text


def fresh_memories(model: GPT) -> list[list[Any]]:
    return [[] for _ in range(model.config.num_layers)]


def main() -> None:
    rows = []
    model = new_model()
    for name, count, window in TEXTS:
        contenders = {OURS: our_text(model, count, window)}
        if find_spec("torch"):
            contenders["torch"] = torch_text(model, count, window)
        rows.append(compare(name, contenders, work=count, unit="characters/s", turns=5, min_seconds=0.3))
    write("sample", rows)


if __name__ == "__main__":
    main()
