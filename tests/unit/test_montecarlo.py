"""Simulated prices: draws, sums, shards, errors, quasi-random points, Greeks, custom payoffs."""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import NormalDist, fmean, pstdev
from typing import Any

import numpy as np
import pytest

from engine.core.dtype import float64
from engine.normal import inverse_normal
from engine.pricing import combine, price, price_shard
from engine.pricing.answer import answer_of
from engine.pricing.montecarlo.blocks import BLOCK, total
from engine.pricing.montecarlo.controls import control_of
from engine.pricing.montecarlo.draws import box_muller, drawn, key_of, pair_of_uniforms
from engine.pricing.montecarlo.program import program_of
from engine.pricing.montecarlo.rotation import _bridge, _components
from engine.pricing.montecarlo.shifts import wanted
from engine.pricing.montecarlo.sobol import primitive_polynomials, reversed_directions
from engine.pricing.montecarlo.walk import is_walked as walked_of
from engine.pricing.numerics.cholesky import root, root_slope
from engine.pricing.result import Result
from engine.pricing.spec import Spec, SpecError, read_spec
from engine.tensor import Tensor

ROOT = Path(__file__).parents[2]
CALL: dict[str, Any] = {"type": "call", "S": 100, "K": 100, "T": 1, "r": 0.05, "vol": 0.2}
EUROPEAN = {"instrument": "european", **CALL}
ASIAN = {"instrument": "asian", **CALL, "averaging": {"kind": "arithmetic", "n": 50}}
BARRIER = {
    "instrument": "barrier",
    **CALL,
    "barrier": {"level": 130, "type": "up-out"},
    "monitoring": {"kind": "discrete", "n": 50},
}


def spec_of(request: dict[str, Any], *, greeks: tuple[str, ...] = (), **mc: Any) -> Spec:
    return read_spec({**request, "greeks": list(greeks), "mc": {"paths": 20_000, "seed": 3, **mc}})


def priced(request: dict[str, Any], *, greeks: tuple[str, ...] = (), **mc: Any) -> Result:
    found = price(spec_of(request, greeks=greeks, **mc))
    assert isinstance(found, Result)
    return found


def within(result: Result, value: float, slack: float = 0.0) -> bool:
    return abs(result.price - value) <= 3.5 * result.se + slack


# ---- draws and sums


def test_uniforms_lie_strictly_inside_the_unit_interval_and_have_its_moments() -> None:
    first, second = pair_of_uniforms(key_of(1, 0, 0), 0, 2, 6, BLOCK)
    for x in (np.array(first.tolist()), np.array(second.tolist())):
        assert x.min() > 0.0 and x.max() < 1.0
        assert abs(x.mean() - 0.5) < 0.01 and abs(x.var() - 1 / 12) < 0.003
    normals = np.array([x.tolist() for x in box_muller(first, second)]).reshape(-1)
    assert abs(normals.mean()) < 0.02 and abs(normals.std() - 1) < 0.02
    assert abs((normals**4).mean() - 3) < 0.15


def test_a_path_gets_the_same_draws_whatever_else_is_drawn() -> None:
    key = key_of(5, 0, 2)

    def draws(blocks: int, count: int) -> Any:
        return drawn(lambda turn: pair_of_uniforms(key, 0, turn, blocks, 1024), count).tolist()

    alone, among = draws(1, 5), draws(3, 7)
    assert alone[0] == among[0][:5]
    assert alone[0][2:4] == [x.tolist()[0] for x in pair_of_uniforms(key, 0, 1, 1, 1024)]


def test_the_inverse_normal_is_that_of_wichura() -> None:
    points = [2.0**-53, 1e-9, 0.01, 0.075, 0.3, 0.5, 0.7, 0.925, 0.99, 1 - 1e-9, 1 - 2.0**-53]
    found = inverse_normal(Tensor(points, float64)).tolist()
    for u, z in zip(points, found, strict=True):
        assert z == pytest.approx(NormalDist().inv_cdf(u), rel=2e-15, abs=1e-16)


def test_the_tree_of_blocks_is_that_of_reduce() -> None:
    values = np.random.default_rng(1).standard_normal(11 * BLOCK + 17) * 1e3
    whole = float(Tensor(values.tolist(), float64).sum())
    rows = [
        (float(Tensor(values[k : k + BLOCK].tolist(), float64).sum()),) for k in range(0, len(values), BLOCK)
    ]
    assert total(rows) == (whole,)


def test_roots_of_correlations_also_of_singular_ones() -> None:
    for matrix in (
        ((1.0, 0.3, 0.1), (0.3, 1.0, -0.4), (0.1, -0.4, 1.0)),
        ((1.0, 1.0), (1.0, 1.0)),
        ((1.0, -1.0), (-1.0, 1.0)),
        ((1.0, 0.5, 0.5), (0.5, 1.0, 1.0), (0.5, 1.0, 1.0)),
    ):
        lower = np.array(root(matrix))
        np.testing.assert_allclose(lower @ lower.T, matrix, atol=1e-14)


def test_the_slope_of_a_root_is_its_difference_quotient() -> None:
    matrix = [[1.0, 0.3, 0.1], [0.3, 1.0, -0.4], [0.1, -0.4, 1.0]]
    h = 1e-6
    moved = []
    for sign in (1, -1):
        own = [list(row) for row in matrix]
        own[2][0] += sign * h
        own[0][2] += sign * h
        moved.append(np.array(root(tuple(map(tuple, own)))))
    slope = root_slope(tuple(map(tuple, matrix)), 0, 2)
    np.testing.assert_allclose(slope, (moved[0] - moved[1]) / (2 * h), atol=1e-8)


# ---- quasi-random points


def test_polynomials_are_the_primitive_ones() -> None:
    counts = {
        degree: sum(p.bit_length() == degree + 1 for p in primitive_polynomials(67)) for degree in range(1, 9)
    }
    assert list(counts.values()) == [1, 1, 2, 2, 6, 6, 18, 16]


def test_each_dimension_of_the_points_is_a_net() -> None:
    dimensions = 12
    table = np.array(reversed_directions(dimensions), dtype=np.uint64).reshape(32, dimensions)
    for bits in (4, 8):
        points = np.zeros((1 << bits, dimensions), dtype=np.uint64)
        for n in range(1 << bits):
            for bit in range(bits):
                if n >> bit & 1:
                    points[n] ^= table[bit]
        heads = points & np.uint64((1 << bits) - 1)  # bits in reverse: the lowest ones come first
        for dimension in range(dimensions):
            assert len(set(heads[:, dimension].tolist())) == 1 << bits


def test_rotations_are_orthogonal_and_the_bridge_begins_with_the_end() -> None:
    times = (0.1, 0.25, 0.5, 0.7, 1.0)
    for matrix in (_bridge(times), _components(times)):
        square = np.array(matrix).reshape(5, 5)
        np.testing.assert_allclose(square @ square.T, np.eye(5), atol=1e-12)
    first = np.array(_bridge(times)).reshape(5, 5)[:, 0]
    steps = np.sqrt(np.diff((0.0, *times)))
    np.testing.assert_allclose((first * steps).cumsum()[-1], 1.0)


@pytest.mark.parametrize("bridge", ["none", "brownian", "pca"])
def test_quasi_random_prices_say_their_error_by_scrambles(bridge: str) -> None:
    found = priced(ASIAN, paths=16 * 1024, qmc="sobol", bridge=bridge, control_variate="none")
    assert found.closed_form is not None
    assert within(found, found.closed_form.value)
    assert found.se < 0.025  # plain paths: 0.064
    assert found.draws is not None and found.draws.rng.startswith("sobol")


def test_quasi_random_points_have_a_theta() -> None:
    """It names the first step, and points the first of them."""
    found = priced(EUROPEAN, greeks=("theta",), qmc="sobol")
    own = found.greeks["theta"]
    assert own.value == pytest.approx(-6.414027546, abs=3.5 * own.se)


# ---- walks: paths of which nothing is kept but statistics

WATCHED = {"monitoring": {"kind": "discrete", "n": 13}}
BENDING = {
    "r": {"until": [0.3], "values": [0.05, 0.02]},
    "vol": {"until": [0.4, 0.7], "values": [0.2, 0.3, 0.25]},
    "q": 0.01,
}
WALKED: dict[str, dict[str, Any]] = {
    "arithmetic mean": ASIAN,
    "odd dates": {**ASIAN, **BENDING, "averaging": {"kind": "arithmetic", "n": 7, "include_t0": True}},
    "some fixings": {**ASIAN, "averaging": {"kind": "geometric", "times": [0.2, 0.5, 0.9]}},
    "strike of the mean": {key: value for key, value in ASIAN.items() if key != "K"},
    "smallest": {"instrument": "lookback", **CALL, **BENDING, **WATCHED},
}
JUMPING = {
    "out": {**BARRIER, **BENDING},
    "in": {**BARRIER, "barrier": {"level": 90, "type": "down-in", "rebate": 2.0, "rebate_timing": "expiry"}},
    "double": {
        "instrument": "double_barrier",
        **CALL,
        **WATCHED,
        "barrier": {"lower": 85, "upper": 130, "type": "out"},
    },
    "no touch": {
        **{key: CALL[key] for key in ("S", "T", "r", "vol")},
        **WATCHED,
        "instrument": "touch",
        "level": 120,
        "direction": "up",
        "payout": 10,
        "touch": "no",
    },
}


def is_walked(spec: Spec) -> bool:
    return walked_of(spec, control_of(spec), wanted(spec.greeks, 1))


def test_the_paths_of_a_walk_never_are_in_memory() -> None:
    """One kernel draws, steps and pays; with Greeks it goes back as well."""
    for greeks in ((), ("delta", "vega")):
        plan: Any = program_of(spec_of(ASIAN, greeks=greeks)).runner.run
        loops = [line for line in plan.__self__.describe({"blocks": 1}).splitlines() if "loop of" in line]
        assert len(loops) == (1 if not greeks else 3), loops  # the control has a way back of its own
        assert "(nested)" not in plan.__self__.describe({"blocks": 1})


@pytest.mark.parametrize("name", WALKED)
def test_a_walk_gives_the_price_and_greeks_of_arrays(name: str) -> None:
    """A second derivative takes the density, hence arrays of all dates."""
    first = ("delta", "vega", "rho", "theta")
    both = (first, (*first, "gamma"))
    walked, kept = (priced(WALKED[name], greeks=own, control_variate="none") for own in both)
    assert is_walked(spec_of(WALKED[name], greeks=first))
    assert not is_walked(spec_of(WALKED[name], greeks=("gamma",)))
    assert walked.price == pytest.approx(kept.price, rel=1e-11)
    assert walked.se == pytest.approx(kept.se, rel=1e-9)
    for greek in first:
        assert walked.greeks[greek].value == pytest.approx(kept.greeks[greek].value, rel=1e-8), greek
        assert walked.greeks[greek].se == pytest.approx(kept.greeks[greek].se, rel=1e-6), greek


@pytest.mark.parametrize("name", JUMPING)
def test_a_walk_gives_the_price_of_arrays_where_payoffs_jump(name: str) -> None:
    walked, kept = (priced(JUMPING[name], greeks=own, smoothing="none") for own in ((), ("delta",)))
    assert is_walked(spec_of(JUMPING[name]))
    assert walked.price == pytest.approx(kept.price, rel=1e-11)


# ---- the same bits


def test_shards_in_processes_and_any_number_of_threads_give_the_bits_of_the_whole() -> None:
    code = (
        "import json, pickle, sys\n"
        "from engine.pricing import price, price_shard\n"
        "from engine.pricing.spec import read_spec\n"
        "spec = read_spec(json.loads(sys.argv[1]))\n"
        "number, shards = int(sys.argv[2]), int(sys.argv[3])\n"
        "sys.stdout.buffer.write(pickle.dumps(price_shard(spec, number, shards)))\n"
    )
    request = {**ASIAN, "greeks": ["delta"], "convergence": True, "mc": {"paths": 60_000, "seed": 9}}
    whole = price(read_spec(request))
    parts = []
    for number, threads in enumerate((1, 2, 7, 1)):
        environment = {**os.environ, "GRADMILL_THREADS": str(threads)}
        arguments = [sys.executable, "-c", code, json.dumps(request), str(number), "4"]
        done = subprocess.run(arguments, capture_output=True, check=True, cwd=ROOT, env=environment)
        parts.append(pickle.loads(done.stdout))
    together = combine(parts)
    assert isinstance(whole, Result)
    for name in ("price", "se", "ci95", "greeks", "convergence", "n_paths", "z"):
        assert getattr(together, name) == getattr(whole, name), name


def test_parts_must_be_all_shards_of_one_request() -> None:
    spec = spec_of(EUROPEAN, paths=600_000)
    parts = [price_shard(spec, number, 2) for number in range(2)]
    assert combine(parts[::-1]).price == combine(parts).price
    with pytest.raises(ValueError, match="lack the blocks"):
        combine(parts[1:])
    with pytest.raises(ValueError, match="of one"):
        combine([parts[0], price_shard(spec_of(EUROPEAN, paths=600_000, seed=4), 1, 2)])
    with pytest.raises(ValueError, match="shard is 2"):
        price_shard(spec, 2, 2)


def test_more_paths_begin_with_the_same_ones() -> None:
    spec = replace(spec_of(EUROPEAN, paths=50_000), convergence=True)
    longer = replace(spec_of(EUROPEAN, paths=90_000), convergence=True)
    short, long = price(spec), price(longer)
    assert isinstance(short, Result) and isinstance(long, Result)
    assert [own for own in short.convergence if own.n <= 32_768] == [
        own for own in long.convergence if own.n <= 32_768
    ]


def test_seeds_differ_and_0_is_one_of_them() -> None:
    prices = {priced(EUROPEAN, seed=seed).price for seed in (0, 1, 2**62)}
    assert len(prices) == 3
    assert priced(EUROPEAN, seed=0).price == priced(EUROPEAN, seed=0).price


# ---- errors


def test_antithetic_errors_are_those_of_pairs() -> None:
    call = priced(EUROPEAN, paths=200_000, antithetic=True, control_variate="none")
    assert call.n_effective == 100_000 and call.n_paths == 200_000
    assert call.se * sqrt(200_000 / 1_000_000) == pytest.approx(0.0104, rel=0.02)
    straddle = {
        **EUROPEAN,
        "instrument": "custom",
        "payoff": "abs(last(S) - K)",
        "constants": {"K": 100},
        "monitoring": {"kind": "discrete", "n": 1},
    }
    del straddle["type"], straddle["K"]
    mirrored = priced(straddle, paths=200_000, antithetic=True, control_variate="none")
    plain = priced(straddle, paths=200_000, control_variate="none")
    assert mirrored.se * sqrt(0.2) == pytest.approx(0.01697, rel=0.02)
    assert mirrored.se > 1.2 * plain.se  # mirroring does harm here, and the error says so


def test_a_target_error_is_reached_or_the_answer_warns() -> None:
    reached = price(read_spec({**ASIAN, "mc": {"target_se": 1e-3, "seed": 1}}))
    assert isinstance(reached, Result)
    assert reached.se <= 1e-3 and not reached.warnings and reached.n_paths % 2**14 == 0
    late = price(
        read_spec(
            {**EUROPEAN, "mc": {"target_se": 1e-9, "max_seconds": 0.05, "seed": 1, "control_variate": "none"}}
        )
    )
    assert isinstance(late, Result)
    assert "was not reached" in late.warnings[0]


def test_control_variates_and_matched_moments_reduce_the_error() -> None:
    plain = priced(ASIAN, paths=2**16, control_variate="none")
    controlled = priced(ASIAN, paths=2**16)
    assert plain.se / controlled.se > 30
    assert controlled.closed_form is not None and within(controlled, controlled.closed_form.value)
    matched = priced(EUROPEAN, paths=2**18, moment_matching=True, control_variate="none")
    unmatched = priced(EUROPEAN, paths=2**18, control_variate="none")
    assert matched.se < 0.8 * unmatched.se
    assert matched.closed_form is not None and within(matched, matched.closed_form.value)


@pytest.mark.parametrize("settings", [{"normals": "inverse"}, {"precision": "float32"}])
def test_other_normals_and_narrow_paths_price_the_same(settings: dict[str, Any]) -> None:
    found = priced(ASIAN, paths=2**15, **settings)
    assert found.closed_form is not None and within(found, found.closed_form.value, 1e-4)


# ---- Forge's specification


@pytest.mark.parametrize(
    ("request_", "seed", "exact"),
    [
        (ASIAN, 4, 5.857493141),
        ({**ASIAN, "averaging": {"kind": "geometric", "n": 50}}, 4, 5.641058127824),
        (BARRIER, 5, 3.821887242),
    ],
)
def test_the_prices_of_forges_specification(request_: dict[str, Any], seed: int, exact: float) -> None:
    found = priced(request_, paths=200_000, seed=seed)
    assert within(found, exact)
    assert found.closed_form is not None and found.closed_form.value == pytest.approx(exact, abs=1e-8)
    assert found.n_paths == 200_000 and found.bias.startswith("none")


def test_the_call_of_forges_specification() -> None:
    found = priced(EUROPEAN, paths=1_000_000, seed=1, antithetic=True, control_variate="none")
    assert within(found, 10.450583572186)
    assert found.se == pytest.approx(0.0104, rel=0.01)


# ---- Greeks


ALL = ("delta", "gamma", "vega", "theta", "rho", "div_rho", "vanna", "volga")
WATCHED = {**BARRIER, "monitoring": {"kind": "continuous"}}


@pytest.mark.parametrize(
    ("request_", "greeks"),
    [
        pytest.param(EUROPEAN, ("delta", "gamma", "vega", "theta"), id="european"),
        pytest.param({"instrument": "digital", **CALL}, ("delta", "rho"), id="digital"),
        pytest.param(WATCHED, ("delta", "vega"), id="barrier watched always"),
        pytest.param(EUROPEAN, ALL, id="european, all", marks=pytest.mark.slow),
        pytest.param({"instrument": "digital", **CALL}, ALL, id="digital, all", marks=pytest.mark.slow),
        pytest.param(WATCHED, ALL[:6], id="barrier watched always, all", marks=pytest.mark.slow),
        pytest.param(
            {**BARRIER, "monitoring": {"kind": "discrete", "n": 4}},
            ALL[:6],
            id="barrier at dates, all",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_greeks_agree_with_exact_ones_within_their_errors(
    request_: dict[str, Any], greeks: tuple[str, ...]
) -> None:
    found = priced(request_, greeks=greeks, paths=2**16)
    assert found.closed_form is not None
    for name, greek in found.greeks.items():
        exact = found.closed_form.greeks[name].value
        assert greek.value is not None and exact is not None
        assert abs(greek.value - exact) <= 3.5 * greek.se + 1e-6 * abs(exact), name
        assert greek.method and greek.unit


def test_greeks_that_cannot_be_estimated_say_why() -> None:
    two = {**CALL, "instrument": "best_of", "S": [100, 100], "vol": [0.2, 0.2], "corr": 1.0}
    found = priced(two, greeks=("delta", "gamma", "dv0"))
    assert set(found.greeks) == {"delta1", "delta2", "gamma1", "gamma2", "dv0"}
    assert found.greeks["gamma1"].value is None and "density" in found.greeks["gamma1"].method
    assert found.greeks["dv0"].value is None and "variance" in found.greeks["dv0"].method
    assert found.greeks["delta1"].value is not None


# ---- early exercise


def test_the_dual_bound_lies_above_and_the_rule_below() -> None:
    put = {**CALL, "instrument": "bermudan", "type": "put", "exercise": {"n": 10}}
    found = priced(put, paths=2**14, dual=True)
    assert found.upper is not None and found.closed_form is not None
    assert found.price - 3.5 * found.se <= found.closed_form.value
    assert found.closed_form.value <= found.upper.price + 3.5 * found.upper.se
    assert found.upper.price < 1.1 * found.closed_form.value
    several = {
        **CALL,
        "instrument": "max_call",
        "S": [100, 100],
        "vol": [0.2, 0.2],
        "corr": 0,
        "exercise": {"n": 3},
    }
    del several["type"]
    assert "no dual bound" in priced(several, paths=4096, dual=True, calibration_paths=4096).warnings[0]


# ---- custom payoffs


def custom(payoff: str, dates: int = 50, **constants: float) -> dict[str, Any]:
    market = {name: value for name, value in CALL.items() if name not in ("type", "K")}
    monitoring = {"kind": "discrete", "n": dates}
    return {
        **market,
        "instrument": "custom",
        "payoff": payoff,
        "constants": constants,
        "monitoring": monitoring,
    }


@pytest.mark.parametrize(
    ("own", "built_in"),
    [
        (custom("max(mean(S) - K, 0)", K=100), ASIAN),
        (custom("max(last(S) - K, 0) * (max(S) < B)", K=100, B=130), BARRIER),
        (custom("where(all(S < B), max(last(S) - K, 0), 0)", K=100, B=130), BARRIER),
    ],
)
def test_custom_payoffs_price_as_the_products_they_spell(
    own: dict[str, Any], built_in: dict[str, Any]
) -> None:
    plain = {"control_variate": "none", "smoothing": "none"}
    spelt, known = (priced(request, greeks=("delta",), **plain) for request in (own, built_in))
    assert spelt.price == pytest.approx(known.price, rel=1e-12)
    assert spelt.greeks["delta"].value == pytest.approx(known.greeks["delta"].value, rel=1e-9)
    assert spelt.greeks["delta"].method == known.greeks["delta"].method


@pytest.mark.parametrize(
    ("payoff", "expected"),
    [
        ("max(1.5, 2.25)", 2.25),
        ("exp(0.1)", math.exp(0.1)),
        ("1.1", 1.1),
        ("where(~(1 < 2), 3, 4)", 4.0),
        ("~(1 < 2) | (2 < 1)", 0.0),
    ],
)
def test_numbers_that_a_payoff_has_of_its_own_keep_their_digits(payoff: str, expected: float) -> None:
    found = priced(custom(f"({payoff}) + 0 * last(S)", dates=1), paths=64, control_variate="none")
    assert found.price == pytest.approx(math.exp(-CALL["r"]) * expected, rel=1e-14, abs=1e-300)


def test_a_payoff_that_is_not_finite_has_no_price_and_says_so() -> None:
    found = priced(custom("log(last(S) - 1000)", dates=1), paths=64)
    assert answer_of(found)["price"] is None
    assert found.warnings[0].startswith("no price")


@pytest.mark.parametrize("asked", [{"paths": 2}, {"paths": 3, "antithetic": True}])
def test_too_few_paths_have_no_error(asked: dict[str, Any]) -> None:
    found = priced(EUROPEAN, **asked)
    assert answer_of(found)["se"] is None
    assert found.warnings == ("no standard error: it takes more paths",)


@pytest.mark.parametrize("name", ["S", "max", "lambda", "é"])
def test_constants_that_could_not_be_read_are_refused(name: str) -> None:
    with pytest.raises(SpecError, match="mean nothing else"):
        price(read_spec(custom("last(S)", **{name: 1.0})))


@pytest.mark.parametrize(
    ("payoff", "rule"),
    [
        ("S", "one number for a path"),
        ("max(S) + x", "unknown name 'x'"),
        ("mean(K)", "takes the path"),
        ("max(K, 1)", "must read the path"),
        ("__import__('os')", "no text"),
        ("any(S)", "takes a condition"),
        ("K & K", "takes conditions"),
    ],
)
def test_payoffs_that_are_none_are_refused(payoff: str, rule: str) -> None:
    with pytest.raises(SpecError, match="payoff") as caught:
        price(read_spec(custom(payoff, K=100)))
    assert rule in str(caught.value)


# ---- coverage


CONTRACTS: list[dict[str, Any]] = [
    EUROPEAN,
    {**EUROPEAN, "type": "put"},
    {"instrument": "digital", **CALL},
    {**ASIAN, "averaging": {"kind": "arithmetic", "n": 12}},
    {**BARRIER, "monitoring": {"kind": "discrete", "n": 12}},
    {**BARRIER, "monitoring": {"kind": "continuous"}},
    {"instrument": "lookback", **CALL, "monitoring": {"kind": "continuous"}},
    {**CALL, "instrument": "exchange", "S": [100, 100], "vol": [0.2, 0.3], "corr": 0.5},
    {**CALL, "instrument": "forward_start", "alpha": 1.0, "t_start": 0.5},
    {"instrument": "gap", **CALL, "trigger": 95},
]


@pytest.mark.slow
@pytest.mark.parametrize("request_", CONTRACTS, ids=[own["instrument"] for own in CONTRACTS])
def test_the_95_percent_interval_covers_the_exact_value_that_often(request_: dict[str, Any]) -> None:
    request = dict(request_)
    for name in {"exchange": ("type", "K"), "forward_start": ("K",)}.get(request["instrument"], ()):
        request.pop(name, None)
    exact = price(read_spec({**request, "method": "closed_form"}))
    assert isinstance(exact, Result)
    covered = 0
    scores = []
    for seed in range(200):
        found = priced(request, paths=2**14, seed=seed, control_variate="none")
        assert found.ci95 is not None
        covered += found.ci95[0] <= exact.price <= found.ci95[1]
        scores.append((found.price - exact.price) / found.se)
    assert 0.92 <= covered / 200 <= 0.975
    assert abs(fmean(scores)) < 0.25 and 0.85 < pstdev(scores) < 1.15


@pytest.mark.parametrize(
    ("instrument", "more"),
    [
        ("lookback", {}),
        ("barrier", {"barrier": {"level": 130.0, "type": "up-out"}}),
        ("barrier", {"barrier": {"level": 60.0, "type": "down-out"}}),
    ],
    ids=["lookback", "up", "down"],
)
def test_paths_that_end_at_0_are_watched_always_as_at_ever_more_dates(
    instrument: str, more: dict[str, Any]
) -> None:
    cev = {"name": "cev", "params": {"delta": 12.0, "beta": 0.5}}
    put = {"instrument": instrument, "type": "put", "S": 100.0, "K": 100.0, "T": 1.0, "r": 0.05, "model": cev}
    always = priced({**put, **more, "monitoring": {"kind": "continuous"}}, steps=128)
    few, many = (
        priced({**put, **more, "monitoring": {"kind": "discrete", "n": dates}}) for dates in (64, 256)
    )
    limit = 2.0 * many.price - few.price  # errors fall with the root of the number of dates
    spread = math.hypot(always.se, 2.0 * many.se, few.se)
    assert abs(always.price - limit) <= 3.5 * spread + 0.02 * abs(many.price - few.price)
    assert always.se < 2.0 * many.se
