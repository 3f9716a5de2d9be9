"""What contracts that end at a level pay on paths that survive, the last step by its mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.pricing.montecarlo.grid import pays_at_hit
from engine.pricing.montecarlo.paths import Path
from engine.pricing.montecarlo.payoffs import at_expiry, strike
from engine.pricing.montecarlo.survival import LOWEST, Piece, due_at_end, ending, levels_at_end
from engine.pricing.spec import products as p
from engine.tensor import Tensor


def payoff(path: Path) -> Tensor:
    """The mean of the discounted payoff, given the path up to the last date but one, [blocks, paths]."""
    product: Any = path.numbers.spec.product
    assert path.folded is not None
    alive, paid = path.folded["alive"], path.folded["paid"]
    surviving, end = ending(path, "surviving"), at_expiry(path)
    lived = alive * surviving.worth(_cut(path, _cash(path)))
    if isinstance(product, p.Digital | p.Gap):
        return end * surviving.worth(_at_expiry(path, product))
    is_called = isinstance(product, p.Autocallable)
    if is_called or pays_at_hit(product):
        paid = paid + (alive - lived) * due_at_end(path)
    if isinstance(product, p.Touch):
        return _touch(path, product, lived, paid)
    pieces = _notional(path) if is_called else _option(path, product.type)
    kept = end * alive * surviving.worth(_cut(path, pieces))
    if is_called:
        return paid + kept
    value = paid + kept if product.barrier.is_out else control_payoff(path) - kept
    if product.barrier.rebate == 0.0 or pays_at_hit(product):
        return value
    rebate = path.number("rebate", lambda spec: spec.product.barrier.rebate)  # type: ignore[attr-defined]
    return value + rebate * end * (1.0 - lived if product.barrier.is_out else lived)


def _touch(path: Path, product: p.Touch, lived: Tensor, paid: Tensor) -> Tensor:
    if pays_at_hit(product):
        return paid
    payout = path.number("payout", lambda spec: spec.product.payout)  # type: ignore[attr-defined]
    return at_expiry(path) * payout * (lived if product.touch == "no" else 1.0 - lived)


def control_payoff(path: Path) -> Tensor:
    """Where no level ends the path: the mean of the plain option, or of the asset, at expiry, discounted."""
    product: Any = path.numbers.spec.product
    assert path.folded is not None
    is_option = isinstance(product, p.Barrier | p.DoubleBarrier)
    pieces = _option(path, product.type) if is_option else _asset(path)
    return at_expiry(path) * path.folded["free ratio"] * ending(path, "free").worth(pieces)


# ---- amounts at expiry


def _one(path: Path) -> Tensor:
    return path.number("one", lambda spec: 1.0)


def _cash(path: Path) -> list[Piece]:
    return [Piece(None, None, None, _one(path))]


def _asset(path: Path) -> list[Piece]:
    return [Piece(None, None, _one(path), None)]


def _option(path: Path, kind: str) -> list[Piece]:
    level, at = strike(path), strike(path).clamp(LOWEST).log()
    if kind == "call":
        return [Piece(at, None, _one(path), -level)]
    return [Piece(None, at, -_one(path), level)]


def _at_expiry(path: Path, product: p.Digital | p.Gap) -> list[Piece]:
    """Cash or assets, or the option against a strike, beyond a level."""
    number = path.number
    asset: Tensor | None
    cash: Tensor | None
    if isinstance(product, p.Gap):
        level = number("trigger", lambda spec: spec.product.trigger)  # type: ignore[attr-defined]
        sign = 1.0 if product.type == "call" else -1.0
        asset, cash = _one(path) * sign, strike(path) * -sign
    else:
        level, paid = strike(path), number("payout", lambda spec: spec.product.payout)  # type: ignore[attr-defined]
        asset, cash = (paid, None) if product.pays == "asset" else (None, paid)
    at = level.clamp(LOWEST).log()
    return [Piece(at, None, asset, cash) if product.type == "call" else Piece(None, at, asset, cash)]


def _notional(path: Path) -> list[Piece]:
    """All of it where the asset is high enough, else as much as the asset has kept of its reference."""
    number = path.number
    notional = number("notional", lambda spec: spec.product.notional)  # type: ignore[attr-defined]
    share = number("share", lambda spec: spec.product.notional / spec.product.reference)  # type: ignore[attr-defined]
    protection = number("protection", lambda spec: spec.product.protection)  # type: ignore[attr-defined]
    at = protection.clamp(LOWEST).log()
    return [Piece(None, at, share, None), Piece(at, None, None, notional)]


def _cut(path: Path, pieces: Sequence[Piece]) -> list[Piece]:
    """The parts of amounts that lie between the levels, where these are looked at at expiry."""
    lower, upper = levels_at_end(path)
    return [
        piece._replace(
            low=_tighter(piece.low, lower, Tensor.maximum), high=_tighter(piece.high, upper, Tensor.minimum)
        )
        for piece in pieces
    ]


def _tighter(own: Tensor | None, level: Tensor | None, pick: Any) -> Tensor | None:
    return pick(own, level) if own is not None and level is not None else level if own is None else own
