"""From bits to the factors that drive a path: normals by date and factor, and further uniforms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.dim import Dim
from engine.core.dtype import float32, uint32
from engine.normal import inverse_normal
from engine.pricing.montecarlo.draws import Layout, box_muller, drawn, pair_of_uniforms
from engine.pricing.montecarlo.grid import grid_of
from engine.pricing.montecarlo.numbers import Numbers
from engine.pricing.montecarlo.paths import picked
from engine.pricing.montecarlo.rotation import rotation_of
from engine.pricing.montecarlo.sobol import sobol_uniforms
from engine.pricing.spec import Simulation
from engine.tensor import Tensor, cat


@dataclass(frozen=True, slots=True)
class Factors:
    """Arrays of [blocks, dates, paths]: ``normals`` and ``uniforms`` of the model, and ``bridge``, uniforms
    for what happens between two dates that the contract sees.
    """

    normals: Sequence[Tensor]
    uniforms: Sequence[Tensor] = ()
    bridge: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """How many numbers a path takes at each of its dates."""

    dates: int
    normals: int
    uniforms: int
    bridged: bool

    @property
    def layout(self) -> Layout:
        return Layout(self.dates * self.normals, self.dates * (self.uniforms + self.bridged))


def draw_factors(numbers: Numbers, settings: Simulation, blocks: Dim, needs: Needs) -> Factors:
    """The factors of ``blocks`` blocks, mirrored partners behind them where the settings ask for them."""
    layout, dates = needs.layout, needs.dates
    if settings.qmc == "sobol":
        u = sobol_uniforms(numbers, blocks, layout.normals + layout.uniforms, layout.lanes)
        z, rest = inverse_normal(u[:, : layout.normals]), u[:, layout.normals :]
    else:
        z, rest = _philox(numbers, settings, blocks, layout)
    if settings.precision == "float32":
        z, rest = z.astype(float32), rest.astype(float32)
    if settings.antithetic:
        z, rest = cat([z, -z], 2), cat([rest, 1.0 - rest], 2)
    own = [rest[:, k * dates : (k + 1) * dates] for k in range(needs.uniforms + needs.bridged)]
    return Factors(
        [_rotated(numbers, settings, z[:, k * dates : (k + 1) * dates]) for k in range(needs.normals)],
        own[: needs.uniforms],
        picked(own[-1], grid_of(numbers.spec).seen) if needs.bridged else None,
    )


def _philox(numbers: Numbers, settings: Simulation, blocks: Dim, layout: Layout) -> tuple[Tensor, Tensor]:
    key = numbers.graph.input("key", (2,), uint32)
    if layout.is_single:
        halves = pair_of_normals(settings, key, 0, blocks, layout.lanes // 2)
        z = cat(list(halves), 1).unsqueeze(1)
        return _matched(z) if settings.moment_matching else z, z[:, :0]
    z = drawn(lambda turn: pair_of_normals(settings, key, turn, blocks, layout.lanes), layout.normals)
    rest = z[:, :0]
    if layout.uniforms:
        rest = drawn(lambda turn: pair_of_uniforms(key, 1, turn, blocks, layout.lanes), layout.uniforms)
    return _matched(z) if settings.moment_matching else z, rest


def pair_of_normals(
    settings: Simulation, key: Tensor, turn: Tensor | int, blocks: Dim, lanes: int
) -> tuple[Tensor, Tensor]:
    """Pair ``turn`` of the normals of each path, [blocks, lanes]."""
    first, second = pair_of_uniforms(key, 0, turn, blocks, lanes)
    if settings.normals == "box_muller":
        return box_muller(first, second)
    return inverse_normal(first), inverse_normal(second)


def _matched(z: Tensor) -> Tensor:
    """Draws moved and scaled so that each has mean 0 and variance 1 over the lanes of its block."""
    share = 1.0 / z.shape[2]
    centred = z - z.sum(2, True) * share
    return centred / ((centred * centred).sum(2, True) * share).sqrt()


def _rotated(numbers: Numbers, settings: Simulation, z: Tensor) -> Tensor:
    if settings.bridge == "none" or z.shape[1] == 1:
        return z
    matrix = numbers.matrix("rotation", rotation_of, z.shape[1])
    return matrix.unsqueeze(0).broadcast_to(z.shape[0], *matrix.shape) @ z
