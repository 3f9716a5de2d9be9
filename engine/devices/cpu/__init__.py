"""The cpu device: one generated or hand-written C kernel for each primitive and dtype."""

from engine.devices.cpu.device import CpuDevice as CpuDevice
