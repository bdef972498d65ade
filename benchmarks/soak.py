"""A soak: real servers on loopback for a stated number of reports, while everything that can go wrong does.

    python benchmarks/soak.py --store sqlite --reports 20000 --kills 5
    python benchmarks/soak.py --store postgres --noise servers

With PostgreSQL two shufflers work on one database, which is killed at each of their steps, too, and read-only for a
while; the server is started in a temporary folder from the system's packages. If the servers add noise, their seal
log is on a second one.

Every report of a window has a bin of its own, so a 2 in the published tally proves double counting and a 0 a loss.
With noise of the servers no exact tally exists: each message is looked for in the batch that the analyzer got, and
both seal logs must have what was handed over and published. Reports are sealed before. One client in a hundred is hostile, some are slow; every process dies at each of its named
steps at least once, and then at random moments; the disk is full for a while, the clock jumps by hours and by weeks.
The last line is one JSON object; the exit code is 1 if anything was lost, doubled, left out or unexpected.
"""

import argparse
import asyncio
import hashlib
import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
from soak_clients import Honest, be_hostile, be_slow
from soak_role import Control, kill_all

import shuffledp as sdp
from shuffledp import protocols
from shuffledp.live.keys import signing_public
from shuffledp.live.seals import FolderLog
from shuffledp.live.serve import Home, Operator, find_port
from shuffledp.live.serve.pool import start_pool
from shuffledp.live.servers import describe_dummies
from shuffledp.live.store import write_private
from shuffledp.live.wire.document import Collection, Noise, Pledge, Windows, write_document
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.report import seal_inner, seal_report

SHUFFLER = ("admitted", "sealed", "renamed", "kept", "written", "deleted", "unlinked", "closing")
NOISY_SHUFFLER = (*SHUFFLER[:4], "logged", *SHUFFLER[4:])
DATABASE = "database at "
SHUFFLERS = ("shuffler", "second shuffler")
ANALYZER = ("stored file", "stored", "opened", "charged", "result written", "published")
NOISY_ANALYZER = (*ANALYZER[:2], "charged", "drafted", "logged", *ANALYZER[4:])
_MOST_BINS = 10_000
_SECONDS = 4000  # of a window, more than a clock may jump unasked
_PATIENCE = 600.0  # for anything that must happen
_WARM = 30.0  # seconds until a process has loaded what it needs
_WEEK = 7 * 86_400.0
_BRIEF = 4096  # bytes that a file may have while the disk is full


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# What is sent: sealed before, by processes.

_made: dict[str, Collection] = {}


def _begin(raw: bytes) -> None:
    _made["collection"] = Collection.read(raw)


def _seal(window: int, first: int, last: int) -> tuple[bytes, bytes]:
    """Reports, and the messages in them."""
    collection = _made["collection"]
    (question,) = collection.questions
    plains = np.zeros((last - first, 1 + collection.message_size), dtype=np.uint8)
    numbers = np.arange(first, last) % len(question.labels)
    plains[:, 1:] = question.code.encode_message(numbers)
    inners = [seal_inner(collection, window, plain.tobytes()) for plain in plains]
    sealed = (seal_report(collection, window, [inner]) for inner in inners)
    return b"".join(sealed), b"".join(inners)


def seal_all(collection: Collection, reports: int, bins: int, folder: Path) -> list[Path]:
    """The reports of each window in a file, and their messages in another one beside it."""
    files = []
    with start_pool(None, _begin, collection.raw) as pool:
        for window in range(collection.windows.count):
            here = min(bins, reports - window * bins)
            starts = range(0, here, 500)
            ends = [min(here, start + 500) for start in starts]
            parts = list(pool.map(_seal, [window] * len(ends), starts, ends))
            files.append(folder / f"sealed-{window}")
            files[-1].write_bytes(b"".join(part for part, _ in parts))
            messages = b"".join(inners for _, inners in parts)
            (folder / f"inners-{window}").write_bytes(messages)
    return files


def make_question(bins: int, *, noisy: bool) -> Question:
    words = {"name": "bin", "text": "Which one are you?", "task": "histogram"}
    if not noisy:
        protocol = protocols.krr.make_local(k=bins, epsilon=3.0)
        return Question(**words, protocol=protocol, labels=tuple(map(str, range(bins))))
    served = protocols.server_noise.make_server_noise(task="histogram", k=4, rate=0.5, most=12)
    labels = tuple(map(str, range(4)))
    return Question(**words, protocol=served, labels=labels, noise=describe_dummies(served))


def make_home(folder: Path, reports: int, bins: int, port: int, *, noisy: bool) -> Home:
    secrets = sdp.live.ShufflerSecrets.generate()
    analyzer, public, sign = sdp.live.generate_analyzer()
    windows = -(-reports // bins)
    least = max(2, min(bins, reports - (windows - 1) * bins) // 4)
    question = make_question(bins, noisy=noisy)
    pledge = Pledge(
        epsilon=3.0,
        delta=min(0.05, 0.9 / windows) if noisy else 1e-6,
        honest=1.0,
        min_batch=least,
        local_epsilon=math.inf if noisy else 3.0,
        noise=Noise.SERVERS if noisy else Noise.DEVICES,
        trust_the_shuffler=noisy,
    )
    collection = write_document(
        title="A soak",
        questions=(question,),
        pledge=pledge,
        windows=Windows(start=int(time.time()) - 10, seconds=_SECONDS, count=windows, grace=0),
        url=f"http://127.0.0.1:{port}",
        shuffler_keys=secrets.public_keys(windows),
        shuffler_sign=signing_public(secrets.sign),
        analyzer_public=public,
        analyzer_sign=sign,
    )
    home = Home(folder / "survey")
    home.create(collection, secrets, analyzer)
    return home


@dataclass(slots=True, kw_only=True)
class Actor:
    """A process that dies and is started again."""

    name: str
    command: list[str]
    control: Control
    steps: list[str] = field(default_factory=list)
    """Where it, or the database in its place, has yet to die; shared by the shufflers of a database."""
    arming: str = ""
    """The step at which it, or the database, dies next."""
    deaths: int = 0
    process: subprocess.Popen[bytes] | None = None
    log: Path = Path(os.devnull)
    expected: bool = False
    """Whether somebody has just killed it."""

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603
                self.command, stdout=log, stderr=log, env={**os.environ, "PYTHONWARNINGS": "ignore"}
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        self.expected = True
        assert self.process is not None
        self.process.kill()


def start_server() -> Any:
    """A PostgreSQL server as its packages set it up: what is committed is on the disk."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from postgres import Server

    return Server()


class Soak:
    """The whole of it."""

    def __init__(self, asked: argparse.Namespace, folder: Path) -> None:
        self.asked, self.folder = asked, folder
        self.random = random.Random(asked.seed)  # noqa: S311
        self.bins = min(_MOST_BINS, max(100, asked.reports // 4))
        self.port, self.reader = find_port(), find_port()
        self.ports: tuple[int, ...] = (self.port,)
        self.noisy = asked.noise == "servers"
        self.home = make_home(folder, asked.reports, self.bins, self.port, noisy=self.noisy)
        self.collection = self.home.collection()
        self.actors: dict[str, Actor] = {}
        self.kills: Counter[str] = Counter()
        self.trouble: list[str] = []
        self.rejected: Counter[str] = Counter()
        self.seen: Counter[str] = Counter()
        self.memory: dict[tuple[str, int], list[tuple[float, float]]] = {}
        self.acknowledged = [0] * self.collection.windows.count
        self.latencies: list[float] = []
        self.offset = 0.0
        self.ended = False
        self.began = time.monotonic()
        self.server: Any = None
        self.servers: dict[str, Any] = {}
        self.homes = [self.home]
        steps = list(NOISY_SHUFFLER if self.noisy else SHUFFLER)
        if asked.store == "postgres":
            self.server = start_server()
            self.servers["database"] = self.server
            said = f'postgresql = "{self.server.where()}"\n'
            if self.noisy:
                self.servers["seal log"] = start_server()
                said += f'seals = "{self.servers["seal log"].where()}"\n'
            write_private(self.home.shuffler / "store.toml", said.encode())
            self.homes.append(Home(self.home.path, "b"))
            self.ports = (self.port, find_port())
            steps[-1:] = [*(f"database at {step}" for step in steps[:-1]), steps[-1]]
        for name, home, port in zip(SHUFFLERS, self.homes, self.ports, strict=False):
            self.add_actor(name, "shuffler", port, steps, home.instance)
        later = list(NOISY_ANALYZER if self.noisy else ANALYZER)
        self.named = len(steps) + len(later)
        self.add_actor("analyzer", "analyzer", self.reader, later, "")

    def add_actor(self, name: str, role: str, port: int, steps: list[str], instance: str) -> None:
        program = [sys.executable, str(Path(__file__).with_name("soak_role.py"))]
        control = self.folder / f"control-{name}"
        more = [instance] if instance else []
        self.actors[name] = Actor(
            name=name,
            command=[*program, role, str(self.home.path), str(port), str(control), *more],
            control=Control(control),
            steps=steps,
            log=self.folder / f"log-{name}",
        )

    def turn_clock(self, offset: float) -> None:
        """Set all clocks."""
        self.offset = offset
        for actor in self.actors.values():
            actor.control.offset = offset

    def begin_window(self, window: int) -> None:
        """Set all clocks to the beginning of a window, however long the ones before have taken."""
        self.turn_clock(self.collection.windows.opens(window) + 10.0 - time.time())

    # Keeping them alive, and measuring them.

    async def watch(self) -> None:
        while not self.ended:
            try:
                for actor in self.actors.values():
                    self.look_at(actor)
                for server in self.servers.values():
                    if server.process.poll() is not None:
                        await asyncio.to_thread(server.start)
            except Exception as error:  # it is tried again, and told in the end
                self.trouble.append(f"not started again: {type(error).__name__}: {error}")
                say(self.trouble[-1])
                await asyncio.sleep(1.0)
            await asyncio.sleep(0.05)

    def look_at(self, actor: Actor) -> None:
        """Count whoever died, start it again, and have somebody die at the next step."""
        assert actor.process is not None
        if actor.control.deaths > actor.deaths:
            actor.deaths = actor.control.deaths
            database = actor.arming.startswith(DATABASE)
            self.kills[actor.arming if database else f"{actor.name} at {actor.arming}"] += 1
            actor.expected = not database
            if actor.arming in actor.steps:
                actor.steps.remove(actor.arming)
            actor.arming = ""
        if actor.process.poll() is not None:
            if not actor.expected:
                self.trouble.append(f"{actor.name} ended with {actor.process.returncode}")
            actor.expected = False
            actor.start()
        wanted = actor.steps[0] if actor.steps else ""
        if wanted != actor.arming and actor.control.deaths == actor.deaths:
            actor.arming = wanted
            victim = self.server.process.pid if wanted.startswith(DATABASE) else 0
            actor.control.arm(wanted.removeprefix(DATABASE), victim)

    async def measure(self) -> None:
        while not self.ended:
            moment = time.monotonic() - self.began
            for actor in self.actors.values():
                for pid, name in [(actor.pid, actor.name), *self.workers(actor)]:
                    with suppress(OSError, IndexError, ValueError):
                        text = Path(f"/proc/{pid}/status").read_text()
                        size = float(text.partition("VmRSS:")[2].split()[0]) / 1024
                        self.memory.setdefault((name, pid), []).append((moment, size))
            await asyncio.sleep(1.0)

    def workers(self, actor: Actor) -> list[tuple[int, str]]:
        """The processes that decrypt for a role."""
        with suppress(OSError):
            listed = Path(f"/proc/{actor.pid}/task/{actor.pid}/children").read_text()
            return [(int(pid), f"{actor.name}'s worker") for pid in listed.split()]
        return []

    def kill_somebody(self) -> None:
        """At a random moment: a role, a process that decrypts for it, or the database."""
        names = list(self.actors)
        chosen = self.random.choice([*names, "worker", *self.servers])
        if chosen in self.servers:
            self.kills[f"{chosen} at random"] += 1
            kill_all(self.servers[chosen].process.pid)
            return
        if chosen != "worker":
            self.kills[f"{chosen} at random"] += 1
            self.actors[chosen].kill()
            return
        workers = [each for name in names for each in self.workers(self.actors[name])]
        if workers:
            pid, name = self.random.choice(workers)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.kills[f"{name} at random"] += 1

    # What an operator does.

    async def ask(self, call: Callable[[Operator], object], which: int = 0) -> object:
        """Ask a shuffler until it answers; it may be dead for a moment."""
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                return await asyncio.to_thread(call, Operator(self.homes[which]))
            except (httpx.HTTPError, sdp.ShuffledpError, OSError):
                if time.monotonic() > end:
                    raise
                await asyncio.sleep(0.2)

    async def status(self, which: int = 0) -> dict:
        return await self.ask(lambda operator: operator.status(), which)  # type: ignore[return-value]

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]]) -> None:
        end = time.monotonic() + _PATIENCE
        while not await holds():
            if time.monotonic() > end:
                raise TimeoutError(f"{what} did not happen in {_PATIENCE:.0f} seconds")
            await asyncio.sleep(0.1)

    async def state_of(self, window: int) -> str:
        windows = (await self.status())["windows"]
        return {each["window"]: each["state"] for each in windows}.get(window, "open")

    async def is_published(self, window: int) -> bool:
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.reader}") as client:
                states = (await client.get("/status")).json()["windows"]
        except (httpx.HTTPError, ValueError):
            return False
        return states.get(str(window)) == "published"

    async def end_window(self, window: int, *, last: bool) -> None:
        """Turn the clock, and tell the shuffler that it is right; the last window is closed early."""
        if last:

            async def close() -> bool:
                with suppress(Exception):
                    await asyncio.to_thread(Operator(self.home).close)
                return await self.state_of(window) != "open"

            await self.until("closing", close)
        else:
            self.begin_window(window + 1)

            async def accept() -> bool:
                await self.accept_clocks()
                return await self.state_of(window) != "open"

            await self.until(f"the end of window {window}", accept)

        async def over() -> bool:
            return await self.is_published(window) and await self.state_of(window) == "deleted"

        await self.until(f"window {window} published", over)
        await (
            self.accept_clocks()
        )  # of a shuffler that noticed after another one had sealed the window

    async def accept_clocks(self) -> None:
        for which in range(len(self.homes)):
            failing = (await self.status(which))["failing"]
            if "clock" in str(failing):
                await self.ask(lambda operator: operator.accept_clock(), which)

    # What happens to machines.

    async def refuse_writes(self) -> None:
        """The database takes nothing for two seconds, as when another server has taken over."""
        import psycopg

        def say_so(value: str) -> None:
            where = self.server.where() + " options='-c default_transaction_read_only=off'"
            for _ in range(100):
                with (
                    suppress(psycopg.OperationalError),
                    psycopg.connect(where, autocommit=True) as db,
                ):
                    db.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
                    db.execute("SELECT pg_reload_conf()")
                    return
                time.sleep(0.1)

        await asyncio.to_thread(say_so, "on")
        await asyncio.sleep(6.0)  # the shuffler writes every five seconds
        await self.note_sickness()
        await asyncio.to_thread(say_so, "off")

    async def fill_disk(self, name: str) -> None:
        """No file of a process may grow for two seconds: the system refuses to write, as a full disk does."""
        pid = self.actors[name].pid
        with suppress(ProcessLookupError):
            soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (_BRIEF, hard))
            await asyncio.sleep(2.0)
            await self.note_sickness()
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))

    async def jump(self, seconds: float) -> None:
        """The clock is wrong for a second: nothing may be taken or sealed then."""
        before = self.offset
        self.turn_clock(before + seconds)
        await asyncio.sleep(1.0)
        await self.note_sickness()
        self.turn_clock(before)

    async def note_sickness(self) -> None:
        """What the shuffler says is wrong with it, if it says anything."""
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}") as client:
                said = (await client.get("/healthz")).text.strip().removeprefix("failing: ")
            self.seen.update(said.split(", "))

    # The whole.

    async def play_window(self, window: int, file: Path, kills: list[int]) -> None:
        mine = Honest(
            collection=self.collection,
            ports=self.ports,
            raw=file.read_bytes(),
            random=self.random,
            latencies=self.latencies,
            rejected=self.rejected,
        )
        hostile = round(mine.reports * self.asked.hostile)
        accidents = sorted(kills, reverse=True)
        work = asyncio.create_task(mine.send())
        bad = asyncio.create_task(
            be_hostile(self.collection, self.ports, window, hostile, mine, self.random)
        )
        beside = []
        if window % 3 == 0:
            sick = self.refuse_writes() if self.server else self.fill_disk("shuffler")
            beside.append(asyncio.create_task(sick))
        if window % 3 == 1:
            beside.append(asyncio.create_task(self.jump(60 * _WEEK)))
        if window % 3 == 2:
            beside.append(asyncio.create_task(self.jump(-3 * 3600.0)))
        while not work.done():
            while accidents and mine.done >= accidents[-1]:
                accidents.pop()
                self.kill_somebody()
            await asyncio.sleep(0.02)
        for _ in accidents:
            self.kill_somebody()
        await work
        await asyncio.gather(*beside)
        self.rejected += await bad
        self.acknowledged[window] = mine.done
        if window % 3 != 2:
            full = ["analyzer", *(SHUFFLERS[: len(self.homes)] if self.server else ())]
            beside = [asyncio.create_task(self.fill_disk(each)) for each in full]
        await self.end_window(window, last=window == self.collection.windows.count - 1)
        await asyncio.gather(*beside)

    async def play(self, files: list[Path]) -> None:
        self.begin_window(0)
        for actor in self.actors.values():
            actor.start()
        tasks = [asyncio.create_task(self.watch()), asyncio.create_task(self.measure())]
        slow = [asyncio.create_task(be_slow(self.ports, self.collection)) for _ in range(10)]
        random_kills = max(0, self.asked.kills - self.named)
        moments = [self.random.randrange(self.asked.reports) for _ in range(random_kills)]
        try:
            for window, file in enumerate(files):
                here = range(window * self.bins, (window + 1) * self.bins)
                await self.play_window(
                    window, file, [each - here.start for each in moments if each in here]
                )
                done, took = sum(self.acknowledged), time.monotonic() - self.began
                say(
                    f"window {window}: {done:,} accepted, {sum(self.kills.values())} kills, {took:.0f} s"
                )
            end = time.monotonic() + 10  # the other shuffler deletes its copy at its next tick
            while list(self.home.shuffler.rglob("batch*")) and time.monotonic() < end:
                await asyncio.sleep(0.2)
        finally:
            self.ended = True
            for task in [*tasks, *slow]:
                task.cancel()
            await asyncio.gather(*tasks, *slow, return_exceptions=True)
            self.stop()

    def stop(self) -> None:
        for actor in self.actors.values():
            if actor.process is not None and actor.process.poll() is None:
                actor.process.terminate()
        for actor in self.actors.values():
            if actor.process is not None:
                try:
                    actor.process.wait(30)
                except subprocess.TimeoutExpired:
                    actor.process.kill()
                    actor.process.wait()
        for server in self.servers.values():
            server.remove()

    def compare(self) -> tuple[int, int]:
        """Reports that were acknowledged and not counted, and those that were counted more than once."""
        analyzer = self.home.open_analyzer()
        lost = doubled = 0
        for window, people in enumerate(self.acknowledged):
            if analyzer.states().get(window) != "published":
                lost += people
                self.trouble.append(f"window {window} was not published")
                continue
            if self.noisy:
                missing, again = self.look_for(window)
            else:
                (tally,) = analyzer.tallies(window)
                missing = int((tally.counts[:people] == 0).sum())
                again = int((tally.counts > 1).sum())
            lost, doubled = lost + missing, doubled + again
            for reason, number in analyzer.count_dropped(window).items():
                self.rejected[f"dropped: {reason}"] += number
        entries = analyzer.ledger.entries(self.collection.id.hex())
        if len(entries) != len(self.acknowledged):
            self.trouble.append(f"{len(entries)} charges for {len(self.acknowledged)} windows")
        left = list(self.home.shuffler.rglob("batch*"))
        if left:
            names = ", ".join(sorted(path.name for path in left))
            self.trouble.append(f"left behind: {names}")
        analyzer.close()
        return lost, doubled

    def look_for(self, window: int) -> tuple[int, int]:
        """Messages that are not in the batch, and those that are there more than once; what left, left once."""
        size = self.collection.inner_size
        raw = (self.home.analyzer / f"batch-{window}.bin").read_bytes()
        result = (self.home.analyzer / f"result-{window}.json").read_bytes()
        entry = FolderLog(self.home.seals("analyzer")).find(window)
        digests = [hashlib.sha256(each).digest() for each in (raw, result)]
        if entry is None or [entry.batch, entry.other] != digests:
            self.trouble.append(f"window {window}: the seal log has another batch or result")
        found = Counter(raw[place : place + size] for place in range(0, len(raw), size))
        sent = (self.folder / f"inners-{window}").read_bytes()
        mine = [sent[place : place + size] for place in range(0, len(sent), size)]
        return sum(found[each] == 0 for each in mine), sum(many > 1 for many in found.values())

    def grow(self) -> dict[str, float]:
        """By how many megabytes a process has grown beyond its first half minute, the largest of each kind.

        On a busy machine it takes that long until a process has loaded what it needs.
        """
        found: dict[str, float] = {}
        for (name, _), sizes in self.memory.items():
            warm = sizes[0][0] + _WARM
            first = max(size for moment, size in sizes if moment < warm)
            grown = max((size - first for moment, size in sizes if moment >= warm), default=0.0)
            found[name] = max(found.get(name, 0.0), grown)
        return found

    def report(self) -> int:
        lost, doubled = self.compare()
        missed = sorted({step for actor in self.actors.values() for step in actor.steps})
        if missed:
            self.trouble.append("nobody died at these steps: " + ", ".join(missed))
        took = time.monotonic() - self.began
        say(
            f"\naccepted {sum(self.acknowledged):,}, lost {lost:,}, doubled {doubled:,}, {took:.0f} s"
        )
        for reason, number in sorted(self.rejected.items()):
            say(f"  rejected, {reason}: {number:,}")
        for what, number in sorted(self.kills.items()):
            say(f"  killed, {what}: {number}")
        for what, number in sorted(self.seen.items()):
            say(f"  health during a full disk or a jump, {what}: {number}")
        shares = (50, 95, 99, 100)
        at = np.percentile(self.latencies or [0.0], shares) * 1000
        percentiles = {
            f"p{share}": round(float(ms), 1) for share, ms in zip(shares, at, strict=True)
        }
        say("  upload, milliseconds: " + ", ".join(f"{k} {v:,}" for k, v in percentiles.items()))
        self.show_memory()
        for each in self.trouble:
            say(f"  TROUBLE: {each}")
        summary = {
            "store": self.asked.store,
            "noise": self.asked.noise,
            "reports": self.asked.reports,
            "accepted": sum(self.acknowledged),
            "rejected": sum(self.rejected.values()),
            "rejected_by_reason": dict(sorted(self.rejected.items())),
            "lost": lost,
            "doubled": doubled,
            "kills": sum(self.kills.values()),
            "latency_ms": percentiles,
            "grown_mb": {name: round(size, 1) for name, size in sorted(self.grow().items())},
            "seconds": round(took, 1),
            "trouble": self.trouble,
        }
        fine = not (lost or doubled or self.trouble)
        fine = fine and summary["accepted"] == self.asked.reports
        say(json.dumps(summary))
        return 0 if fine else 1

    def show_memory(self) -> None:
        """Memory over time, in ten columns: the largest of each kind."""
        width = max(1.0, (time.monotonic() - self.began) / 10)
        names = sorted({name for name, _ in self.memory})
        say("  memory in MB, by tenths of the time:")
        for name in names:
            cells = []
            for column in range(10):
                sizes = [
                    size
                    for (kind, _), found in self.memory.items()
                    if kind == name
                    for moment, size in found
                    if column * width <= moment < (column + 1) * width
                ]
                cells.append(f"{max(sizes):5.0f}" if sizes else "    -")
            say(f"    {name:<20} " + " ".join(cells))
        for name, size in sorted(self.grow().items()):
            say(f"    {name} grew by at most {size:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--noise", choices=("devices", "servers"), default="devices")
    parser.add_argument("--reports", type=int, default=20_000, help="honest reports")
    parser.add_argument("--kills", type=int, default=20, help="at least; every named step has one")
    parser.add_argument("--hostile", type=float, default=0.01, help="hostile clients per report")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.reports < 1000:
        parser.error(f"--reports {asked.reports} must be at least 1000")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    with TemporaryDirectory(prefix="soak-") as name:
        soak = Soak(asked, Path(name))
        say(f"sealing {asked.reports:,} reports for {soak.collection.windows.count} windows")
        files = seal_all(soak.collection, asked.reports, soak.bins, Path(name))
        soak.began = time.monotonic()
        try:
            asyncio.run(soak.play(files))
        except BaseException as error:
            soak.trouble.append(f"{type(error).__name__}: {error}")
            for actor in soak.actors.values():
                say(f"--- {actor.log.name}\n" + actor.log.read_text()[-3000:])
            if not isinstance(error, Exception):
                raise
        code = soak.report()
    sys.exit(code)


if __name__ == "__main__":
    main()
