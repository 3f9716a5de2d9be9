"""Quotas as answers tell them: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers)."""

from __future__ import annotations

from collections.abc import Mapping

from service.jobs.calls import Limits

UNITS = {"queued": "jobs", "running": "jobs", "bytes": "content-bytes"}
LARGEST = 10**15 - 1  # number of a structured field


def quota_headers(limits: Limits, usage: Mapping[str, int]) -> dict[str, str]:
    """How much there is of each quota whose usage is given, and what is left; nothing without a bound."""
    bounds = {name: most for name in usage if (most := getattr(limits, name)) > 0}
    if not bounds:
        return {}
    policies = [f'"{name}";q={min(most, LARGEST)};qu="{UNITS[name]}"' for name, most in bounds.items()]
    left = {name: max(0, most - usage[name]) for name, most in bounds.items()}
    states = [f'"{name}";r={min(number, LARGEST)}' for name, number in left.items()]
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(states)}
