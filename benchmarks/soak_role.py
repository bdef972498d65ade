"""A role of a soak: the real server, whose clock can be turned and which dies at the step that is written down.

    python benchmarks/soak_role.py shuffler|analyzer FOLDER PORT CONTROL [INSTANCE]

`CONTROL` is a file of a few bytes that the soak and the role share: by how much the clock is off, at which step to
die, whom to kill there in place of the role itself, a process and its children, and how often that happened.
"""

import mmap
import os
import signal
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path

_SHAPE = struct.Struct("<dqq40s")


def kill_all(pid: int) -> None:
    """Kill a process and its children: those of a database have sessions of their own."""
    children: list[str] = []
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in [pid, *map(int, children)]:
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


class Control:
    """The shared bytes."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SHAPE.size))
        with path.open("r+b") as file:
            self._bytes = mmap.mmap(file.fileno(), _SHAPE.size)

    def _read(self) -> tuple[float, int, int, bytes]:
        return _SHAPE.unpack_from(self._bytes)  # type: ignore[return-value]

    @property
    def offset(self) -> float:
        """Seconds by which the clock is ahead."""
        return self._read()[0]

    @offset.setter
    def offset(self, seconds: float) -> None:
        self._bytes[:8] = struct.pack("<d", seconds)

    @property
    def deaths(self) -> int:
        """How often somebody died at a step."""
        return self._read()[2]

    @property
    def armed(self) -> str:
        """The step at which somebody dies; empty if none."""
        return self._read()[3].rstrip(b"\0").decode()

    def arm(self, step: str, victim: int = 0) -> None:
        """Have the role, or the process `victim` and its children, die at the next such step."""
        self._bytes[24:] = bytes(40)
        self._bytes[8:16] = struct.pack("<q", victim)
        self._bytes[24:] = step.encode().ljust(40, b"\0")

    def step(self, name: str) -> None:
        """Die, if it is time."""
        _, victim, deaths, armed = self._read()
        if armed.rstrip(b"\0") != name.encode():
            return
        self._bytes[16:24] = struct.pack("<q", deaths + 1)
        self._bytes[24:] = bytes(40)
        if victim:
            kill_all(victim)
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    role, folder, port, place, *instance = sys.argv[1:]
    control = Control(Path(place))
    real = time.time
    time.time = lambda: real() + control.offset  # before anything takes it as its clock
    from shuffledp.live.serve import Home, run_analyzer, run_shuffler

    open_shuffler, open_analyzer = Home.open_shuffler, Home.open_analyzer

    def watch_shuffler(home, *arguments):
        found = open_shuffler(home, *arguments)
        found.step = control.step
        return found

    def watch_analyzer(home, *arguments):
        found = open_analyzer(home, *arguments)
        found._step = control.step
        return found

    Home.open_shuffler, Home.open_analyzer = watch_shuffler, watch_analyzer
    home = Home(Path(folder), *instance)
    if role == "shuffler":
        run_shuffler(home, host="127.0.0.1", port=int(port), workers=1)
    else:
        run_analyzer(home, host="127.0.0.1", port=int(port), workers=1, every=0.2)


if __name__ == "__main__":
    main()
