"""The roles as processes of their own, with disjoint keys, also if one machine plays all of them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.live.serve.client import connect
from shuffledp.live.serve.http import bind
from shuffledp.live.wire.document import ONE_OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shuffledp.live.serve.folders import Home
    from shuffledp.live.serve.tls import Certificate
    from shuffledp.live.wire.document import Collection

__all__ = ["Place", "Role", "find_port", "play_roles", "start", "start_roles", "stop_roles"]

_PATIENCE = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where roles listen: on this machine alone, or at an address with a certificate."""

    host: str = "127.0.0.1"
    certificate: Certificate | None = None

    def find_port(self) -> int:
        """A port that is free now."""
        with bind(self.host, 0) as probe:
            return int(probe.getsockname()[1])

    def locate(self, port: int) -> str:
        """The address of a port.

        >>> Place().locate(8000)
        'http://127.0.0.1:8000'
        """
        named = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.certificate else ''}://{named}:{port}"

    def locate_shuffler(self, port: int) -> str:
        """The address of a shuffler whose operator also runs the analyzer."""
        return self.locate(port) + (ONE_OPERATOR if self.certificate else "")

    def check(self, collection: Collection) -> None:
        """Refuse a collection of another place, or whose port is taken: its address never changes."""
        port = urlsplit(collection.url).port
        if port is None or collection.url != self.locate_shuffler(port):
            raise UnsupportedError(
                f"people find this survey at {collection.url}: serve it with the --host and --tls that it was made with"
            )
        try:
            bind(self.host, port).close()
        except DataError as error:
            raise UnsupportedError(
                f"port {port}, where people find this survey, cannot be used now: {error}"
            ) from None


_HERE = Place()


def find_port() -> int:
    """A port of this machine that is free now."""
    return _HERE.find_port()


class Role:
    """A process that serves one role."""

    def __init__(
        self, process: subprocess.Popen[bytes], url: str, certificate: Certificate | None = None
    ) -> None:
        self.process = process
        self.url = url
        self.certificate = certificate

    def wait_until_ready(self) -> None:
        """Wait until it answers."""
        import httpx

        end = time.monotonic() + _PATIENCE
        with connect(self.url, self.certificate) as client:
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


def start(
    role: str,
    home: Home,
    port: int,
    *more: str,
    workers: int | None = None,
    place: Place = _HERE,
) -> Role:
    """Start `shuffledp shuffler` or `shuffledp analyzer` for a folder."""
    command = [sys.executable, "-m", "shuffledp", role, str(home.path), "--port", str(port), *more]
    if place.certificate is not None:
        command += ["--host", place.host, "--tls", str(place.certificate)]
    if workers is not None:
        command += ["--workers", str(workers)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
    return Role(process, place.locate(port), place.certificate)


def start_roles(
    home: Home,
    analyzer_port: int,
    *options: str,
    workers: int | None = None,
    place: Place = _HERE,
) -> list[Role]:
    """The shuffler, and the analyzer with these options, ready; if one of them is not, both end."""
    port = urlsplit(home.collection().url).port
    assert port is not None  # whoever plays all roles chose one
    results = place.locate(analyzer_port)
    roles = [start("shuffler", home, port, "--results", results, workers=workers, place=place)]
    try:
        more = start("analyzer", home, analyzer_port, *options, workers=workers, place=place)
        roles.append(more)
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
