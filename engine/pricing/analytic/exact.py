"""The price of a contract without sampling error, where there is a way to it."""

from __future__ import annotations

from engine.pricing import deterministic
from engine.pricing.analytic import differences, edges
from engine.pricing.analytic.table import method_for
from engine.pricing.result import Exact
from engine.pricing.spec import Spec


def exact(spec: Spec, greeks: tuple[str, ...] | None = None) -> Exact | None:
    """Price and Greeks (those that the spec asks for, unless given) by the table of methods.

    None where the table has no method for the contract. Contracts whose path is certain are answered by
    their payoff.
    """
    names = spec.greeks if greeks is None else greeks
    if isinstance(spec.product, deterministic.PRODUCTS) and deterministic.is_deterministic(spec):
        source = "the path is certain: the discounted payoff"
        return Exact(deterministic.value(spec), "payoff", source, edges.greeks(spec, names))
    method = method_for(spec)
    if method is None:
        return None
    formulas = method.greeks(spec) if method.greeks is not None and names else {}
    found = differences.greeks(spec, names, method, formulas)
    return Exact(method.price(spec), method.name, method.source, found)
