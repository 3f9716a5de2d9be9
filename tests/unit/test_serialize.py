"""safetensors: what is written can be read, by others too; what is malformed is refused by its rule."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Tensor, bfloat16, bool_, float32, int64
from engine.core.dtype import ALL, DType
from engine.serialize import HEADER_LIMIT, FormatError, load, read_header, save


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1, 0, 4)])
def test_what_is_saved_is_loaded(dtype: DType, shape: tuple[int, ...]) -> None:
    tensors = {"b": Tensor.ones(shape, dtype=dtype), "a": Tensor.zeros(3, dtype=dtype)}
    loaded, metadata = load(save(tensors, {"note": "é\n"}))
    assert metadata == {"note": "é\n"}
    assert list(loaded) == ["a", "b"]
    for name, tensor in tensors.items():
        assert loaded[name].dtype is dtype
        assert loaded[name].shape == tensor.shape
        assert loaded[name].tolist() == tensor.tolist()


def test_the_layout_is_the_published_one() -> None:
    raw = save({"x": Tensor([[1.0, 2.0]]).T})
    (length,) = struct.unpack("<Q", raw[:8])
    assert length % 8 == 0
    header = json.loads(raw[8 : 8 + length])
    assert header == {"x": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}
    assert struct.unpack("<2f", raw[8 + length :]) == (1.0, 2.0)


def test_equal_values_give_equal_bytes_whatever_the_nan() -> None:
    odd = struct.pack("<2I", 0xFFC12345, 0x3F800000)
    tensor = Tensor(memoryview(odd).cast("B").cast("f"))
    assert save({"x": tensor}) == save({"x": Tensor([math.nan, 1.0])})
    assert save({"a": tensor, "b": Tensor([1])}) == save({"b": Tensor([1]), "a": tensor})


def test_later_changes_do_not_reach_what_was_loaded() -> None:
    raw = bytearray(save({"x": Tensor([1.0])}))
    loaded, _ = load(bytes(raw))
    raw[-1] = 0
    assert loaded["x"].tolist() == [1.0]


def file_of(header: Any, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}


HOSTILE: dict[str, tuple[bytes, str]] = {
    "too short": (b"abc", "8-byte header length"),
    "huge header": ((2**63).to_bytes(8, "little") + b"{}", "must be at most 1000000"),
    "header over the limit": ((HEADER_LIMIT + 1).to_bytes(8, "little"), "at most"),
    "cut header": ((10).to_bytes(8, "little") + b"{}", "only 2 bytes follow"),
    "not JSON": (file_of(b"{"), "not JSON"),
    "not UTF-8": (file_of(b'{"\xff": 1}'), "not JSON"),
    "a number of 5,000 digits": (file_of(b'{"x": ' + b"9" * 5000 + b"}"), "not JSON"),
    "deep JSON": (file_of(b"[" * 200_000), "not JSON"),
    "not an object": (file_of([]), "must be a JSON object"),
    "duplicate key": (file_of(b'{"a": 1, "a": 2}'), "key twice"),
    "duplicate member": (file_of(b'{"a": {"dtype": "F32", "dtype": "F64"}}'), "key twice"),
    "NaN in the header": (file_of(b'{"a": NaN}'), "plain JSON"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "strings to strings"),
    "missing member": (file_of({"a": {"dtype": "F32"}}), "exactly the members"),
    "extra member": (file_of({"a": entry(more=1)}, b"\0" * 4), "exactly the members"),
    "unknown dtype": (file_of({"a": entry(dtype="F8")}, b"\0" * 4), "must be one of F32"),
    "dtype of a wrong type": (file_of({"a": entry(dtype=[])}, b"\0" * 4), "must be one of F32"),
    "negative size": (file_of({"a": entry(shape=[-1])}, b"\0" * 4), "at least 0"),
    "size that is a bool": (file_of({"a": entry(shape=[True])}, b"\0" * 4), "at least 0"),
    "size that is a float": (file_of({"a": entry(shape=[1.0])}, b"\0" * 4), "at least 0"),
    "huge size": (file_of({"a": entry(shape=[2**62, 2**62])}, b"\0" * 4), "takes"),
    "offsets reversed": (file_of({"a": entry(data_offsets=[4, 0])}, b"\0" * 4), "takes 4"),
    "length differs": (file_of({"a": entry(shape=[2])}, b"\0" * 4), "takes 8"),
    "out of bounds": (file_of({"a": entry()}, b"\0" * 3), "the file holds 3"),
    "bytes left over": (file_of({"a": entry()}, b"\0" * 5), "the file holds 5"),
    "overlap": (file_of({"a": entry(), "b": entry(data_offsets=[2, 6])}, b"\0" * 6), "overlaps"),
    "gap": (file_of({"a": entry(), "b": entry(data_offsets=[5, 9])}, b"\0" * 9), "leaves a gap"),
    "same place twice": (file_of({"a": entry(), "b": entry()}, b"\0" * 4), "overlaps"),
    "bool of 2": (file_of({"a": entry(dtype="BOOL", data_offsets=[0, 1])}, b"\2"), "neither 0 nor 1"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_malformed_files_are_refused_by_their_rule(name: str) -> None:
    data, message = HOSTILE[name]
    with pytest.raises(FormatError, match=message):
        load(data)


VALID = save({"a": Tensor([1.0, 2.0]), "b": Tensor([[True]]), "c": Tensor([3], int64)}, {"k": "v"})


@given(st.integers(0, len(VALID) - 1), st.integers(0, 255), st.integers(0, len(VALID)))
@settings(max_examples=300, deadline=None)
def test_no_damage_does_more_than_a_format_error(place: int, value: int, length: int) -> None:
    damaged = bytearray(VALID)
    damaged[place] = value
    for data in (bytes(damaged), VALID[:length]):
        try:
            load(data)
        except FormatError as error:
            assert str(error)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SIZES = st.integers(-1, 4) | st.sampled_from([2**31, 2**62, 2**64, 10**400])
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BOOL", "I64", "F8", ""]) | JSON_VALUES,
        "shape": st.lists(SIZES, max_size=4) | JSON_VALUES,
        "data_offsets": st.lists(SIZES, min_size=2, max_size=2) | JSON_VALUES,
    }
)
HEADERS = st.dictionaries(st.text(max_size=4) | st.just("__metadata__"), ENTRIES | JSON_VALUES, max_size=4)


@given(header=HEADERS | JSON_VALUES, body=st.binary(max_size=40), off=st.integers(-2, 2))
@settings(max_examples=500, deadline=None)
def test_no_header_however_it_is_made_does_more_than_a_format_error(
    header: Any, body: bytes, off: int
) -> None:
    text = json.dumps(header).encode()
    data = max(0, len(text) + off).to_bytes(8, "little") + text + body
    try:
        tensors, _ = load(data)
    except FormatError as error:
        assert str(error)
    else:
        assert sum(len(x.tobytes()) for x in tensors.values()) <= len(data)


def test_an_empty_file_of_no_tensors_is_valid() -> None:
    assert load(save({})) == ({}, {})
    entries, metadata, body = read_header(save({"x": Tensor.zeros(0, dtype=bfloat16)}))
    assert entries["x"].shape == (0,)
    assert metadata == {}
    assert body % 8 == 0


def test_the_name_of_the_metadata_is_reserved() -> None:
    with pytest.raises(ValueError, match="cannot be called __metadata__"):
        save({"__metadata__": Tensor([1.0])})


def test_strided_tensors_are_written_row_by_row() -> None:
    x = Tensor(list(range(6)), float32).reshape(2, 3).T
    assert load(save({"x": x}))[0]["x"].tolist() == x.tolist()
    assert load(save({"x": Tensor([True, False], bool_)}))[0]["x"].tolist() == [True, False]
