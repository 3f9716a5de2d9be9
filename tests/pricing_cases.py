"""The cases of shared/cases/pricing.json as specs: one function for each of the file's instruments.

The file names parameters as the literature does; ``request_of`` translates a case into the request that our
service takes, whatever its numbers. Files of the same form work alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.pricing.spec import Spec, read_spec

Case = Mapping[str, Any]
Request = dict[str, Any]

FILE = Path(__file__).resolve().parents[2] / "shared" / "cases" / "pricing.json"

_NUMBERS = {
    "NaN": math.nan,
    "nan": math.nan,
    "Infinity": math.inf,
    "inf": math.inf,
    "-Infinity": -math.inf,
    "-inf": -math.inf,
}
_GREEKS = {"rho_rate": "rho"}
_MARKET = ("S", "T", "r", "q", "vol", "dividends", "corr", "allow_extreme")
"""Names that mean the same in the file and in a request."""


def read_cases(path: Path) -> list[Case]:
    """All cases of a file."""
    cases: list[Case] = json.loads(path.read_text())
    return cases


def spec_of(case: Case, **more: Any) -> Spec:
    """The spec of a case, with ``more`` fields of the request. SpecError where the case is one to refuse."""
    return read_spec(request_of(case) | more)


def request_of(case: Case) -> Request:
    """The request that a case describes."""
    params = {
        name: _NUMBERS.get(value, value) if isinstance(value, str) else value
        for name, value in case["params"].items()
    }
    market = {name: params[name] for name in _MARKET if name in params}
    return market | _translator(case["instrument"])(params)


def _translator(instrument: str) -> Callable[[Request], Request]:
    """The function for an instrument, or for the longest known name that it begins with."""
    known = [name for name in _INSTRUMENTS if instrument.startswith(name)]
    if not known:
        raise ValueError(f"instrument is {instrument!r}; it must begin with one of {', '.join(_INSTRUMENTS)}")
    return _INSTRUMENTS[max(known, key=len)]


def _number(value: Any) -> Any:
    """JSON has no NaN: the file writes it as text."""
    return _NUMBERS.get(value.lower(), value) if isinstance(value, str) else value


def expected_greeks(case: Case) -> dict[str, float | None]:
    """The Greeks that a case expects, by our names; None where it says that there is none."""
    found = {}
    for name, value in case["expected"].items():
        if name not in ("price", "error", "implied_vol"):
            found[_GREEKS.get(name, name)] = value if isinstance(value, int | float) else None
    return found


def wanted_greeks(names: Iterable[str]) -> list[str]:
    """What to ask for to get the Greeks ``names``: those of single assets come together."""
    return sorted({name.rstrip("0123456789") if not name.startswith("dv") else name for name in names})


# ---- parts


def _option(p: Request) -> Request:
    return {name: p[name] for name in ("type", "K") if name in p}


def _dates(p: Request, count: str, times: str) -> Request:
    """``{"n": …}`` or ``{"times": […]}``, with an offset of the first date where the case gives one."""
    if times in p:
        return {"times": list(p[times])}
    n = p[count]
    if isinstance(n, list):
        return {"times": n}
    if "first" in p:
        first, last = p["first"], p["T"]
        return {"times": [first + (last - first) * i / (n - 1) for i in range(n)] if n > 1 else [last]}
    return {"n": n}


def _monitoring(p: Request, *, include_t0: bool = False) -> Request:
    if p.get("monitoring", "continuous") == "continuous":
        return {"kind": "continuous"}
    return {"kind": "discrete", "include_t0": include_t0, **_dates(p, "steps", "times")}


def _model(name: str, p: Request, *params: str) -> Request:
    return {"name": name, "params": {param: p[param] for param in params}}


def _two_assets(p: Request) -> Request:
    both = {name: [p[f"{name}1"], p[f"{name}2"]] for name in ("S", "q", "vol")}
    return {**both, "corr": p["rho"], **_option(p)}


def _averaging(kind: str) -> Callable[[Request], Request]:
    def build(p: Request) -> Request:
        past = {name: p[name] for name in ("past_sum", "past_count") if name in p}
        include = {"include_t0": p["include_t0"]} if "include_t0" in p else {}
        return {"averaging": {"kind": kind, **_dates(p, "fixings", "times"), **include, **past}}

    return build


def _asian(kind: str, *, continuous: bool = False) -> Callable[[Request], Request]:
    def build(p: Request) -> Request:
        average = {"averaging": {"kind": kind, "continuous": True}} if continuous else _averaging(kind)(p)
        return {"instrument": "asian", **_option(p), **average}

    return build


def _average_strike(kind: str) -> Callable[[Request], Request]:
    return lambda p: {"instrument": "asian", "type": p["type"], **_averaging(kind)(p)}


def _rebate_timing(p: Request) -> Request:
    return {"rebate_timing": "expiry"} if p.get("rebate_timing") in ("expiry", "at expiry") else {}


# ---- instruments


def _plain(name: str, **fixed: Any) -> Callable[[Request], Request]:
    return lambda p: {"instrument": name, **_option(p), **fixed}


def _digital(pays: str) -> Callable[[Request], Request]:
    return lambda p: {"instrument": "digital", **_option(p), "pays": pays, "payout": p.get("payout", 1)}


def _gap(p: Request) -> Request:
    return {"instrument": "gap", "type": p["type"], "trigger": p["K1"], "K": p["K2"]}


def _touch(timing: str, touch: str = "one") -> Callable[[Request], Request]:
    def build(p: Request) -> Request:
        direction = p.get("direction", "down" if p["H"] < p["S"] else "up")
        about = {"level": p["H"], "direction": direction, "payout": p.get("payout", 1)}
        return {
            "instrument": "touch",
            **about,
            "monitoring": _monitoring(p),
            "timing": timing,
            "touch": touch,
        }

    return build


def _barrier(p: Request) -> Request:
    level = {"level": p["B"], "type": p["barrier_type"], "rebate": p.get("rebate", 0), **_rebate_timing(p)}
    return {"instrument": "barrier", **_option(p), "barrier": level, "monitoring": _monitoring(p)}


def _double_barrier(p: Request) -> Request:
    effect = "in" if str(p.get("barrier_type", "out")).endswith("in") else "out"
    levels = {
        "lower": p["L"],
        "upper": p["U"],
        "type": effect,
        "rebate": p.get("rebate", 0),
        **_rebate_timing(p),
    }
    return {"instrument": "double_barrier", **_option(p), "barrier": levels, "monitoring": _monitoring(p)}


def _lookback(p: Request) -> Request:
    extreme = {"extreme": p["extreme_so_far"]} if "extreme_so_far" in p else {}
    about = {"monitoring": _monitoring(p, include_t0=True), **_option(p), **extreme}
    return {"instrument": "lookback", **about}


def _rainbow(name: str) -> Callable[[Request], Request]:
    return lambda p: {"instrument": name, **(_two_assets(p) if "S1" in p else _option(p))}


def _exchange(p: Request) -> Request:
    return {"instrument": "exchange", **_two_assets(p)}


def _basket(mean: str) -> Callable[[Request], Request]:
    def build(p: Request) -> Request:
        weights = {"weights": p["weights"]} if "weights" in p else {}
        return {"instrument": "basket", **_option(p), "mean": mean, **weights}

    return build


def _bermudan(p: Request) -> Request:
    return {"instrument": "bermudan", **_option(p), "exercise": _dates(p, "exercise_dates", "times")}


def _max_call(p: Request) -> Request:
    return {"instrument": "max_call", "K": p["K"], "exercise": _dates(p, "exercise_dates", "times")}


def _heston(p: Request) -> Request:
    return {"model": _model("heston", p, "v0", "kappa", "theta", "xi", "rho")}


def _heston_european(p: Request) -> Request:
    return {"instrument": "european", **_option(p), **_heston(p)}


def _heston_variance_swap(p: Request) -> Request:
    about = {"S": p.get("S", 1), "K": p.get("K", 0), "monitoring": {"kind": "continuous"}}
    return {"instrument": "variance_swap", **about, **_heston(p)}


def _merton(p: Request) -> Request:
    return {"instrument": "european", **_option(p), "model": _model("merton", p, "lam", "mu_j", "sigma_j")}


def _cev(p: Request) -> Request:
    return {"instrument": "european", **_option(p), "model": _model("cev", p, "delta", "beta")}


def _displaced(p: Request) -> Request:
    return {"instrument": "european", **_option(p), "model": _model("displaced", p, "shift")}


def _implied_vol(p: Request) -> Request:
    about: Request = {"instrument": "implied_vol", **_option(p), "price": p["price"]}
    if "F" in p:
        about |= {"S": p["F"], "q": p["r"]}
    if str(p.get("instrument", "")).startswith("digital"):
        about |= {"option": "digital", "payout": p.get("payout", 1)}
    formula = p.get("model", p.get("formula"))
    return about | ({"formula": formula} if formula else {})


def _normal_vol(p: Request) -> Request:
    return _implied_vol(p) | {"formula": "bachelier"}


def _forward_start(p: Request) -> Request:
    return {"instrument": "forward_start", "type": p["type"], "alpha": p["alpha"], "t_start": p["t_start"]}


def _chooser(p: Request) -> Request:
    return {"instrument": "chooser", "K": p["K"], "t_choose": p["t_choose"]}


def _compound(p: Request) -> Request:
    strikes = {"K_mother": p["X_mother"], "K_daughter": p["X_daughter"], "t_mother": p["t_mother"]}
    return {"instrument": "compound", "mother": p["mother"], "daughter": p["daughter"], **strikes}


def _quanto(p: Request) -> Request:
    rates = {"r": p["r_domestic"], "r_foreign": p["r_foreign"]}
    fx = {"vol_fx": p["vol_fx"], "rho_fx": p["rho"], "fx": p.get("fx_fixed", 1)}
    return {"instrument": "quanto", **_option(p), **rates, **fx}


_INSTRUMENTS: dict[str, Callable[[Request], Request]] = {
    "european": _plain("european"),
    "digital_cash": _digital("cash"),
    "digital_asset": _digital("asset"),
    "gap": _gap,
    "one_touch_at_hit": _touch("hit"),
    "one_touch_at_expiry": _touch("expiry"),
    "no_touch": _touch("expiry", "no"),
    "asian_geometric_discrete": _asian("geometric"),
    "asian_geometric_continuous": _asian("geometric", continuous=True),
    "asian_arithmetic_discrete": _asian("arithmetic"),
    "asian_arithmetic_continuous": _asian("arithmetic", continuous=True),
    "asian_geometric_average_strike": _average_strike("geometric"),
    "asian_arithmetic_average_strike": _average_strike("arithmetic"),
    "barrier": _barrier,
    "double_barrier": _double_barrier,
    "lookback_floating": _lookback,
    "lookback_fixed": _lookback,
    "exchange": _exchange,
    "rainbow_min": _rainbow("worst_of"),
    "rainbow_max": _rainbow("best_of"),
    "spread": _rainbow("spread"),
    "basket_arithmetic": _basket("arithmetic"),
    "basket_geometric": _basket("geometric"),
    "american": _plain("american"),
    "bermudan": _bermudan,
    "bermudan_max_call": _max_call,
    "heston_european": _heston_european,
    "variance_swap_heston": _heston_variance_swap,
    "merton_jump": _merton,
    "local_vol_cev": _cev,
    "local_vol_displaced": _displaced,
    "implied_vol": _implied_vol,
    "implied_vol_bachelier": _normal_vol,
    "forward_start": _forward_start,
    "chooser": _chooser,
    "compound": _compound,
    "quanto": _quanto,
}
