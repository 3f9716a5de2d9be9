"""What can compute on this machine, as a table or as JSON: ``python -m workers.devices [--json]``."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from engine.devices.cpu import CpuDevice
from engine.devices.reference import ReferenceDevice
from engine.errors import DeviceError


@dataclass(frozen=True)
class Row:
    """A device, whether it works here, whether it keeps the bits, and what a user should know of it."""

    name: str
    available: bool
    exact: bool
    detail: str
    note: str = ""


def rows() -> list[Row]:
    """One row a device; the first that is available is the one used."""
    return [
        cpu_row(),
        Row("reference", True, ReferenceDevice().exact, "pure Python; for tiny models and checks"),
    ]


def cpu_row() -> Row:
    try:
        device = CpuDevice()
    except DeviceError as error:
        return Row("cpu", False, True, str(error))
    note = passed_over(os.environ, device.toolchain.command)
    detail = f"{device.threads} threads; {device.toolchain.version}"
    return Row(device.name, True, device.exact, detail, note)


def passed_over(environment: Mapping[str, str], command: tuple[str, ...]) -> str:
    """What to say when ``$CC`` names another compiler than the one in use; else nothing."""
    wanted = environment.get("CC", "").strip()
    if not wanted or environment.get("GRADMILL_CC", "").strip():
        return ""
    if tuple(shlex.split(wanted))[: len(command)] == command:
        return ""
    return f"CC is {wanted!r}, which is not there or builds no right code here; {command[0]} is used instead"


def main() -> None:
    try:
        found = rows()
    except ValueError as error:  # a setting that can't be read
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    if "--json" in sys.argv[1:]:
        print(json.dumps([asdict(row) for row in found]))
        return
    form = "{:<10} {:<10} {:<6} {}"
    print(form.format("device", "available", "exact", "detail"))
    for row in found:
        yes_no = ("yes" if row.available else "no", "yes" if row.exact else "no")
        print(form.format(row.name, *yes_no, row.detail))
        if row.note:
            print(f"note: {row.note}")


if __name__ == "__main__":
    main()
