"""Caps on what one job may cost, checked before it is accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.errors import FieldError, InvalidFieldsError

# What two cores reach with the cpu device, measured with bench.train_step and bench.sample. Only for
# estimates of time, which say about how long a job takes.
FLOPS_PER_S = 4e10
STEP_S = 0.003  # of a training step, whatever the sizes
LAYER_S = 0.004  # of a transformer block in a training step, whatever its sizes
TOKEN_S = 0.0004  # of a generated token, whatever the sizes


@dataclass(frozen=True)
class Cap:
    """The most of one estimate, its unit and what makes it smaller."""

    most: float
    unit: str
    remedy: str


CAPS = {
    "parameters": Cap(2e8, "parameters", "make the model smaller"),
    "memory_bytes": Cap(16 * 2**30, "bytes of memory", "make the batch, the context or the model smaller"),
    "flops": Cap(1e18, "floating-point operations", "take fewer steps, a smaller batch or a smaller model"),
}


def check_caps(estimate: Mapping[str, int | float], caps: Mapping[str, Cap] = CAPS) -> None:
    """InvalidFieldsError that names every estimate above its cap."""
    errors = [
        FieldError(
            "spec", f"estimated at {estimate[name]:.4g} {cap.unit}", f"at most {cap.most:.4g}; {cap.remedy}"
        )
        for name, cap in caps.items()
        if estimate.get(name, 0) > cap.most
    ]
    if errors:
        raise InvalidFieldsError(errors, code="too-costly")
