"""The price of a contract without sampling error, where there is a way to it."""

from __future__ import annotations

from engine.pricing import deterministic
from engine.pricing.analytic import differences, edges
from engine.pricing.analytic.method import UnknownError
from engine.pricing.analytic.table import methods_for
from engine.pricing.result import Exact
from engine.pricing.spec import Spec


def exact(spec: Spec, greeks: tuple[str, ...] | None = None) -> Exact | None:
    """As ``known``; None where there is no such price."""
    try:
        return known(spec, greeks)
    except UnknownError:
        return None


def known(spec: Spec, greeks: tuple[str, ...] | None = None) -> Exact:
    """Price and Greeks (those that the spec asks for, unless given) by the table of methods.

    UnknownError where no method serves the contract, or none that does is accurate. Contracts whose path is
    certain are answered by their payoff.
    """
    names = spec.greeks if greeks is None else greeks
    if isinstance(spec.product, deterministic.PRODUCTS) and deterministic.is_deterministic(spec):
        source = "the path is certain: the discounted payoff"
        return Exact(deterministic.value(spec), "payoff", source, edges.greeks(spec, names))
    reason = f"none is known for {spec.instrument}"
    for method in methods_for(spec):
        try:
            value = method.price(spec)
        except UnknownError as error:
            reason = str(error)
            continue
        formulas = method.greeks(spec) if method.greeks is not None and names else {}
        found = differences.greeks(spec, names, method, formulas)
        return Exact(value, method.name, method.source, found)
    raise UnknownError(reason)
