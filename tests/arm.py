"""``python tests/arm.py FOLDER``: an ARM Python with a C compiler for it, which qemu runs on this machine.

Needs qemu-aarch64 (Debian's qemu-user), apt-get, and the ziglang wheel. Nothing is installed: Debian's
packages for arm64 are unpacked in FOLDER. Afterwards ``FOLDER/python`` is that Python; the engine finds its
compiler there.
"""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = (
    *("python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libc6", "zlib1g", "libexpat1"),
    *("libffi8", "libssl3", "libgcc-s1", "libstdc++6", "libbz2-1.0", "liblzma5", "libcrypt1", "libuuid1"),
)
WHEELS = ("--platform", "manylinux2014_aarch64", "--python-version", "311", "--only-binary=:all:")
# The cross compiler knows no native processor, and what it links needs the emulator to start.
COMPILER = """#!/bin/bash
arguments=() shared= out= last=
for word in "$@"; do
  case "$word" in -march=native | -mcpu=native) continue ;; -shared) shared=yes ;; esac
  if [ "$last" = -o ]; then out="$word"; fi
  last="$word"
  arguments+=("$word")
done
unset PYTHONPATH
"{python}" -m ziglang cc -target aarch64-linux-gnu "${{arguments[@]}}" || exit 1
if [ -n "$out" ] && [ -z "$shared" ]; then
  mv "$out" "$out.arm"
  printf '#!/bin/sh\\nexec qemu-aarch64 -L "{folder}/root" "%s"\\n' "$out.arm" > "$out"
  chmod +x "$out"
fi
"""
PYTHON = """#!/bin/bash
export PYTHONPATH="{folder}/site:{root}" GRADMILL_CC="{folder}/cc" XDG_CACHE_HOME="{folder}/cache"
exec qemu-aarch64 -L "{folder}/root" "{folder}/root/usr/bin/python3.11" "$@"
"""


def make(folder: Path) -> None:
    """Raises RuntimeError where something is missing, CalledProcessError where a download fails."""
    for program in ("qemu-aarch64", "apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise RuntimeError(f"{program} is not here")
    lists, archives = folder / "lists", folder / "archives"
    for path in (lists / "partial", archives, folder / "root", folder / "site"):
        path.mkdir(parents=True, exist_ok=True)
    apt = ["apt-get", "-qq", "-o", "APT::Architectures::=arm64", "-o", f"Dir::State::lists={lists}"]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "download", *[f"{name}:arm64" for name in PACKAGES]], check=True, cwd=archives)
    for archive in archives.glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive, folder / "root"], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "download", *WHEELS]
    subprocess.run([*pip, "--dest", archives, "cffi"], check=True)
    for wheel in archives.glob("*.whl"):
        with zipfile.ZipFile(wheel) as contents:
            contents.extractall(folder / "site")
    names = {"folder": folder, "root": ROOT, "python": sys.executable}
    for name, text in (("cc", COMPILER), ("python", PYTHON)):
        path = folder / name
        path.write_text(text.format(**names))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
