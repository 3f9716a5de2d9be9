"""The search for a C compiler: a candidate counts once it has built a kernel that ran here and was right."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import DeviceError

FLAGS = (
    "-O1",
    "-std=gnu11",
    "-fPIC",
    "-fvisibility=default",
    "-ffp-contract=off",
    "-fno-trapping-math",
    "-fno-math-errno",
    "-fwrapv",
    "-pthread",
    "-w",
)
_NATIVE = ("-march=native", "-mcpu=native")  # the second where a compiler has no native -march (clang on ARM)
_FUSED = ("__FMA__", "__ARM_FEATURE_FMA", "__aarch64__", "__FP_FAST_FMA")
_TIMEOUT_S = 120

# Exits 0 where contraction is off and fma is fused: 1 + 2^-30 squared loses its last bit unless fused.
_PROBE = """
typedef float lanes __attribute__((vector_size(16)));
int main(int argc, char **argv) {
    (void)argv;
    double x = argc + 0x1p-30;
    lanes a = {(float)argc, 2, 3, 4};
    lanes b = a * a + a;
    int rounded = x * x - 1.0 == 0x1p-29, fused = __builtin_fma(x, x, -1.0) == 0x1p-29 + 0x1p-60;
    return !(rounded && fused && b[0] == 2 && b[3] == 20);
}
"""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler that builds right code for this machine.

    ``command`` starts it, ``version`` names the program and its release, ``flags`` go with every file, and
    ``target`` is a hash of the macros it predefines, hence of the instruction set it compiles for.
    """

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]
    target: str

    @property
    def name(self) -> str:
        return " ".join(self.command)

    def build(self, source: Path, library: Path, include: Path) -> None:
        """Compiles ``source`` to a shared library. Raises DeviceError with what the compiler said."""
        arguments = [*self.flags, "-shared", "-I", str(include), "-o", str(library), str(source)]
        done = _start([*self.command, *arguments])
        if done.returncode:
            raise DeviceError(
                f"{self.name} failed on {source} ({done.returncode}):\n{done.stderr.strip()[-4000:]}"
            )


def find_toolchain(
    environment: Mapping[str, str] = os.environ, memory: Path | None = None
) -> Toolchain | None:
    """The first compiler that works, or None.

    ``GRADMILL_CC`` names the only candidate, with extra flags if wanted (``gcc -mno-avx512f``), or is
    ``none``. Otherwise ``$CC``, gcc, clang and ziglang's are tried in this order. ``memory`` is a folder
    where the outcome is remembered per compiler and machine, so that a later process starts none.
    """
    for command in _candidates(environment):
        found = probe(command, memory)
        if found is not None:
            return found
    return None


def probe(words: tuple[str, ...], memory: Path | None = None) -> Toolchain | None:
    """The toolchain behind a command; None where it is absent, fails, or its target has no fma.

    Options at the end of ``words`` come after our own flags, so they prevail: ``("gcc", "-O3")``.
    """
    end = max((i for i, word in enumerate(words) if not word.startswith("-")), default=0) + 1
    command, options = words[:end], words[end:]
    program = shutil.which(command[0])
    if program is None:
        return None
    record = None if memory is None else memory / f"toolchain-{_identity(words, program)}.json"
    if record is not None and record.exists():
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            held = json.loads(record.read_text())
            return Toolchain(tuple(held["command"]), held["version"], tuple(held["flags"]), held["target"])
    found = _examine(command, options, program)
    if found is not None and record is not None:
        aside = record.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError):
            aside.write_text(json.dumps(asdict(found)))
            aside.replace(record)
    return found


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    forced = environment.get("GRADMILL_CC", "").strip()
    if forced:
        if forced != "none":
            yield tuple(shlex.split(forced))
        return
    if environment.get("CC", "").strip():
        yield tuple(shlex.split(environment["CC"]))
    yield ("gcc",)
    yield ("clang",)
    if importlib.util.find_spec("ziglang") is not None:
        yield (sys.executable, "-m", "ziglang", "cc")


def _examine(command: tuple[str, ...], options: tuple[str, ...], program: str) -> Toolchain | None:
    version = _start([*command, "--version"])
    if version.returncode:
        return None
    for native in _NATIVE:
        flags = (*FLAGS, native, *(("-fno-sanitize=all",) if "ziglang" in command else ()), *options)
        macros = _start([*command, *flags, "-dM", "-E", "-x", "c", os.devnull])
        if macros.returncode:
            continue
        names = {line.split()[1] for line in macros.stdout.splitlines() if line.startswith("#define ")}
        if not names.intersection(_FUSED):
            return None
        if "__AVX512F__" in names:
            flags = (*flags, "-mprefer-vector-width=512")
        if _runs(command, flags):
            text = f"{Path(program).resolve()}: {version.stdout.splitlines()[0]}"
            return Toolchain(command, text, flags, hashlib.sha256(macros.stdout.encode()).hexdigest())
    return None


def _runs(command: tuple[str, ...], flags: tuple[str, ...]) -> bool:
    """Whether a program built so starts on this machine and computes what it must."""
    with tempfile.TemporaryDirectory(prefix="gradmill-") as folder:
        source, program, library = (Path(folder) / name for name in ("probe.c", "probe", "probe.so"))
        source.write_text(_PROBE)
        for arguments in (["-o", str(program)], ["-shared", "-o", str(library)]):
            if _start([*command, *flags, *arguments, str(source)]).returncode:
                return False
        return _start([str(program)]).returncode == 0


def _identity(words: tuple[str, ...], program: str) -> str:
    """Names compiler and machine: a new compiler or another processor is examined again."""
    stat = Path(program).stat()
    described = [
        list(words),
        FLAGS,
        program,
        stat.st_size,
        stat.st_mtime_ns,
        platform.machine(),
        _processor(),
    ]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:32]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    kept = ("model name", "flags", "CPU implementer", "CPU part", "Features")
    return "\n".join(sorted({line for line in lines if line.startswith(kept)}))


def _start(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command in the C locale; one that cannot start or hangs counts as failed."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            arguments, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(arguments, 127, "", str(error))
