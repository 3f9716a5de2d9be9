"""How a price is simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from engine.pricing.spec.fields import Part, choice, flag, integer, number, optional

MOST_PATHS = 2**36


@dataclass(frozen=True, slots=True)
class Simulation:
    """Settings of a simulation: ``paths`` to run, or ``target_se`` to reach within ``max_seconds``.

    ``steps`` is the number of equal time steps a model without exact steps takes up to T, besides the
    contract's own dates; null lets the engine choose.
    """

    paths: Annotated[int | None, Part(optional(integer(2, MOST_PATHS)), "number of paths")] = None
    target_se: Annotated[float | None, Part(optional(number(above=0.0)), "standard error to reach")] = None
    max_seconds: Annotated[float, Part(number(above=0.0, high=86_400.0), "time limit for target_se")] = 10.0
    seed: Annotated[int, Part(integer(0, 2**63 - 1), "seed; 0 is one like any other")] = 0
    rng: Annotated[Literal["philox"], Part(choice("philox"), "the generator")] = "philox"
    normals: Annotated[
        Literal["box_muller", "inverse"], Part(choice("box_muller", "inverse"), "how uniforms become normals")
    ] = "box_muller"
    antithetic: Annotated[bool, Part(flag, "whether each path has a mirrored partner")] = False
    control_variate: Annotated[
        Literal["auto", "none"],
        Part(choice("auto", "none"), "control variate: chosen by the payoff, or none"),
    ] = "auto"
    smoothing: Annotated[
        Literal["auto", "none", "conditional"],
        Part(
            choice("auto", "none", "conditional"),
            "whether what is decided at levels is replaced by its mean; auto: where Greeks are asked for",
        ),
    ] = "auto"
    moment_matching: Annotated[bool, Part(flag, "whether draws are scaled to their exact moments")] = False
    qmc: Annotated[Literal["none", "sobol"], Part(choice("none", "sobol"), "quasi-random points")] = "none"
    scramble_replicates: Annotated[int, Part(integer(8, 1024), "independent scrambles")] = 16
    bridge: Annotated[
        Literal["none", "brownian", "pca"],
        Part(choice("none", "brownian", "pca"), "how factors build the path"),
    ] = "none"
    precision: Annotated[
        Literal["float64", "float32"], Part(choice("float64", "float32"), "dtype of paths; sums are float64")
    ] = "float64"
    steps: Annotated[int | None, Part(optional(integer(1, 100_000)), "time steps up to T")] = None
    calibration_paths: Annotated[
        int | None, Part(optional(integer(1024, 2**24)), "paths from which an exercise rule is learnt")
    ] = None
    dual: Annotated[bool, Part(flag, "whether an upper bound is computed for early exercise")] = False
