"""A bridge with a namespace for each pod, and a name server that knows who is ready."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

DOMAIN = "svc.cluster.local"
_NET, _BRIDGE = "10.99.7", "tmpods"
GATEWAY = f"{_NET}.1"


def run(*command: str, check: bool = True) -> str:
    """Runs a command to its end and returns what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


class Network:
    """Gives out addresses, and names.

    Args:
        folder: Where the name server reads its names.
        namespace: Kubernetes' namespace, the search domain of every pod.
    """

    def __init__(self, folder: Path, namespace: str) -> None:
        self._hosts = folder / "hosts"
        self._namespace = namespace
        self._count = 1
        self._namespaces: list[str] = []
        self._dns: subprocess.Popen[bytes] | None = None
        self.resolv_conf = folder / "resolv.conf"
        self.resolv_conf.write_text(
            f"nameserver {GATEWAY}\nsearch {namespace}.{DOMAIN} {DOMAIN}\noptions ndots:2\n", encoding="utf-8"
        )
        self._hosts.write_text("", encoding="utf-8")

    @contextmanager
    def open(self) -> Iterator[None]:
        """Brings the bridge and the name server up, and takes everything down at the end."""
        run("ip", "link", "add", _BRIDGE, "type", "bridge")
        try:
            run("ip", "addr", "add", f"{GATEWAY}/24", "dev", _BRIDGE)
            run("ip", "link", "set", _BRIDGE, "up")
            options = ("--keep-in-foreground", "--user=root", "--no-resolv", "--no-hosts", "--bind-interfaces")
            self._dns = subprocess.Popen(
                ["dnsmasq", *options, f"--listen-address={GATEWAY}", f"--addn-hosts={self._hosts}", "--pid-file="]
            )
            yield
        finally:
            if self._dns is not None:
                self._dns.terminate()
                self._dns.wait(30)
            for name in self._namespaces:
                run("ip", "netns", "del", name, check=False)
            run("ip", "link", "del", _BRIDGE, check=False)

    def add(self) -> tuple[str, str]:
        """Makes a namespace; returns its name and its address."""
        self._count += 1
        name, outside, address = f"{_BRIDGE}{self._count}", f"{_BRIDGE}v{self._count}", f"{_NET}.{self._count}"
        run("ip", "netns", "add", name)
        self._namespaces.append(name)
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", outside, "master", _BRIDGE, "up")
        run("ip", "-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            run("ip", "-n", name, "link", "set", device, "up")
        return name, address

    def publish(self, names: Mapping[str, Iterable[str]]) -> None:
        """Says which addresses each Service has now."""
        lines = [f"{address} {name}.{self._namespace}.{DOMAIN}" for name, found in names.items() for address in found]
        self._hosts.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        assert self._dns is not None
        # Reads its files again.
        os.kill(self._dns.pid, signal.SIGHUP)
