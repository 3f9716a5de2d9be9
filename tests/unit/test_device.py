"""Which device is used, and what happens where no compiler is found."""

from __future__ import annotations

import logging
import threading

import pytest
from primitives import REFERENCE

from engine.devices import device
from engine.devices.device import current_device, default_device, use_device
from engine.devices.reference import ReferenceDevice


def test_the_innermost_choice_holds_and_ends_with_its_block() -> None:
    outer, inner = ReferenceDevice(), ReferenceDevice()
    with use_device(outer):
        with use_device(inner) as chosen:
            assert chosen is inner is current_device()
        assert current_device() is outer
        with pytest.raises(KeyError), use_device(inner):
            raise KeyError
        assert current_device() is outer


def test_another_thread_makes_its_own_choice() -> None:
    seen = []
    with use_device(REFERENCE):
        thread = threading.Thread(target=lambda: seen.append(device._chosen.get()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_without_a_compiler_the_reference_computes_after_one_notice(monkeypatch, caplog) -> None:
    monkeypatch.setenv("GRADMILL_CC", "none")
    default_device.cache_clear()
    try:
        with caplog.at_level(logging.WARNING, logger="engine"):
            chosen = default_device()
            assert default_device() is chosen
    finally:
        default_device.cache_clear()
    assert chosen.name == "reference"
    assert not chosen.exact
    assert len(caplog.records) == 1
    assert "pure Python" in caplog.text
