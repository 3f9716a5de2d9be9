"""What viewers share: batches of events that are encoded once."""

from __future__ import annotations

import pytest

from service.api.hub import batch
from service.jobs.events import from_entry


@pytest.mark.parametrize("cursor", [0, 2, 3, 4])
def test_a_viewer_gets_of_a_batch_what_it_lacks(cursor: int) -> None:
    """It has read the rest from the log while the batch came."""
    fields = {b"type": b"log", b"time": b"0", b"attempt": b"1", b"data": b"{}"}
    whole = batch("job", [from_entry(b"%d-0" % seq, fields) for seq in (3, 4, 5)])
    rest = whole.after(cursor)
    assert [event.seq for event in rest.events] == [seq for seq in (3, 4, 5) if seq > cursor]
    assert rest.frames == b"".join(event.sse for event in rest.events)
