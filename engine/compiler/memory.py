"""Where buffers lie: how long each lives, which take the place of another, and offsets in one arena.

Time is counted in waves: launches of one wave run side by side, so what one of them reads must not be what
another writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ALIGNMENT = 64  # bytes


@dataclass(slots=True, eq=False)
class Block:
    """A buffer of ``nbytes`` that is in use from wave ``first`` to wave ``last``, both included.

    ``base`` and ``offset`` say where it lies: bases of a run are null, the arena, inputs and outputs.
    """

    nbytes: int
    base: int = 1
    offset: int = 0
    first: int = -1
    last: int = -1

    def used(self, wave: int) -> None:
        """Notes a use; the first one is its writing."""
        if self.first < 0:
            self.first = wave
        self.last = max(self.last, wave)


@dataclass(frozen=True, slots=True)
class Takeover:
    """``heir`` may be written where ``former`` lies: one kernel reads and writes each element once, in that
    order.
    """

    former: Block
    heir: Block


def place(blocks: Iterable[Block], takeovers: Sequence[Takeover], start: int = 0) -> int:
    """Gives each block an offset from ``start`` on, and returns where the last one ends.

    Greedy: the largest first, each into the first gap between those that live when it does. A block takes the
    place of another where the other's last use is the launch that writes it.
    """
    groups = _merged(blocks, takeovers)
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    end = start
    for first, last, nbytes, members in sorted(groups, key=lambda group: (-group[2], group[0])):
        offset = start
        for other, other_end, other_first, other_last in placed:
            if other_first > last or other_last < first:
                continue
            if other - offset >= nbytes:
                break
            offset = max(offset, other_end)
        for block in members:
            block.offset = offset
        _insert(placed, (offset, offset + nbytes, first, last))
        end = max(end, offset + nbytes)
    return end


def overlapping(blocks: Sequence[Block], takeovers: Sequence[Takeover]) -> list[tuple[Block, Block]]:
    """Pairs that share bytes while both are in use, other than by a takeover: there must be none."""
    allowed = {(takeover.former, takeover.heir) for takeover in takeovers}
    found = []
    for k, a in enumerate(blocks):
        for b in blocks[k + 1 :]:
            apart_in_time = a.first > b.last or b.first > a.last
            apart = a.offset >= b.offset + b.nbytes or b.offset >= a.offset + a.nbytes
            if not (apart_in_time or apart) and (a, b) not in allowed and (b, a) not in allowed:
                found.append((a, b))
    return found


def _merged(
    blocks: Iterable[Block], takeovers: Sequence[Takeover]
) -> list[tuple[int, int, int, list[Block]]]:
    """Blocks that share a place: first and last wave, bytes rounded up, members."""
    group: dict[Block, list[Block]] = {
        block: [block] for block in blocks if block.nbytes and block.first >= 0
    }
    taken: set[Block] = set()
    for takeover in takeovers:
        former, heir = takeover.former, takeover.heir
        fits = former in group and heir in group and former.nbytes >= heir.nbytes
        if not fits or former in taken or former.last != heir.first or group[heir][0] is not heir:
            continue
        taken.add(former)
        joined = group[former]
        joined += group[heir]
        for block in group[heir]:
            group[block] = joined
    result = []
    for block, members in group.items():
        if members[0] is block:
            nbytes = -(-max(member.nbytes for member in members) // ALIGNMENT) * ALIGNMENT
            last = max(member.last for member in members)
            result.append((block.first, last, nbytes, members))
    return result


def _insert(placed: list[tuple[int, int, int, int]], item: tuple[int, int, int, int]) -> None:
    """Keeps ``placed`` sorted by offset."""
    low, high = 0, len(placed)
    while low < high:
        middle = (low + high) // 2
        if placed[middle] < item:
            low = middle + 1
        else:
            high = middle
    placed.insert(low, item)
