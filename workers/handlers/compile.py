"""Compiles programs stage by stage, says what each stage made of them, verifies them, and times them.

What is said are ``report`` events ``{"program", "stage", …}``: one a stage, and one for each row of timings.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

from engine.compiler.interpret import interpret
from engine.compiler.plan import Plan
from engine.compiler.profile import difference
from engine.compiler.report import reports
from engine.compiler.steps import SingleStep
from engine.core.node import Node
from engine.core.opdef import OPS
from engine.core.region import primitives
from engine.core.walk import post_order
from engine.devices.array import Array
from engine.devices.cpu.device import CpuDevice
from engine.devices.device import use_device
from engine.devices.reference import OTHER_BITS, ReferenceDevice
from engine.errors import EngineError
from engine.graph_json import write_graph
from engine.record import describe_nodes
from service.blobs import BlobStore
from workers.attempt import Attempt
from workers.compiling.ladder import rungs
from workers.compiling.measure import measure
from workers.compiling.peers import LIBRARIES, Peer, PeerError, doubles, open_peer
from workers.compiling.programs import Program, programs, values_of
from workers.failures import JobError
from workers.handlers import Outcome

TEXT_LIMIT = 60_000  # characters of a text in an event; the artifact has all of it


class UnverifiedError(JobError):
    """A plan's results are not those of one node a kernel, or not those of the reference device."""

    code = "unverified"


class UnusableProgramError(JobError):
    """A program that can't run: an index out of range, no compiler."""

    code = "unusable-program"


def run(attempt: Attempt, store: BlobStore) -> Outcome:
    """Every program of the spec, one after another."""
    spec = attempt.job.spec
    try:
        device = CpuDevice(spec["threads"])
        all_programs = programs(spec)
        done = []
        with use_device(device):
            for number, program in enumerate(all_programs):
                attempt.progress(number, len(all_programs))
                done.append(Compilation(attempt, store, device, program).go())
        attempt.progress(len(all_programs), len(all_programs))
    except EngineError as error:
        raise UnusableProgramError(str(error)) from error
    artifacts = [each for program in done for each in program.pop("artifacts")]
    result = {
        "verified": True,
        "programs": done,
        "compiler": device.toolchain.version,
        "threads": device.threads,
        "artifacts": artifacts,
    }
    return Outcome(result)


class Compilation:
    """One program's way through the stages."""

    def __init__(self, attempt: Attempt, store: BlobStore, device: CpuDevice, program: Program) -> None:
        self._attempt = attempt
        self._store = store
        self._device = device
        self._program = program
        self._repeats: int = attempt.job.spec["repeats"]
        self._rows: list[dict[str, Any]] = []
        self._artifacts: list[dict[str, Any]] = []

    def go(self) -> dict[str, Any]:
        """All stages; what the job's result says of the program."""
        program = self._program
        self._graph()
        plan = self._fusion()
        self._code(plan)
        self._build(plan)
        with self._stage("values"):
            values = values_of(program, self._attempt.job.spec["seed"])
        self._timing(plan, values, self._verified(plan, values))
        return {
            "program": program.name,
            "nodes": self._nodes,
            "kernels": self._kernels,
            "moved": self._moved,
            "moved_unfused": self._moved_unfused,
            "timings": self._rows,
            "artifacts": self._artifacts,
        }

    # ---- stages

    def _graph(self) -> None:
        graph = self._program.graph
        with self._stage("graph"):
            text = describe_nodes(self._program.nodes, graph.inputs)
            leaves = set(graph.inputs.values())
            order = [node for node in post_order(self._program.nodes) if node not in leaves]
            self._nodes = len(order)
            self._moved_unfused = sum(
                _nbytes(node) + sum(map(_nbytes, node.inputs)) for node in order if _is_computed(node)
            )
        self._say("graph", nodes=self._nodes, targets=list(graph.targets), text=text)
        self._keep("graph.txt", "text/plain", text)
        self._keep("graph.json", "application/json", json.dumps(write_graph(graph), allow_nan=False))

    def _fusion(self) -> Plan:
        """Merges, simplifies, fuses, lowers and prints."""
        graph = self._program.graph
        with self._stage("fusion"):
            plan = Plan(list(graph.inputs.values()), self._program.nodes, self._device, names=graph.inputs)
            names, blueprint = plan.node_names(), plan.blueprint
            kernels = [
                {
                    "kernel": step.node.op if isinstance(step, SingleStep) else step.name,
                    "level": step.level,
                    "nodes": [
                        names.equation(node, blueprint.operands.get(node, ()), _sizes(node))
                        for node in step.nodes
                    ],
                }
                for step in blueprint.steps
            ]
            refusals = [
                f"{names(own.producer)} {own.producer.op} and {names(own.consumer)} {own.consumer.op}: "
                f"{own.reason}"
                for own in blueprint.refusals
            ]
        self._kernels = len(kernels)
        self._say("fusion", kernels=kernels, refusals=list(dict.fromkeys(refusals)))
        return plan

    def _code(self, plan: Plan) -> None:
        source = plan.source()
        self._say("code", lines=source.count("\n"), text=source)
        self._keep("source.c", "text/x-c", source)

    def _build(self, plan: Plan) -> None:
        kernels = self._device.native.kernels
        before, start = kernels.built, time.perf_counter()
        with self._stage("build"):
            binding = plan.bind({})
        seconds, built = time.perf_counter() - start, kernels.built - before
        text = plan.describe()
        self._moved = sum(step.moved for step in reports(binding, plan.node_names()) if step.wave is not None)
        self._say(
            "build",
            seconds=round(seconds, 4),
            built=built,
            cached=built == 0,
            compiler=self._device.toolchain.version,
            moved=self._moved,
            moved_unfused=self._moved_unfused,
            arena=binding.arena_bytes,
            text=text,
        )
        self._keep("plan.txt", "text/plain", text)

    def _verified(self, plan: Plan, values: dict[str, Array]) -> list[Array]:
        """The plan's results. Raises UnverifiedError where they are not those of one node a kernel."""
        with self._stage("verify"):
            verdict = plan.verify(values)
            results = plan.run(values)
        self._say("verify", verified=verdict.same, text=str(verdict))
        if not verdict:
            raise UnverifiedError(str(verdict))
        return results

    def _timing(self, plan: Plan, values: dict[str, Array], results: list[Array]) -> None:
        """Each variant by itself; nothing is timed that was not compared with the plan's results first."""
        device, attempt = self._device, self._attempt
        nodes, inputs = self._program.nodes, self._program.graph.inputs
        fed = {node: values[name] for name, node in inputs.items()}
        threads = sorted({1, device.threads})
        with self._stage("timing"):
            for count in threads:
                with self._threads(count):
                    self._time(
                        "without fusion",
                        count,
                        lambda: interpret(nodes, fed, device, {}),
                        self._moved_unfused,
                    )
            for count in threads:
                with self._threads(count):
                    self._time("fused", count, lambda: plan.run(values), self._moved)
            if "reference" in attempt.job.spec["devices"]:
                self._reference(fed, results)
            if self._program.ladder:
                self._climb(values, results[0])
            if attempt.job.spec["peers"] and self._program.expression is not None:
                for library in LIBRARIES:
                    self._peer(library, values, results)
        with self._stage("profile"):
            profile = plan.profile(values)
        kernels = [
            {
                "kernel": timing.report.kernel,
                "kind": timing.report.kind,
                "seconds": timing.seconds,
                "bound": timing.bound,
                "moved": timing.report.moved,
                "flops": timing.report.flops,
            }
            for timing in profile.timings
        ]
        self._say("profile", kernels=kernels, bandwidth=profile.limits.bandwidth, flops=profile.limits.flops)
        self._keep("trace.json", "application/json", profile.trace_events())

    def _reference(self, fed: dict[Node, Array], results: list[Array]) -> None:
        """One run of the reference device. Raises UnverifiedError where it has other bits, but may not."""
        nodes = self._program.nodes
        start = time.perf_counter()
        theirs = interpret(nodes, fed, ReferenceDevice(), {})
        seconds = round(time.perf_counter() - start, 9)
        found = [difference(*each) for each in zip(nodes, theirs, results, strict=True)]
        if any(found) and not OTHER_BITS & set(primitives(nodes)):
            raise UnverifiedError("The reference device has other bits: " + "; ".join(filter(None, found)))
        worst = max([_distance(*each) for each in zip(theirs, results, strict=True)])
        self._row(
            {
                "variant": "reference",
                "threads": 1,
                "seconds": seconds,
                "median": seconds,
                "runs": 1,
                "difference": worst,
            }
        )

    def _climb(self, values: dict[str, Array], result: Array) -> None:
        """The rungs of a product in plain C; each has the bits of the plan."""
        a, b = values.values()
        for name, (out, call) in rungs(self._device, a, b).items():
            with self._attempt.patience():
                call()
            if out.tobytes() != result.tobytes():
                raise UnverifiedError(f"The product {name!r} differs from the plan's.")
            self._time(f"C: {name}", 1, call)

    def _peer(self, library: str, values: dict[str, Array], results: list[Array]) -> None:
        expression = self._program.expression
        assert expression is not None
        try:
            with self._attempt.patience():
                peer = open_peer(library, expression, values, self._program.gradients, self._device.threads)
                difference = _difference(peer, peer.run(), results)
        except PeerError as error:
            self._row({"variant": library, "skipped": str(error)})
        except Exception as error:  # whatever another library finds wrong with it, our own part is done
            self._row({"variant": library, "skipped": f"refused: {type(error).__name__}: {error}"[:300]})
        else:
            self._time(peer.name, peer.threads, peer.run, difference=difference)

    # ---- how it is said

    def _time(
        self, variant: str, threads: int | None, call: Callable[[], Any], moved: int = 0, **more: Any
    ) -> None:
        with self._attempt.patience():
            measured = measure(call, self._repeats, self._attempt.check)
        row = {
            "variant": variant,
            "threads": threads,
            "seconds": round(measured.seconds, 9),
            "median": round(measured.median, 9),
            "runs": measured.runs,
            **more,
        }
        if moved:
            row["moved"] = moved
        self._row(row)

    def _row(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self._say("timing", **row)

    def _say(self, stage: str, **facts: Any) -> None:
        text = facts.get("text", "")
        if len(text) > TEXT_LIMIT:
            facts |= {"text": text[:TEXT_LIMIT], "cut": len(text)}
        self._attempt.emit("report", {"program": self._program.name, "stage": stage, **facts})

    def _keep(self, name: str, media: str, content: str) -> None:
        """Stores an artifact."""
        prefix = f"{self._program.name.replace(' ', '-')}-" if self._program.name else ""
        raw = content.encode()
        blob = self._store.put(raw)
        self._artifacts.append({"name": prefix + name, "type": media, "bytes": len(raw), "blob": blob})

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self._attempt.check()
        full = f"{self._program.name}: {name}" if self._program.name else name
        with self._attempt.stage(full):
            yield

    @contextmanager
    def _threads(self, count: int) -> Iterator[None]:
        """Inside, kernels run on so many threads."""
        self._device.native.set_threads(count)
        try:
            yield
        finally:
            self._device.native.set_threads(self._device.threads)


def _sizes(node: Any) -> tuple[int, ...]:
    return tuple(node.shape)


def _nbytes(node: Any) -> int:
    """Bytes of a value as it lies in memory; a constant stays in a register."""
    while node.op == "broadcast":
        node = node.inputs[0]
    if node.op == "constant":
        return 0
    elements = 1
    for size in node.shape:
        elements *= size
    return int(elements) * int(node.dtype.size)


def _is_computed(node: Any) -> bool:
    """Whether the interpreter writes a value: movement gives views."""
    return OPS[node.op].kind in ("elementwise", "reduce", "dot", "index") or node.op in (
        "pad",
        "concat",
        "iota",
    )


def _distance(theirs: Array, ours: Array) -> float:
    """The largest |ours - theirs|, as a share of the largest |theirs| above 1, where both are finite."""
    pairs = [(a, b) for a, b in zip(theirs.flat(), ours.flat(), strict=True) if isfinite(a) and isfinite(b)]
    apart = max([abs(a - b) for a, b in pairs], default=0.0)
    return float(apart / max([1.0, *[abs(a) for a, _ in pairs]]))


def _difference(peer: Peer, theirs: list[Any], ours: list[Array]) -> float | None:
    """The largest |ours - theirs|, as a share of the largest |theirs| above 1; None for other shapes."""
    import numpy as np

    worst = 0.0
    for own, other in zip(ours, theirs, strict=True):
        if other is None:
            continue
        a, b = doubles(np, own), peer.to_doubles(other)
        if a.shape != b.shape:
            return None
        both = np.isfinite(a) & np.isfinite(b)
        if both.any():
            worst = max(worst, float(np.max(np.abs(a - b)[both]) / max(1.0, np.max(np.abs(b)[both]))))
    return worst
