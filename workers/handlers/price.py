"""Prices contracts, and says after each group of paths what is known so far.

What is said are ``report`` events: ``{"contract", "n", "price", "se"}`` while a contract is simulated, and
``{"contract", "answer"}`` when it is priced.
"""

from __future__ import annotations

from typing import Any

from engine.pricing.answer import answer_of
from engine.pricing.montecarlo.charts import charts_of
from engine.pricing.pricer import price
from engine.pricing.result import Estimate, ImpliedVolResult
from engine.pricing.spec import SpecError, read_spec
from service.blobs import BlobStore
from workers.attempt import Attempt
from workers.failures import InvalidContractError
from workers.handlers import Outcome


def run(attempt: Attempt, store: BlobStore) -> Outcome:
    """One answer for each contract, in their order; a contract that has none says why."""
    job = attempt.job.spec
    contracts = job["contracts"] or [job["contract"]]
    answers = []
    for number, contract in enumerate(contracts):
        attempt.check()
        if len(contracts) > 1:
            attempt.progress(number, len(contracts))
        answer = _answer(attempt, number, contract, job["charts"], many=len(contracts) > 1)
        answers.append(answer)
        if len(contracts) > 1:
            attempt.emit("report", {"contract": number, "answer": _summary(answer)})
    return Outcome({"answers": answers})


def _answer(
    attempt: Attempt, number: int, contract: dict[str, Any], charts: bool, *, many: bool
) -> dict[str, Any]:
    def said(estimate: Estimate) -> None:
        attempt.check()
        running = {"contract": number, "n": estimate.n, "price": estimate.price, "se": estimate.se}
        attempt.emit("report", running)

    try:
        spec = read_spec(contract)
        with attempt.patience():
            found = price(spec, said)
        answer = answer_of(found)
        if charts and not many and _is_simulated(found):
            answer["charts"] = charts_of(spec)
        return answer
    except SpecError as error:
        if many:
            return {"kind": "error", "param": error.path, "message": str(error)}
        raise InvalidContractError(str(error)) from error


def _is_simulated(found: Any) -> bool:
    return not isinstance(found, ImpliedVolResult) and found.n_paths > 0


def _summary(answer: dict[str, Any]) -> dict[str, Any]:
    """What a list of contracts shows of each."""
    return {name: answer[name] for name in ("kind", "price", "se", "value", "message") if name in answer}
