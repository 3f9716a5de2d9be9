"""A known run: initialisation, windows and losses of another engine, reproduced to four decimals."""

from __future__ import annotations

from array import array
from pathlib import Path

from forge import draw_gpt

from engine import nn, optim
from engine.data.tokenizer import CharTokenizer
from engine.data.windows import Windows


def test_the_first_three_losses_are_the_known_ones(shared: Path) -> None:
    text = (shared / "data" / "tinyshakespeare.txt").read_text()
    ids: array[int] = CharTokenizer.from_text(text).encode(text)
    model = nn.GPT(vocab_size=65, embed_dim=128, num_heads=4, ff_dim=256, num_layers=4, seq_len=32)
    assert model.parameter_count() == 550_977
    random = draw_gpt(model, 42)
    windows = Windows(ids, 32, seed=0)
    optimizer = optim.Adam(model.parameters(), lr=0.002)
    losses = []
    for _ in range(3):
        batch = windows.at([random.randrange(0, len(ids) - 33)])
        loss = nn.CrossEntropyLoss()(model(batch.tokens), batch.targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    assert losses == [4.5141, 3.8694, 3.6770]
