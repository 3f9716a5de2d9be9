"""Every guard of a script or a handler, what it would be without it, and the test that fails then.

``make mutate`` applies each in a copy of the tree and prints the table. A guard that is written anew gets a
row in one of the three tables, and its row changes with its text: a quick test checks that
each text stands where the row says, once.
"""

from __future__ import annotations

from dataclasses import dataclass

import mutations_api
import mutations_handlers
import mutations_scripts


@dataclass(frozen=True)
class Mutation:
    """``text`` of ``file`` becomes ``instead``; then ``test`` of ``suite`` must fail."""

    name: str
    file: str
    text: str
    instead: str
    suite: str
    test: str


MUTATIONS = [
    Mutation(*row) for row in (*mutations_scripts.ROWS, *mutations_handlers.ROWS, *mutations_api.ROWS)
]
