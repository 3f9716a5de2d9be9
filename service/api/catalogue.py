"""What specs refer to, as one caller sees it: uploaded texts and models."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from engine.models.config import read_config
from service.api.backend import Backend, answer
from service.api.keys import Principal
from service.errors import NotFoundError
from service.ids import is_id
from service.jobs.records import Json, checkpoints, key
from service.specs import ModelFacts, TextFacts
from service.specs.train import NAMED

JOB_STEP = re.compile(r"(job_[0-9a-z]+)(?:@(\d{1,12}))?")


@dataclass(frozen=True)
class RedisCatalogue:
    """Looks names up in Redis."""

    backend: Backend
    principal: Principal

    async def file_record(self, file_id: str) -> dict[str, Json] | None:
        """The record of an uploaded file."""
        return await self._record(key("file", file_id)) if is_id(file_id, "file") else None

    async def model_record(self, name: str) -> dict[str, Json] | None:
        """The record of a model by id or alias."""
        if is_id(name, "model"):
            return await self._record(key("model", name))
        model_id = await answer(self.backend.redis.hget(key("aliases", self.principal.sees), name))
        return await self._record(key("model", model_id.decode())) if model_id else None

    async def _record(self, where: str) -> dict[str, Json] | None:
        content = await self.backend.redis.get(where)
        record: dict[str, Any] | None = json.loads(content) if content else None
        return record if record and self.principal.may_see(record.get("owner", "local")) else None

    async def file(self, file_id: str) -> TextFacts | None:
        """An uploaded text."""
        record = await self.file_record(file_id)
        return TextFacts(record["blob"], record["characters"], record["alphabet"]) if record else None

    async def model(self, name: str) -> ModelFacts | None:
        """A model by its id, its alias, ``job`` or ``job@step``."""
        if (form := JOB_STEP.fullmatch(name)) is not None:
            return await self._checkpoint(form[1], form[2])
        record = await self.model_record(name)
        if record is None:
            return None
        parameters = read_config(record["config"]).parameter_count()
        return ModelFacts(record["id"], record["weights"], parameters, record.get("alphabet"))

    async def _checkpoint(self, job_id: str, step: str | None) -> ModelFacts | None:
        try:
            job = await self.backend.job(job_id, self.principal)
        except NotFoundError:
            return None
        manifests = checkpoints(await answer(self.backend.redis.hgetall(key("job", job_id, "checkpoints"))))
        chosen = [each for each in manifests if step is None or each["step"] == int(step)]
        if not chosen or "parameters" not in job.estimate:
            return None
        newest = chosen[-1]
        alphabet = await self._alphabet(job.spec.get("corpus", {}))
        name = f"{job_id}@{newest['step']}"
        return ModelFacts(name, newest["weights"], job.estimate["parameters"], alphabet)

    async def _alphabet(self, corpus: dict[str, str]) -> str | None:
        """The characters of a job's corpus; None for a text that only the store has."""
        facts = NAMED.get(corpus.get("name", "")) or await self.file(corpus.get("file", ""))
        return facts.alphabet if facts else None
