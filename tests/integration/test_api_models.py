"""Models and their aliases: listed, moved, deleted; what was accepted keeps its weights."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from api_rig import Api
from openai import OpenAI

from service.ids import new_id
from service.jobs import calls
from service.jobs.records import key

CONFIG = {"name": "bigram", "vocab_size": 65, "seq_len": 8}


@pytest.fixture(autouse=True)
def empty(api: Api) -> None:
    api.redis.flushall()


def publish(api: Api, alias: str, owner: str = "local") -> str:
    """A finished job's model."""
    api.submit()
    worker = api.worker()
    worker.claim()
    model = new_id("model")
    record = {"id": model, "alias": alias, "job": worker.job, "step": 10, "created": 1, "owner": owner}
    record |= {"weights": api.blobs.put(model.encode()), "config": CONFIG}
    worker.finish(model=calls.Model(model, record, alias))
    return model


def aliases(api: Api, **params: Any) -> dict[str, str]:
    page = api.http.get("/v1/aliases", params=params).json()
    return {each["id"]: each["model"] for each in page["data"]}


def test_an_alias_names_the_newest_until_it_is_moved(api: Api) -> None:
    old, new = publish(api, "bard"), publish(api, "bard")
    assert aliases(api) == {"bard": new}
    moved = api.http.put("/v1/aliases/bard", json={"model": old})
    assert (moved.status_code, moved.json()["model"]) == (200, old)
    assert api.http.get("/v1/models/bard").json()["id"] == old
    assert api.http.put("/v1/aliases/second-name", json={"model": "bard"}).json()["model"] == old
    assert aliases(api, order="asc", limit=1) == {"bard": old}
    assert aliases(api, order="asc", after="bard") == {"second-name": old}
    assert api.http.delete("/v1/aliases/bard").status_code == 204
    assert api.http.get("/v1/models/bard").status_code == 404
    assert api.http.delete("/v1/aliases/bard").json()["code"] == "unknown-alias"
    assert api.http.get(f"/v1/models/{old}").status_code == 200


@pytest.mark.parametrize(
    "alias, body, param",
    [("a", {"model": "nobody"}, "model"), ("a", {}, "model"), ("A b", {"model": "x"}, "alias")],
)
def test_an_alias_must_be_a_name_and_name_a_model(
    api: Api, alias: str, body: dict[str, str], param: str
) -> None:
    answer = api.http.put(f"/v1/aliases/{alias}", json=body)
    assert (answer.status_code, answer.json()["param"]) == (422, param)
    assert aliases(api) == {}


def test_a_deleted_model_takes_its_aliases_along_and_leaves_accepted_jobs_their_weights(api: Api) -> None:
    model, other = publish(api, "bard"), publish(api, "other")
    api.http.put("/v1/aliases/poet", json={"model": model})
    job = api.http.post("/v1/jobs", json={"kind": "sample", "spec": {"model": "poet"}}).json()
    with OpenAI(base_url=f"{api.url}/v1", api_key="none", max_retries=0) as client:
        gone = client.models.delete("poet")
        assert (gone.id, gone.deleted) == (model, True)
        assert [each.id for each in client.models.list()] == [other]
        with pytest.raises(openai.NotFoundError):
            client.models.delete(model)
    assert aliases(api) == {"other": other}
    assert api.blobs.get(job["spec"]["weights"]) == model.encode()


def test_names_of_other_owners_are_out_of_reach(api: Api) -> None:
    model = publish(api, "bard", owner="ann")
    admin = api.http.post("/v1/keys", json={"scopes": ["admin"]}).json()["secret"]
    headers = {"Authorization": f"Bearer {admin}"}
    bob = api.http.post("/v1/keys", json={"owner": "bob"}, headers=headers).json()["secret"]
    with api.client(headers={"Authorization": f"Bearer {bob}"}) as other:
        assert other.put("/v1/aliases/mine", json={"model": model}).status_code == 422
        assert other.delete(f"/v1/models/{model}").status_code == 404
        assert other.delete("/v1/aliases/bard").status_code == 404
        assert other.get("/v1/aliases").json()["data"] == []
    assert json.loads(api.redis.get(key("model", model)) or "")["id"] == model
