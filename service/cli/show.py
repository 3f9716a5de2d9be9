"""``gradmill show``."""

from __future__ import annotations

import json

import click

from service.cli.connect import find_job, open_client
from service.cli.text import clean, name_of
from service.wire import Job


@click.command("show")
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="The job as the API gives it.")
@click.pass_context
def command(ctx: click.Context, job: str, as_json: bool) -> None:
    """Show JOB (an id, or `latest`) in detail."""
    with open_client(ctx) as client:
        found = client.get(find_job(client, job))
    if as_json:
        click.echo(json.dumps(found, ensure_ascii=False))
        return
    for name, value in facts(found):
        click.echo(f"{name:<12} {value}")


def facts(job: Job) -> list[tuple[str, str]]:
    """What a reader wants to know, in order; empty facts are left out."""
    progress, error = job["progress"], job["error"]
    rows = [
        ("id", job["id"]),
        ("kind", job["kind"]),
        ("name", name_of(job)),
        ("state", job["state"]),
        ("queue", f"place {job['queue_position']}" if job.get("queue_position") else ""),
        ("starts", f"about {job['estimated_start']}" if job.get("estimated_start") else ""),
        ("error", f"{error['code']}: {clean(error['message'])}" if error else ""),
        ("progress", f"step {progress['step']} of {progress['steps']}" if progress else ""),
        ("created", job["created_at"]),
        ("started", job["started_at"] or ""),
        ("ended", job["ended_at"] or ""),
        ("retry of", job.get("retry_of") or ""),
    ]
    for attempt in job["attempts"]:
        end = f"{attempt['outcome']} at {attempt['ended_at']}" if attempt["ended_at"] else "running"
        rows.append((f"attempt {attempt['n']}", f"{clean(attempt['worker'])}, {end}"))
    rows.append(("spec", json.dumps(job["spec"], ensure_ascii=True)))
    result = dict(job["result"] or {})
    for choice in result.pop("choices", ()):  # with probabilities for each character, which --json shows
        rows.append((f"text {choice['index']}", json.dumps(choice["text"], ensure_ascii=False)))
    for artifact in result.pop("artifacts", ()):
        rows.append(("artifact", f"{clean(artifact['name'])}, {artifact['bytes']} bytes"))
    if result:
        rows.append(("result", json.dumps(result, ensure_ascii=True)))
    return [(name, value) for name, value in rows if value]
