"""What can compute on this machine, as a table or as JSON: ``python -m workers.devices [--json]``."""

from __future__ import annotations

import json
import sys
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
    return Row(device.name, True, device.exact, f"{device.threads} threads; {device.toolchain.version}")


def main() -> None:
    found = rows()
    if "--json" in sys.argv[1:]:
        print(json.dumps([asdict(row) for row in found]))
        return
    form = "{:<10} {:<10} {:<6} {}"
    print(form.format("device", "available", "exact", "detail"))
    for row in found:
        yes_no = ("yes" if row.available else "no", "yes" if row.exact else "no")
        print(form.format(row.name, *yes_no, row.detail))


if __name__ == "__main__":
    main()
