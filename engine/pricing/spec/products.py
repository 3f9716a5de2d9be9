"""What is priced: one dataclass for each instrument, and the table of their names.

Amounts are in the currency of the spot, times in years from today, barriers and levels in units of the spot.
``type`` is that of the option: a call pays max(x - K, 0), a put max(K - x, 0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, TypeAlias

from engine.pricing.spec.fields import (
    NO_CONSTANTS,
    Constants,
    Part,
    choice,
    listing,
    named_numbers,
    nested,
    number,
    optional,
    text,
)
from engine.pricing.spec.schedule import Averaging, Monitoring, Schedule, averaging, monitoring, schedule

OptionType: TypeAlias = Literal["call", "put"]
BarrierType: TypeAlias = Literal["up-out", "up-in", "down-out", "down-in"]

_TYPE = choice("call", "put")
_TYPE_DOC = "call or put"
_STRIKE = number(0.0)
_STRIKE_DOC = "strike"
_MONITORING_DOC = "when the path is watched"


@dataclass(frozen=True, slots=True)
class Product:
    """Base of all products. ``assets`` is how many there may be: least and most."""

    assets: ClassVar[tuple[int, int]] = (1, 1)


# ---- one asset, its value at expiry


@dataclass(frozen=True, slots=True)
class European(Product):
    """A call or put at expiry."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]


@dataclass(frozen=True, slots=True)
class Digital(Product):
    """At expiry pays ``payout`` in cash, or ``payout`` units of the asset, if the option is in the money."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]
    pays: Annotated[Literal["cash", "asset"], Part(choice("cash", "asset"), "what is paid")] = "cash"
    payout: Annotated[float, Part(number(0.0), "amount of cash, or units of the asset")] = 1.0


@dataclass(frozen=True, slots=True)
class Gap(Product):
    """Pays S - K (call; put: K - S) if S > trigger (put: S < trigger). It may pay less than nothing."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, "the strike that is paid against", "K")]
    trigger: Annotated[float, Part(_STRIKE, "the level that decides whether it pays")]


@dataclass(frozen=True, slots=True)
class Quanto(Product):
    """A foreign option paid at the fixed rate ``fx``. The market's r is domestic, its q the asset's yield."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, "strike in foreign currency", "K")]
    foreign_rate: Annotated[
        float, Part(number(-1.0, 1.0), "the foreign currency's continuous rate", "r_foreign")
    ]
    fx_vol: Annotated[float, Part(number(0.0), "volatility of the exchange rate", "vol_fx")]
    fx_correlation: Annotated[
        float, Part(number(-1.0, 1.0), "correlation of asset and exchange rate", "rho_fx")
    ]
    fx: Annotated[float, Part(number(0.0), "domestic units for one foreign unit")] = 1.0


# ---- one asset, its path


@dataclass(frozen=True, slots=True)
class Touch(Product):
    """Pays ``payout`` if the level was touched (one), or was not (no; at expiry)."""

    level: Annotated[float, Part(_STRIKE, "the level")]
    direction: Annotated[
        Literal["up", "down"], Part(choice("up", "down"), "the side on which the level lies")
    ]
    payout: Annotated[float, Part(number(0.0), "amount paid")]
    monitoring: Annotated[Monitoring, Part(monitoring, _MONITORING_DOC)]
    touch: Annotated[Literal["one", "no"], Part(choice("one", "no"), "one-touch or no-touch")] = "one"
    timing: Annotated[Literal["hit", "expiry"], Part(choice("hit", "expiry"), "when a one-touch pays")] = (
        "hit"
    )


@dataclass(frozen=True, slots=True)
class Asian(Product):
    """A call or put on an average; with a floating strike on S - average (put: average - S)."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    averaging: Annotated[Averaging, Part(averaging, "the average")]
    strike: Annotated[
        float | None, Part(optional(_STRIKE), "strike; null: the average is the strike", "K")
    ] = None


@dataclass(frozen=True, slots=True)
class BarrierLevel:
    """One level of a barrier option: touched at S >= level (up) or S <= level (down)."""

    level: Annotated[float, Part(_STRIKE, "the level")]
    type: Annotated[
        BarrierType,
        Part(choice("up-out", "up-in", "down-out", "down-in"), "side and effect"),
    ]
    rebate: Annotated[float, Part(number(0.0), "paid if the option is lost")] = 0.0
    rebate_timing: Annotated[
        Literal["hit", "expiry"],
        Part(choice("hit", "expiry"), "when an out option pays its rebate; an in option does so at expiry"),
    ] = "hit"

    @property
    def is_up(self) -> bool:
        return self.type.startswith("up")

    @property
    def is_out(self) -> bool:
        return self.type.endswith("out")

    def turned(self) -> BarrierLevel:
        """The barrier with the other effect: out becomes in, in becomes out."""
        return replace(self, type=_TURNED[self.type])


_TURNED: dict[BarrierType, BarrierType] = {
    "up-out": "up-in",
    "up-in": "up-out",
    "down-out": "down-in",
    "down-in": "down-out",
}


@dataclass(frozen=True, slots=True)
class Barrier(Product):
    """A call or put that is lost (out) or comes to life (in) when the level is touched."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]
    barrier: Annotated[BarrierLevel, Part(nested(BarrierLevel), "the barrier")]
    monitoring: Annotated[Monitoring, Part(monitoring, _MONITORING_DOC)]


@dataclass(frozen=True, slots=True)
class Corridor:
    """The two levels of a double barrier."""

    lower: Annotated[float, Part(_STRIKE, "touched at S <= lower")]
    upper: Annotated[float, Part(number(above=0.0), "touched at S >= upper")]
    type: Annotated[Literal["out", "in"], Part(choice("out", "in"), "the effect of touching either")] = "out"
    rebate: Annotated[float, Part(number(0.0), "paid if the option is lost")] = 0.0
    rebate_timing: Annotated[
        Literal["hit", "expiry"], Part(choice("hit", "expiry"), "when an out option pays its rebate")
    ] = "hit"

    @property
    def is_out(self) -> bool:
        return self.type == "out"


@dataclass(frozen=True, slots=True)
class DoubleBarrier(Product):
    """A call or put that is lost or comes to life when either of two levels is touched."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]
    barrier: Annotated[Corridor, Part(nested(Corridor), "the two levels")]
    monitoring: Annotated[Monitoring, Part(monitoring, _MONITORING_DOC)]


@dataclass(frozen=True, slots=True)
class Lookback(Product):
    """A call on the maximum or put on the minimum; with a floating strike S - minimum (put: maximum - S).

    ``extreme`` is the maximum or minimum so far. Null stands for today's spot where monitoring includes it
    (continuous, or include_t0), else for none.
    """

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    monitoring: Annotated[Monitoring, Part(monitoring, _MONITORING_DOC)]
    strike: Annotated[
        float | None, Part(optional(_STRIKE), "strike; null: the extreme is the strike", "K")
    ] = None
    extreme: Annotated[float | None, Part(optional(number(0.0)), "the extreme so far")] = None

    @property
    def of_maximum(self) -> bool:
        """Whether the extreme is the maximum: fixed calls and floating puts."""
        return (self.type == "call") == (self.strike is not None)


@dataclass(frozen=True, slots=True)
class ForwardStart(Product):
    """A call or put whose strike is ``alpha`` times the spot at ``start``."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    alpha: Annotated[float, Part(_STRIKE, "strike as a multiple of the spot at the start")]
    start: Annotated[float, Part(number(0.0), "when the strike is set, in years", "t_start")]


@dataclass(frozen=True, slots=True)
class Cliquet(Product):
    """notional max(global_floor, min(global_cap, sum_i max(floor, min(cap, S_i / S_{i-1} - 1)))) at expiry.

    S_0 is today's spot, S_i that at the i-th time. A null bound is none.
    """

    resets: Annotated[Schedule, Part(schedule, "ends of the periods")]
    notional: Annotated[float, Part(number(0.0), "notional")] = 1.0
    floor: Annotated[float | None, Part(optional(number()), "least return of a period")] = 0.0
    cap: Annotated[float | None, Part(optional(number()), "largest return of a period")] = None
    global_floor: Annotated[float | None, Part(optional(number()), "least sum")] = None
    global_cap: Annotated[float | None, Part(optional(number()), "largest sum")] = None


@dataclass(frozen=True, slots=True)
class Chooser(Product):
    """At ``choice`` the holder chooses between a call and a put with the same strike and expiry."""

    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]
    choice: Annotated[float, Part(number(0.0), "when the choice is made, in years", "t_choose")]


@dataclass(frozen=True, slots=True)
class Compound(Product):
    """An option (mother), exercised at ``start``, on an option (daughter) that ends at T."""

    mother: Annotated[OptionType, Part(_TYPE, "type of the option on the option")]
    daughter: Annotated[OptionType, Part(_TYPE, "type of the option below")]
    mother_strike: Annotated[float, Part(_STRIKE, "what the daughter costs", "K_mother")]
    daughter_strike: Annotated[float, Part(_STRIKE, "strike of the daughter", "K_daughter")]
    start: Annotated[float, Part(number(0.0), "expiry of the mother, in years", "t_mother")]


@dataclass(frozen=True, slots=True)
class Autocallable(Product):
    """Ends at the first time t_i with S >= call_level, paying notional (1 + i coupon).

    If it never does, T pays notional where S_T >= protection, else notional S_T / reference.
    """

    observations: Annotated[Schedule, Part(schedule, "observation times")]
    call_level: Annotated[float, Part(number(above=0.0), "level at which it is called")]
    coupon: Annotated[float, Part(number(0.0), "coupon of each period, as a part of the notional")]
    protection: Annotated[float, Part(number(0.0), "level below which capital is at risk")]
    reference: Annotated[float, Part(number(above=0.0), "the spot when it was issued")]
    notional: Annotated[float, Part(number(0.0), "notional")] = 1.0


@dataclass(frozen=True, slots=True)
class VarianceSwap(Product):
    """notional (variance - K) at expiry: continuous, or the sum of squared log returns over T."""

    monitoring: Annotated[Monitoring, Part(monitoring, "when the variance is measured")]
    strike: Annotated[float, Part(_STRIKE, "strike, as a variance", "K")] = 0.0
    notional: Annotated[float, Part(number(0.0), "per unit of variance")] = 1.0


@dataclass(frozen=True, slots=True)
class Custom(Product):
    """An expression over the path, paid at expiry: ``max(mean(S) - K, 0) * (max(S) < B)``."""

    assets: ClassVar[tuple[int, int]] = (1, 64)

    payoff: Annotated[str, Part(text(4096), "the expression")]
    monitoring: Annotated[Monitoring, Part(monitoring, "the times at which S has values")]
    constants: Annotated[Constants, Part(named_numbers(32), "numbers by name")] = NO_CONSTANTS


# ---- early exercise


@dataclass(frozen=True, slots=True)
class American(Product):
    """A call or put that may be exercised at any time up to T."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]


@dataclass(frozen=True, slots=True)
class Bermudan(Product):
    """A call or put that may be exercised at given times."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]
    exercise: Annotated[Schedule, Part(schedule, "when it may be exercised")]


@dataclass(frozen=True, slots=True)
class MaxCall(Product):
    """A Bermudan call on the largest of several assets."""

    assets: ClassVar[tuple[int, int]] = (2, 64)

    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]
    exercise: Annotated[Schedule, Part(schedule, "when it may be exercised")]


# ---- several assets, their values at expiry


@dataclass(frozen=True, slots=True)
class Basket(Product):
    """A call or put on a weighted mean. Null weights are 1/n; those of a geometric mean sum to 1."""

    assets: ClassVar[tuple[int, int]] = (1, 64)

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]
    weights: Annotated[tuple[float, ...] | None, Part(optional(listing(number(), 1)), "weights")] = None
    mean: Annotated[
        Literal["arithmetic", "geometric"], Part(choice("arithmetic", "geometric"), "the mean")
    ] = "arithmetic"


@dataclass(frozen=True, slots=True)
class Spread(Product):
    """A call or put on S1 - S2."""

    assets: ClassVar[tuple[int, int]] = (2, 2)

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(number(), "strike; it may be negative", "K")]


@dataclass(frozen=True, slots=True)
class Exchange(Product):
    """max(S1 - S2, 0) at expiry."""

    assets: ClassVar[tuple[int, int]] = (2, 2)


@dataclass(frozen=True, slots=True)
class BestOf(Product):
    """A call or put on the largest of several assets."""

    assets: ClassVar[tuple[int, int]] = (2, 64)

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]


@dataclass(frozen=True, slots=True)
class WorstOf(Product):
    """A call or put on the smallest of several assets."""

    assets: ClassVar[tuple[int, int]] = (2, 64)

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(_STRIKE, _STRIKE_DOC, "K")]


# ---- the other way round


@dataclass(frozen=True, slots=True)
class ImpliedVol(Product):
    """The volatility at which the model gives ``price`` (discounted) for a European or digital option."""

    type: Annotated[OptionType, Part(_TYPE, _TYPE_DOC)]
    strike: Annotated[float, Part(number(), _STRIKE_DOC, "K")]
    price: Annotated[float, Part(number(), "the option's price")]
    formula: Annotated[
        Literal["black", "bachelier"], Part(choice("black", "bachelier"), "lognormal or normal volatility")
    ] = "black"
    option: Annotated[Literal["european", "digital"], Part(choice("european", "digital"), "the option")] = (
        "european"
    )
    payout: Annotated[float, Part(number(above=0.0), "cash paid by a digital")] = 1.0


PRODUCTS: dict[str, type[Product]] = {
    "european": European,
    "digital": Digital,
    "gap": Gap,
    "quanto": Quanto,
    "touch": Touch,
    "asian": Asian,
    "barrier": Barrier,
    "double_barrier": DoubleBarrier,
    "lookback": Lookback,
    "forward_start": ForwardStart,
    "cliquet": Cliquet,
    "chooser": Chooser,
    "compound": Compound,
    "autocallable": Autocallable,
    "variance_swap": VarianceSwap,
    "custom": Custom,
    "american": American,
    "bermudan": Bermudan,
    "max_call": MaxCall,
    "basket": Basket,
    "spread": Spread,
    "exchange": Exchange,
    "best_of": BestOf,
    "worst_of": WorstOf,
    "implied_vol": ImpliedVol,
}
NAMES: dict[type[Product], str] = {product: name for name, product in PRODUCTS.items()}
