"""Why jobs fail, each with the code that the job's error carries.

    JobError
    ├── NonFiniteLossError     non-finite-loss    the loss became NaN or infinite
    ├── InvalidDatasetError    invalid-dataset    the corpus can't be used
    ├── InvalidPromptError     invalid-prompt     the prompt has characters that the model doesn't know
    ├── UnknownModelError      unknown-model      the model to sample from isn't there
    ├── InvalidContractError   invalid-contract   the contract has no price by the method asked for
    └── DamagedCheckpointError checkpoint-damaged what is stored of the model is damaged

Besides these: ``no-space`` (the disk is full), ``out-of-memory``, ``timeout``, ``stalled``, ``worker-lost``
(its lease ran out), ``worker-crashed`` (the job's process died) and ``internal-error``.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.blobs import BlobSpaceError


class JobError(Exception):
    """A failure that another attempt would meet again."""

    code = "job-error"


class NonFiniteLossError(JobError):
    """The loss became NaN or infinite."""

    code = "non-finite-loss"


class InvalidDatasetError(JobError):
    """The corpus is missing, too short, or not text."""

    code = "invalid-dataset"


class InvalidPromptError(JobError):
    """The prompt has characters that the model doesn't know."""

    code = "invalid-prompt"


class UnknownModelError(JobError):
    """The model, alias or checkpoint isn't there."""

    code = "unknown-model"


class InvalidContractError(JobError):
    """The contract breaks a rule that only pricing it shows."""

    code = "invalid-contract"


class DamagedCheckpointError(JobError):
    """The stored bytes of a model are no longer those that were saved."""

    code = "checkpoint-damaged"


@dataclass(frozen=True)
class Failure:
    """``final``: another attempt would fail in the same way."""

    code: str
    message: str
    final: bool


def explain(error: Exception) -> Failure:
    """The code and message for what a handler raised; the trace stays in the worker's own log."""
    if isinstance(error, JobError):
        return Failure(error.code, str(error), final=True)
    if isinstance(error, MemoryError):
        hint = "use a smaller model or batch, or a worker with more memory"
        return Failure("out-of-memory", f"The job needs more memory than its worker has: {hint}.", final=True)
    if isinstance(error, BlobSpaceError):
        return Failure("no-space", f"The disk is full: {error}.", final=False)
    return Failure("internal-error", f"{type(error).__name__}: {error}", final=False)
