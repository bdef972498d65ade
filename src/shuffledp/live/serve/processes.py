"""The roles as processes of their own, with disjoint keys, also if one machine plays all of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from shuffledp.core.errors import UnsupportedError
from shuffledp.live.serve.client import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shuffledp.live.serve.folders import Home

__all__ = ["Role", "check_port", "find_port", "play_roles", "start", "start_roles", "stop_roles"]

_PATIENCE = 240.0


def find_port() -> int:
    """A port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def check_port(port: int) -> None:
    """Refuse a port that something else listens on: the address of a collection never changes."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise UnsupportedError(
                f"port {port}, where people find this survey, cannot be used now: {error.strerror}"
            ) from None


class Role:
    """A process that serves one role."""

    def __init__(self, process: subprocess.Popen[bytes], url: str) -> None:
        self.process = process
        self.url = url

    def wait_until_ready(self) -> None:
        """Wait until it answers."""
        import httpx

        end = time.monotonic() + _PATIENCE
        with connect(self.url) as client:
            while time.monotonic() < end:
                if self.process.poll() is not None:
                    raise UnsupportedError(
                        f"a role ended at once, with status {self.process.returncode}"
                    )
                with suppress(httpx.TransportError):
                    if client.get("/healthz").status_code == 200:
                        return
                time.sleep(0.05)
        raise UnsupportedError(f"{self.url} does not answer")

    def stop(self) -> None:
        """Ask it to end, and wait."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def start(role: str, home: Home, port: int, *more: str, workers: int | None = None) -> Role:
    """Start `shuffledp shuffler` or `shuffledp analyzer` for a folder."""
    command = [sys.executable, "-m", "shuffledp", role, str(home.path), "--port", str(port), *more]
    if workers is not None:
        command += ["--workers", str(workers)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
    return Role(process, f"http://127.0.0.1:{port}")


def start_roles(
    home: Home, analyzer_port: int, *options: str, workers: int | None = None
) -> list[Role]:
    """The shuffler, and the analyzer with these options, ready; if one of them is not, both end."""
    port = int(home.collection().url.rpartition(":")[2])
    results = f"http://127.0.0.1:{analyzer_port}"
    roles = [start("shuffler", home, port, "--results", results, workers=workers)]
    try:
        roles.append(start("analyzer", home, analyzer_port, *options, workers=workers))
        for role in roles:
            role.wait_until_ready()
    except BaseException:
        stop_roles(roles)
        raise
    return roles


def stop_roles(roles: Sequence[Role]) -> None:
    """End them, the last one first."""
    for role in reversed(roles):
        role.stop()


@contextmanager
def play_roles(
    home: Home, analyzer_port: int, *, workers: int | None = None, every: float = 0.5
) -> Iterator[tuple[Role, Role]]:
    """Both roles, each in its own process; they end with the block."""
    roles = start_roles(home, analyzer_port, "--every", str(every), workers=workers)
    try:
        yield roles[0], roles[1]
    finally:
        stop_roles(roles)
