"""Tensors as safetensors bytes: 8-byte header length, JSON header, elements. Files are read as hostile.

Format: https://huggingface.co/docs/safetensors; stricter in one point: a header may take at most 1 MB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from engine.core.dtype import BY_NAME, DType, bool_
from engine.devices.array import Array
from engine.tensor import Tensor, no_grad, where

HEADER_LIMIT = 1_000_000  # bytes
_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_CODES = {
    "F32": "float32",
    "F64": "float64",
    "BF16": "bfloat16",
    "I32": "int32",
    "I64": "int64",
    "U32": "uint32",
    "BOOL": "bool",
}
_CODE_OF = {name: code for code, name in _CODES.items()}


class FormatError(ValueError):
    """Bytes that are not a well-formed safetensors file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one tensor's elements lie: from ``start`` up to ``stop``, counted from the end of the header."""

    dtype: DType
    shape: tuple[int, ...]
    start: int
    stop: int


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The file of ``tensors``, sorted by name; equal input gives equal bytes (NaNs are made canonical)."""
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    chunks = []
    offset = 0
    for name in sorted(tensors):
        if name == _METADATA:
            raise ValueError(f"a tensor cannot be called {_METADATA}; that name holds the metadata")
        tensor = tensors[name]
        raw = _canonical(tensor).tobytes()
        header[name] = {
            "dtype": _CODE_OF[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(raw)],
        }
        chunks.append(raw)
        offset += len(raw)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    if len(text) > HEADER_LIMIT:
        raise ValueError(f"the header takes {len(text)} bytes; at most {HEADER_LIMIT} can be read back")
    return b"".join([len(text).to_bytes(_LENGTH_BYTES, "little"), text, *chunks])


def load(data: bytes | memoryview) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a file. Raises FormatError naming the rule that the bytes break."""
    entries, metadata, body = read_header(data)
    view = memoryview(data)[body:]
    tensors = {}
    for name, entry in entries.items():
        raw = view[entry.start : entry.stop]
        if entry.dtype is bool_ and any(byte > 1 for byte in raw):
            raise FormatError(f"{name!r} holds a byte that is neither 0 nor 1; BOOL elements must be")
        tensors[name] = Tensor.of_array(Array.from_bytes(raw, entry.shape, entry.dtype))
    return tensors, metadata


def read_header(data: bytes | memoryview) -> tuple[dict[str, Entry], dict[str, str], int]:
    """Entries by name, metadata, and the offset at which the elements begin; checks everything but them."""
    if len(data) < _LENGTH_BYTES:
        raise FormatError(f"the file has {len(data)} bytes; it must begin with an 8-byte header length")
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    if length > HEADER_LIMIT:
        raise FormatError(f"the header length is {length}; it must be at most {HEADER_LIMIT}")
    body = _LENGTH_BYTES + length
    if body > len(data):
        raise FormatError(f"the header length is {length}; only {len(data) - _LENGTH_BYTES} bytes follow it")
    header = _parse(bytes(data[_LENGTH_BYTES:body]))
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError(f"{_METADATA} must map strings to strings")
    entries = {name: _entry(name, item) for name, item in header.items()}
    _check_cover(entries, len(data) - body)
    return entries, metadata, body


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or a number of too many digits
        raise FormatError(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise FormatError("the header must be a JSON object")
    return header


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise FormatError("the header holds a key twice; keys must be unique")
    return result


def _no_constant(text: str) -> None:
    raise FormatError(f"the header holds {text}; it must be plain JSON")


def _entry(name: str, item: Any) -> Entry:
    if not isinstance(item, dict) or item.keys() != {"dtype", "shape", "data_offsets"}:
        raise FormatError(f"{name!r} must have exactly the members dtype, shape and data_offsets")
    code, shape, offsets = item["dtype"], item["shape"], item["data_offsets"]
    if not isinstance(code, str) or code not in _CODES:
        raise FormatError(f"{name!r} has dtype {code!r}; it must be one of {', '.join(_CODES)}")
    if not _are_counts(shape):
        raise FormatError(f"{name!r} has shape {shape!r}; it must be a list of integers of at least 0")
    if not _are_counts(offsets) or len(offsets) != 2:
        raise FormatError(f"{name!r} has data_offsets {offsets!r}; they must be two integers of at least 0")
    dtype = BY_NAME[_CODES[code]]
    size = prod(shape) * dtype.size
    if offsets[1] - offsets[0] != size:
        raise FormatError(f"{name!r} has {offsets[1] - offsets[0]} bytes; {dtype}{shape} takes {size}")
    return Entry(dtype, tuple(shape), offsets[0], offsets[1])


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _check_cover(entries: Mapping[str, Entry], total: int) -> None:
    """The tensors follow one another without gap or overlap, from the header to the end of the file."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda pair: (pair[1].start, pair[1].stop)):
        if entry.start != position:
            what = "overlaps the tensor before it" if entry.start < position else "leaves a gap before it"
            raise FormatError(f"{name!r} starts at {entry.start}, not {position}: it {what}")
        position = entry.stop
    if position != total:
        raise FormatError(f"the tensors take {position} bytes; the file holds {total} after its header")


def _canonical(tensor: Tensor) -> Tensor:
    """The tensor with every NaN in its one standard form."""
    with no_grad():
        value = tensor.detach()
        return where(value.isnan(), float("nan"), value) if value.dtype.is_float else value
