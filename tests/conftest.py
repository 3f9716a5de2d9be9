"""Fixtures that any test may use."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("gradmill", deadline=None)  # a busy machine is no failure
settings.load_profile("gradmill")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture
def shared() -> Path:
    """The folder of expected results and corpora beside the checkout; skips the test where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the folder {SHARED}, which is not there")
    return SHARED
