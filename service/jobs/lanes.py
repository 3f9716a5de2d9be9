"""Lanes: what a worker can do, as the name of a queue."""

from __future__ import annotations

BATCH = "cpu-batch"  # long jobs, one forked process each
QUICK = "cpu-quick"  # short jobs in a warm process
LANES = (BATCH, QUICK)
