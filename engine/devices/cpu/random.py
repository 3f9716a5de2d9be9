"""random_bits: words of the counter-based generator of ``native/random.h``, any part of them at a time."""

from __future__ import annotations

from engine.devices.cpu.layout import Task
from engine.devices.cpu.native import Native
from engine.devices.cpu.step import Call, KernelStep, Prepared

CHUNK = 32768  # words
_UNIT = """#include "random.h"
#include "strided.h"
void kernel(void **bufs, const int64_t *dims, int64_t chunk) {
    int64_t first = chunk * dims[1], end = gm_end(dims[0], dims[1], chunk);
    random_words((uint32_t *)bufs[0] + first, first, end - first, bufs[1], *(uint32_t *)bufs[2],
                 *(uint32_t *)bufs[3]);
}
"""


def prepare_random_bits(native: Native, task: Task) -> Prepared:
    """The step of uint32 words for a key of two words, a call ordinal and a turn; attrs (shape,)."""
    if not task.operands[0].is_contiguous:
        return (0,)
    words = task.result.size
    call = Call(native.symbol(_UNIT, "kernel"), [words, CHUNK], -(-words // CHUNK))
    return KernelStep(native, call, [4, 4, 4], task.result)
