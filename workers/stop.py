"""Why an attempt ends before its work is done."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """What the attempt was told, or what happened to it."""

    CANCEL = "cancel"
    PAUSE = "pause"
    SHUTDOWN = "shutdown"
    TIMEOUT = "timeout"
    FENCED = "fenced"

    @property
    def keeps_work(self) -> bool:
        """Whether a checkpoint is still wanted, and still accepted."""
        return self is not Reason.FENCED


class Stop(BaseException):
    """Raised in the handler at its next check. Not an Exception, so that no handler swallows it."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason
