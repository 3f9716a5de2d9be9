"""Prices contracts, and says after each group of paths what is known so far.

What is said are ``report`` events: ``{"contract", "n", "price", "se"}`` while a contract is simulated, and
``{"contract", "answer"}`` when it is priced.
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from engine.pricing.answer import answer_of, finite
from engine.pricing.montecarlo.charts import charts_of
from engine.pricing.pricer import price
from engine.pricing.result import Estimate, ImpliedVolResult
from engine.pricing.spec import SpecError, read_spec
from service.blobs import BlobStore
from workers.attempt import Attempt
from workers.failures import InvalidContractError
from workers.handlers import Outcome
from workers.pricing_report import report_of

MANY = ("kind", "price", "se", "value", "message")
ONE = (*MANY, "ci95", "n_paths", "method", "bias", "closed_form", "z", "greeks", "upper", "roots", "warnings")
"""What the last report says of one of many contracts, and of a single one; the result has it all."""


def run(attempt: Attempt, store: BlobStore) -> Outcome:
    """One answer for each contract, in their order; a contract that has none says why."""
    job = attempt.job.spec
    contracts = job["contracts"] or [job["contract"]]
    many = len(contracts) > 1
    answers: list[dict[str, Any]] = []
    for number, contract in enumerate(contracts):
        attempt.check()
        if many:
            attempt.progress(number, len(contracts))
        answer = _answer(attempt, number, contract, job["charts"], many=many)
        answers.append(answer)
        attempt.emit("report", {"contract": number, "answer": _said_of(answer, MANY if many else ONE)})
    return Outcome({"answers": answers, "artifacts": _artifacts(answers, attempt.job.name, store)})


def _artifacts(answers: list[dict[str, Any]], name: str, store: BlobStore) -> list[dict[str, Any]]:
    """The report of a single contract that has charts, as a file."""
    if len(answers) != 1 or "charts" not in answers[0]:
        return []
    (answer,) = answers
    raw = report_of(answer, name or str(answer["spec"]["instrument"])).encode()
    return [{"name": "report.svg", "type": "image/svg+xml", "bytes": len(raw), "blob": store.put(raw)}]


def _answer(
    attempt: Attempt, number: int, contract: dict[str, Any], charts: bool, *, many: bool
) -> dict[str, Any]:
    def said(estimate: Estimate) -> None:
        attempt.check()
        running = {"contract": number, "n": estimate.n, "price": estimate.price, "se": estimate.se}
        attempt.emit("report", finite(running))

    try:
        spec = read_spec(contract)
        with attempt.patience():
            found = price(spec, said)
        answer = answer_of(found)
        if charts and not many and _can_be_drawn(found):
            answer["charts"] = charts_of(spec)
        return answer
    except SpecError as error:
        if many:
            return {"kind": "error", "param": error.path, "message": str(error)}
        raise InvalidContractError(str(error)) from error


def _can_be_drawn(found: Any) -> bool:
    """Whether it is simulated, and its price and error are numbers."""
    return not isinstance(found, ImpliedVolResult) and found.n_paths > 0 and isfinite(found.price + found.se)


def _said_of(answer: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: answer[name] for name in names if name in answer}
