"""Machines on one network, for tests: namespaces of Linux joined by a bridge. Needs root and iproute2."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

HOSTS = Path("/etc/netns")  # what lies in HOSTS/<namespace> stands at /etc for processes started in it


def why_not() -> str:
    """The reason why there can be no namespaces here; empty when there can."""
    if sys.platform != "linux" or shutil.which("ip") is None:
        return "needs iproute2 on Linux"
    if os.geteuid() != 0:
        return "needs root"
    name = f"gm-{secrets.token_hex(3)}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode != 0:
        return "needs the right to make network namespaces"
    ip("netns", "del", name)
    return ""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Network:
    """A switch and what is plugged into it, from entry to exit."""

    def __init__(self, names: Sequence[str]) -> None:
        self._run = f"gm-{secrets.token_hex(3)}"
        self.addresses = {name: f"10.77.0.{place}" for place, name in enumerate(names, 2)}
        self._processes: list[subprocess.Popen[bytes]] = []

    def namespace(self, name: str) -> str:
        return f"{self._run}-{name}"

    def __enter__(self) -> Network:
        switch = self.namespace("switch")
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        hosts = "127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for name, address in self.addresses.items()
        )
        for place, (name, address) in enumerate(self.addresses.items()):
            here = self.namespace(name)
            (HOSTS / here).mkdir(parents=True)
            (HOSTS / here / "hosts").write_text(hosts)
            ip("netns", "add", here)
            ip(
                "-n",
                switch,
                "link",
                "add",
                f"port{place}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                here,
            )
            ip("-n", switch, "link", "set", f"port{place}", "master", "bridge", "up")
            ip("-n", here, "link", "set", "lo", "up")
            ip("-n", here, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", here, "link", "set", "eth0", "up")
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for name in ("switch", *self.addresses):
            subprocess.run(["ip", "netns", "del", self.namespace(name)], capture_output=True, check=False)
            shutil.rmtree(HOSTS / self.namespace(name), ignore_errors=True)

    def command(self, name: str, command: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.namespace(name), *command]

    def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """A process on a machine; ended at exit."""
        process = subprocess.Popen(self.command(name, command), env=dict(environment))
        self._processes.append(process)
        return process

    def run(
        self, name: str, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(name, command), env=dict(environment), capture_output=True, text=True, check=False
        )

    def cut(self, name: str) -> None:
        """Pulls the plug: nothing comes or goes, and nobody is told."""
        ip("-n", self.namespace("switch"), "link", "set", self._port(name), "down")

    def join(self, name: str) -> None:
        """Puts it back."""
        ip("-n", self.namespace("switch"), "link", "set", self._port(name), "up")

    def _port(self, name: str) -> str:
        return f"port{list(self.addresses).index(name)}"
