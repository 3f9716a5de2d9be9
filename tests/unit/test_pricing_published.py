"""Prices from the literature, to the digits that were printed; they need no file beside the checkout."""

from __future__ import annotations

from typing import Any

import pytest
from pricing_requests import CONTINUOUS, barrier

from engine.pricing.analytic import exact
from engine.pricing.spec import read_spec

HESTON = {"v0": 0.04, "kappa": 4, "theta": 0.25, "xi": 1, "rho": -0.5}

# fmt: off
PUBLISHED: list[tuple[str, dict[str, Any], float, float]] = [
    # source, request, value, half a unit of its last digit
    ("Hull: Black-Scholes-Merton example",
     {"instrument": "european", "type": "call", "S": 42, "K": 40, "T": 0.5, "r": 0.1, "vol": 0.2},
      4.76, 5e-3),
    ("Haug: currency option (Garman, Kohlhagen)",
     {"instrument": "european", "type": "call", "S": 1.56, "K": 1.6, "T": 0.5, "r": 0.06, "q": 0.08,
      "vol": 0.12}, 0.0291, 5e-5),
    ("Haug: cash-or-nothing",
     {"instrument": "digital", "type": "put", "S": 100, "K": 80, "T": 0.75, "r": 0.06, "q": 0.06, "vol": 0.35,
      "payout": 10}, 2.6710, 5e-5),
    ("Haug: asset-or-nothing",
     {"instrument": "digital", "type": "put", "S": 70, "K": 65, "T": 0.5, "r": 0.07, "q": 0.05, "vol": 0.27,
      "pays": "asset"}, 20.2069, 5e-5),
    ("Haug: gap, a negative price",
     {"instrument": "gap", "type": "call", "S": 50, "K": 57, "trigger": 50, "T": 0.5, "r": 0.09, "vol": 0.2},
     -0.0053, 5e-5),
    ("Haug: down-and-out call with rebate",
     {"instrument": "barrier", "type": "call", "S": 100, "K": 90, "T": 0.5, "r": 0.08, "q": 0.04, "vol": 0.25,
      **barrier("down-out", 95, rebate=3)}, 9.0246, 5e-5),
    ("Kunitomo, Ikeda: double barrier",
     {"instrument": "double_barrier", "type": "call", "S": 100, "K": 100, "T": 0.25, "r": 0.1, "vol": 0.15,
      "barrier": {"lower": 90, "upper": 110}, "monitoring": CONTINUOUS}, 1.2055, 5e-5),
    ("Haug: floating-strike lookback",
     {"instrument": "lookback", "type": "call", "S": 120, "extreme": 100, "T": 0.5, "r": 0.1, "q": 0.06,
      "vol": 0.3, "monitoring": CONTINUOUS}, 25.3533, 6e-5),
    ("Linetsky: continuous arithmetic average",
     {"instrument": "asian", "type": "call", "S": 2, "K": 2, "T": 1, "r": 0.02, "vol": 0.1,
      "averaging": {"kind": "arithmetic", "continuous": True}}, 0.0559860415, 5e-10),
    ("Haug: geometric average",
     {"instrument": "asian", "type": "put", "S": 80, "K": 85, "T": 0.25, "r": 0.05, "q": -0.03, "vol": 0.2,
      "averaging": {"kind": "geometric", "continuous": True}}, 4.6922, 5e-5),
    ("Haug: Margrabe's exchange option",
     {"instrument": "exchange", "S": [22, 20], "T": 0.1, "r": 0.1, "q": [0.06, 0.04], "vol": [0.2, 0.15],
      "corr": -0.5}, 2.1251, 5e-5),
    ("Hurd, Zhou: spread option",
     {"instrument": "spread", "type": "call", "S": [100, 96], "K": 4, "T": 1, "r": 0.1, "q": 0.05,
      "vol": [0.2, 0.1], "corr": 0.5}, 6.653065, 2e-5),
    ("Haug: option on the larger of two",
     {"instrument": "best_of", "type": "call", "S": [100, 105], "K": 98, "T": 0.5, "r": 0.05,
      "q": [0.06, 0.09], "vol": [0.11, 0.16], "corr": 0.63}, 8.0701, 5e-5),
    ("Lewis: Heston",
     {"instrument": "european", "type": "call", "S": 100, "K": 80, "T": 1, "r": 0.01, "q": 0.02,
      "model": {"name": "heston", "params": HESTON}}, 26.774758743998854, 1e-9),
    ("Haug: forward start",
     {"instrument": "forward_start", "type": "call", "S": 60, "alpha": 1.1, "t_start": 0.25, "T": 1,
      "r": 0.08, "q": 0.04, "vol": 0.3}, 4.4064, 6e-5),
    ("Haug: simple chooser",
     {"instrument": "chooser", "S": 50, "K": 50, "t_choose": 0.25, "T": 0.5, "r": 0.08, "vol": 0.25},
     6.1071, 5e-5),
    ("Haug: put on a call",
     {"instrument": "compound", "mother": "put", "daughter": "call", "S": 500, "K_mother": 50,
      "K_daughter": 520, "t_mother": 0.25, "T": 0.5, "r": 0.08, "q": 0.03, "vol": 0.35}, 21.1965, 2e-4),
    ("Haug: fixed exchange rate",
     {"instrument": "quanto", "type": "call", "S": 100, "K": 105, "T": 0.5, "r": 0.08, "q": 0.04, "vol": 0.2,
      "r_foreign": 0.05, "vol_fx": 0.1, "rho_fx": 0.3, "fx": 1.5}, 5.3280, 5e-5),
    ("Andersen, Lake, Offengenden: American put",
     {"instrument": "american", "type": "put", "S": 100, "K": 100, "T": 1, "r": 0.05, "q": 0.05,
      "vol": 0.25},
     9.5694453, 1e-7),
]
# fmt: on


@pytest.mark.parametrize(
    ("request_", "expected", "half_digit"), [row[1:] for row in PUBLISHED], ids=[row[0] for row in PUBLISHED]
)
def test_published_prices(request_: dict[str, Any], expected: float, half_digit: float) -> None:
    found = exact(read_spec(request_), ())
    assert found is not None
    assert found.value == pytest.approx(expected, abs=half_digit, rel=0.0)
