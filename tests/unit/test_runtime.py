"""The thread pool: every chunk runs once, whatever the threads, callers, forks and control words."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi
import pytest
from native_build import build_library

KERNELS = r"""
#include "runtime.c"

/* counts[chunk] += 1, after some work */
void count(void **bufs, const int64_t *dims, int64_t chunk) {
    volatile int64_t work = dims[0];
    while (work > 0) work--;
    __atomic_fetch_add((int32_t *)bufs[0] + chunk, 1, __ATOMIC_RELAXED);
}

/* every chunk runs the counting kernel over its own 8 counters */
void nested(void **bufs, const int64_t *dims, int64_t chunk) {
    void *inner[1] = {(int32_t *)bufs[0] + 8 * chunk};
    gm_run(count, inner, dims, 8);
}

/* a third rounded, and half the least normal number: both depend on the control word */
void divide(void **bufs, const int64_t *dims, int64_t chunk) {
    volatile float one = 1.0f, three = 3.0f, small = 0x1p-126f, half = 0.5f;
    volatile int64_t work = dims[0];
    while (work > 0) work--;
    ((float *)bufs[0])[2 * chunk] = one / three;
    ((float *)bufs[0])[2 * chunk + 1] = small * half;
}

/* runs `divide` under another control word; returns the word found afterwards */
uint64_t under_other_word(void **bufs, const int64_t *dims, int64_t chunks, uint64_t word) {
    fp_word before = fp_get();
    fp_set((fp_word)word);
    gm_run(divide, bufs, dims, chunks);
    uint64_t after = fp_get();
    fp_set(before);
    return after;
}
"""
PROTOTYPES = """
    void gm_pool_set(int threads);
    int gm_pool_threads(void);
    void gm_run(void (*f)(void **, const int64_t *, int64_t), void **bufs, const int64_t *dims, int64_t);
    void count(void **, const int64_t *, int64_t);
    void nested(void **, const int64_t *, int64_t);
    void divide(void **, const int64_t *, int64_t);
    uint64_t under_other_word(void **bufs, const int64_t *dims, int64_t chunks, uint64_t word);
"""


class Pool:
    """One build of the pool: each has workers of its own."""

    def __init__(self, library: Path) -> None:
        self.ffi = cffi.FFI()
        self.ffi.cdef(PROTOTYPES)
        flags = os.RTLD_NOW | os.RTLD_NODELETE  # its workers sleep in it
        self.lib: Any = self.ffi.dlopen(str(library), flags)

    def counts(
        self, chunks: int, *, kernel: str = "count", work: int = 0, size: int | None = None
    ) -> list[int]:
        counters = self.ffi.new("int32_t[]", max(size if size is not None else chunks, 1))
        bufs = self.ffi.new("void *[]", [counters])
        self.lib.gm_run(getattr(self.lib, kernel), bufs, self.ffi.new("int64_t[]", [work]), chunks)
        return list(counters)


@pytest.fixture(params=["gcc", "gcc condvar", "zig", "clang"], scope="module")
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    build, *variant = request.param.split()
    pool = Pool(build_library(KERNELS, build, *(["-DGM_NO_FUTEX"] if variant else [])))
    yield pool
    pool.lib.gm_pool_set(1)


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_chunk_runs_once(pool: Pool, threads: int) -> None:
    pool.lib.gm_pool_set(threads)
    assert pool.lib.gm_pool_threads() == threads
    for chunks in (0, 1, 2, 3, 7, 64, 1000):
        for work in (0, 500):
            expected = [1] * chunks if chunks else [0]
            assert pool.counts(chunks, work=work) == expected


def test_many_short_runs_in_a_row(pool: Pool) -> None:
    pool.lib.gm_pool_set(3)
    for i in range(3000):
        chunks = 1 + i % 5
        assert pool.counts(chunks) == [1] * chunks


def test_the_number_of_threads_can_grow_and_shrink(pool: Pool) -> None:
    for threads in (4, 1, 2, 6, 3, 1, 5):
        pool.lib.gm_pool_set(threads)
        assert pool.counts(50, work=200) == [1] * 50
    pool.lib.gm_pool_set(0)
    assert pool.lib.gm_pool_threads() == 1


def test_several_callers_at_once(pool: Pool) -> None:
    pool.lib.gm_pool_set(3)
    wrong: list[list[int]] = []

    def call() -> None:
        for i in range(200):
            chunks = 1 + i % 9
            counts = pool.counts(chunks, work=100)
            if counts != [1] * chunks:
                wrong.append(counts)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_a_kernel_may_run_kernels(pool: Pool) -> None:
    pool.lib.gm_pool_set(3)
    for _ in range(20):
        assert pool.counts(40, kernel="nested", work=50, size=320) == [1] * 320


@pytest.mark.parametrize("threads", [1, 3])
def test_rounding_and_denormals_are_the_same_under_any_control_word(pool: Pool, threads: int) -> None:
    x86 = os.uname().machine in ("x86_64", "amd64")
    word = 0xDFC0 if x86 else 0x1400000  # round upward, flush to zero, and on x86 denormals are zero
    pool.lib.gm_pool_set(threads)
    results = pool.ffi.new("float[]", 400)
    after = pool.lib.under_other_word(
        pool.ffi.new("void *[]", [results]), pool.ffi.new("int64_t[]", [300]), 200, word
    )
    assert after & 0xFFFFFFC0 == word & 0xFFFFFFC0
    assert set(list(results)[::2]) == {0.3333333432674408}
    assert set(list(results)[1::2]) == {2.0**-127}


def in_child(body: Any) -> int:
    """Runs `body` in a forked child and returns its exit status: 0 where it returned true."""
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            status = 0 if body() else 1
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_a_pool_of_its_own(pool: Pool) -> None:
    pool.lib.gm_pool_set(3)
    assert pool.counts(100, work=100) == [1] * 100
    for _ in range(5):
        assert in_child(lambda: pool.counts(100, work=100) == [1] * 100) == 0
    assert pool.counts(100, work=100) == [1] * 100


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_fork_in_the_middle_of_another_threads_run(pool: Pool) -> None:
    pool.lib.gm_pool_set(3)
    stop = threading.Event()

    def keep_running() -> None:
        while not stop.is_set():
            pool.counts(64, work=2000)

    busy = threading.Thread(target=keep_running)
    busy.start()
    try:
        for _ in range(10):
            assert in_child(lambda: pool.counts(100, work=100) == [1] * 100) == 0
    finally:
        stop.set()
        busy.join()


@pytest.mark.skipif(sys.platform != "linux", reason="reads signal masks from /proc")
def test_workers_leave_signals_to_the_threads_that_were_there_before() -> None:
    def masks() -> dict[str, int]:
        found = {}
        for task in Path("/proc/self/task").iterdir():
            status = dict(
                line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line
            )
            found[task.name] = int(status["SigBlk"], 16)
        return found

    pool = Pool(build_library(KERNELS + "/* a pool without workers so far */", "gcc"))
    before = masks()
    pool.lib.gm_pool_set(3)
    assert pool.counts(10) == [1] * 10
    workers = {name: mask for name, mask in masks().items() if name not in before}
    assert len(workers) == 2
    interrupt = 1 << 1  # SIGINT is signal 2
    assert all(mask & interrupt for mask in workers.values())
    assert not masks()[str(os.getpid())] & interrupt
