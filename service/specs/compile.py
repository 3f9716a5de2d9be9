"""The spec of a compile job, and what it costs: told from shapes alone, before anything is there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from engine.core.dtype import by_name
from engine.core.work import Work, work_of
from engine.expression import ExpressionError, parse
from engine.expression.presets import PRESETS
from engine.expression.tensors import FUNCTIONS, Kind, price
from engine.graph_fields import GraphFormatError
from engine.graph_json import read_graph
from service.errors import invalid_field
from service.jobs.lanes import BATCH
from service.specs.base import Catalogue, Prepared, Strict
from service.specs.limits import FLOPS_PER_S, Cap, check_caps

Dtype = Literal["float32", "float64", "bfloat16", "int32", "int64", "uint32", "bool"]
InputName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,31}$")]
Size = Annotated[int, Field(ge=0, le=2**31)]

EXAMPLE = {
    "expression": "relu(a + b) * a",
    "inputs": {"a": {"shape": [256, 256]}, "b": {"shape": [256]}},
}
CAPS = {
    "memory_bytes": Cap(2 * 2**30, "bytes of memory", "make the inputs smaller, or loops shorter"),
    "flops": Cap(1e12, "operations an evaluation", "make the inputs smaller, or loops shorter"),
}
BUILD_S = 3.0  # of a plan and of the single kernels
BYTES_PER_S = 4e9  # of values written and read once, on one core
VARIANTS = 6  # that are timed: two interpreters, two plans, NumPy, torch
REFERENCE_OPS_PER_S = 3e6  # of the reference device
REFERENCE_CAP = Cap(
    1e8, "operations of the reference device", "make the inputs smaller, or leave reference out of devices"
)
TIMED_S = 2.0  # of one variant's repeats; the first run may take longer


class Input(Strict):
    """A tensor that the expression reads; its values are drawn from the job's seed."""

    shape: list[Size] = Field(max_length=8, description="sizes of its axes")
    dtype: Dtype = Field("float32", description="type of its elements")
    below: int = Field(2, ge=1, le=2**31 - 1, description="integers are drawn from 0 up to below this")


class Compile(Strict):
    """Compiles an expression, a graph, or a table of benchmarks, and times it."""

    expression: str | None = Field(
        None, max_length=10_000, description="such as relu(a + b) * c, in the language of docs/compiler.md"
    )
    inputs: dict[InputName, Input] = Field(
        {}, max_length=32, description="what the expression reads, by name"
    )
    graph: dict[str, Any] | None = Field(None, description="a graph as JSON instead of an expression")
    preset: Literal["forge"] | None = Field(
        None, description="a table of benchmarks instead of an expression"
    )
    gradients: bool = Field(False, description="whether the gradients of all float inputs are asked for too")
    devices: list[Literal["cpu", "reference"]] = Field(
        ["cpu"],
        max_length=2,
        description="what computes it: cpu, which it is compiled for, and beside it maybe reference, pure "
        "Python that shares no kernel with it",
    )
    threads: int | None = Field(None, ge=1, le=256, description="threads of the parallel runs; else all")
    repeats: int = Field(20, ge=1, le=1000, description="timed runs of each variant, within two seconds")
    seed: int = Field(0, ge=0, le=2**53, description="start of the inputs' values")
    peers: bool = Field(True, description="whether NumPy and torch are timed beside it where installed")

    @model_validator(mode="after")
    def _exactly_one(self) -> Compile:
        given = [name for name in ("expression", "graph", "preset") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"exactly one of expression, graph and preset must be given, not {len(given)}")
        return self

    @field_validator("devices")
    @classmethod
    def _distinct(cls, devices: list[str]) -> list[str]:
        if "cpu" not in devices or len(set(devices)) < len(devices):
            raise ValueError("must have cpu, which programs are compiled for, and each device once")
        return devices


async def prepare(spec: Compile, catalogue: Catalogue) -> Prepared:
    """Reads the program and prices the job. InvalidFieldsError where it can't run."""
    if spec.expression is None and spec.inputs:
        raise invalid_field("spec.inputs", sorted(spec.inputs), "is for expressions; a graph has its own")
    works = _works(spec)
    seconds = sum(BUILD_S + VARIANTS * (TIMED_S + 2 * _once(work)) for work in works)
    estimate: dict[str, int | float] = {
        "flops": max(work.flops for work in works),
        "memory_bytes": max(work.nbytes for work in works),
    }
    check_caps(estimate, CAPS)
    if "reference" in spec.devices:
        check_caps(estimate, {"flops": REFERENCE_CAP})
        seconds += sum(work.flops / REFERENCE_OPS_PER_S for work in works)
    estimate["seconds"] = round(seconds, 3)
    return Prepared(spec.model_dump(), estimate, BATCH)


def _once(work: Work) -> float:
    """About how many seconds one evaluation takes on one core."""
    return work.flops / FLOPS_PER_S + work.nbytes / BYTES_PER_S


def _works(spec: Compile) -> list[Work]:
    if spec.preset is not None:
        return [
            _expression_work(subject.expression, subject.inputs, spec.gradients)
            for subject in PRESETS[spec.preset]
        ]
    if spec.graph is not None:
        return [_graph_work(spec.graph, spec.gradients)]
    kinds = {name: Kind(tuple(own.shape), by_name(own.dtype)) for name, own in spec.inputs.items()}
    return [_expression_work(spec.expression or "", kinds, spec.gradients)]


def _expression_work(text: str, kinds: Mapping[str, Kind], gradients: bool) -> Work:
    for name in kinds:
        if name in FUNCTIONS:
            raise invalid_field(f"spec.inputs.{name}", name, "is the name of a function; choose another")
    try:
        expression = parse(text, kinds, FUNCTIONS)
        found = expression.infer(kinds, FUNCTIONS)
    except ExpressionError as error:
        raise invalid_field("spec.expression", text, str(error)) from error
    unused = [name for name in kinds if name not in expression.names]
    if unused:
        raise invalid_field(f"spec.inputs.{unused[0]}", unused[0], "is not read by the expression")
    if not expression.names:
        raise invalid_field("spec.expression", text, "must read an input")
    result = found[-1]
    if gradients:
        assert isinstance(result, Kind)
        _check_gradients([result], kinds.values())
    return price(expression, found, gradients)


def _graph_work(document: Mapping[str, Any], gradients: bool) -> Work:
    try:
        graph = read_graph(document)
    except GraphFormatError as error:
        path = f"spec.graph.{error.path}" if error.path else "spec.graph"
        raise invalid_field(path, "given", error.rule) from error
    if gradients:
        _check_gradients(_kinds(graph.targets), _kinds(graph.inputs))
        graph = graph.with_gradients()
    return work_of(list(graph.targets.values()))


def _kinds(nodes: Mapping[str, Any]) -> list[Kind]:
    return [Kind(node.shape, node.dtype) for node in nodes.values()]


def _check_gradients(results: Collection[Kind], inputs: Collection[Kind]) -> None:
    for what, kinds in (("result", results), ("input", inputs)):
        if not any(kind.dtype.is_float for kind in kinds):
            raise invalid_field("spec.gradients", True, f"needs a float {what}; cast it, as in float32(x)")
