"""Devices: where and how the primitives are computed."""
