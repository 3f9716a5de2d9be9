"""The settings of a simulation with everything written out."""

from __future__ import annotations

from dataclasses import replace

from engine.pricing.spec import Simulation, Spec

DEFAULT_PATHS = 2**17
FIRST_PATHS = 2**14  # of a run towards a target error, which then doubles; also the pilot's


def settings_of(spec: Spec) -> Simulation:
    """What the request says, else the engine's choice."""
    asked = spec.simulation or Simulation()
    if asked.paths is None and asked.target_se is None:
        return replace(asked, paths=DEFAULT_PATHS)
    return asked
