"""The device that needs no compiler: every primitive in plain Python, written from its definition."""

from engine.devices.reference.device import ReferenceDevice as ReferenceDevice
from engine.devices.reference.scalar import OTHER_BITS as OTHER_BITS
