"""Random lists of operations on a simulated clock: nothing acknowledged is lost, nothing is counted twice.

Every report carries a bin of its own, so a 2 proves double counting and a 0 a loss.
"""

import dataclasses
import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from live.test_roles import CrashError
from shuffledp import protocols
from shuffledp.live.analyzer import Analyzer
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.live.shuffler import Shuffler
from shuffledp.live.store import State
from shuffledp.live.wire.document import Windows
from shuffledp.live.wire.promise import Pledge
from shuffledp.live.wire.report import open_report, seal_inner, seal_report, write_receipt

PEOPLE = 12
BINS = dataclasses.replace(
    live.questions()[0],
    protocol=protocols.krr.make_local(k=PEOPLE, epsilon=3.0),
    labels=tuple(f"person {i}" for i in range(PEOPLE)),
)
COLLECTION = live.make_collection(
    questions=(BINS,),
    pledge=Pledge(
        epsilon=3.0,
        delta=0.01,
        honest=1.0,
        min_batch=4,
        local_epsilon=3.0,
        reports_per_device=2,
        composed=False,
    ),
    windows=Windows(start=0, seconds=100, count=2, grace=20),
)
SECRETS = live.outer_secrets(COLLECTION)
INNERS = {
    (window, person): seal_inner(COLLECTION, window, bytes([0, person]))
    for window in range(2)
    for person in range(PEOPLE)
}
OPENED = {
    place: open_report(COLLECTION, seal_report(COLLECTION, place[0], [inner]), SECRETS)
    for place, inner in INNERS.items()
}
PLAIN = {inner: bytes([0, person]) for (_, person), inner in INNERS.items()}
STEPS = ("admitted", "sealed", "renamed", "kept", "written", "deleted", "unlinked")
LATER = ("stored file", "stored", "opened", "charged", "result written", "published")


def look_up(collection, window, secret, records):
    """What decryption would say, which other tests check."""
    plains = b"".join(PLAIN[record.tobytes()] for record in records)
    return np.frombuffer(plains, dtype=np.uint8).reshape(-1, 2), np.ones(len(records), dtype=bool)


class World:
    """The shuffler and the analyzer on one clock, either of which may die at any step."""

    def __init__(self, folder, random, mutant=None):
        self.folder, self.random, self.mutant = folder, random, mutant
        self.now = 0.0
        self.dying = None
        self.acknowledged = set()
        for name in "sa":
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir(mode=0o700)
        live.forget_store(folder / "s")
        self.shuffler = self.analyzer = None
        self.restart()

    def step(self, name):
        if name == self.dying:
            self.dying = None
            raise CrashError(name)

    def restart(self):
        if self.shuffler is not None:
            self.shuffler.store.close()
            self.analyzer.close()
        store = live.make_store(self.folder / "s", COLLECTION)
        if self.mutant is not None:
            store = self.mutant(store)
        self.shuffler = Shuffler(
            collection=COLLECTION,
            secrets=ShufflerSecrets(outer=SECRETS, sign=live.secret("shuffler")),
            store=store,
            folder=self.folder / "s",
            step=self.step,
        )
        self.analyzer = Analyzer(
            collection=COLLECTION,
            secrets=AnalyzerSecrets(inner=live.secret("inner"), sign=live.secret("analyzer")),
            folder=self.folder / "a",
            opener=look_up,
            step=self.step,
            durable=False,
        )

    def do(self, operation):
        try:
            getattr(self, operation)()
        except CrashError:
            self.restart()
        except sdp.WireError as error:
            if error.reason not in ("not_ready", "expired", "signature"):
                raise

    def upload(self):
        """One to five reports, some of them sent before, in one or two uploads of a group."""
        places = [
            (self.random.randrange(2), self.random.randrange(PEOPLE))
            for _ in range(self.random.randint(1, 5))
        ]
        cut = self.random.randint(0, len(places))
        uploads = [part for part in (places[:cut], places[cut:]) if part]
        replies = self.shuffler.admit([[OPENED[p] for p in part] for part in uploads], self.now)
        for part, reply in zip(uploads, replies, strict=True):
            failed = {index for index, _ in reply.failed}
            self.acknowledged |= {p for i, p in enumerate(part) if i not in failed}

    def wait(self):
        self.now += self.random.choice((1, 10, 40, 130))

    def skew(self):
        self.now = max(0.0, self.now - self.random.choice((5, 50)))

    def tick(self):
        self.shuffler.tick(self.now)

    def die(self):
        self.dying = self.random.choice(STEPS + LATER)

    def reboot(self):
        self.restart()

    def fetch(self):
        window = self.random.randrange(2)
        manifest, signature = self.shuffler.manifest(window, self.now)
        if self.shuffler.store.row(window).state is State.WRITTEN:
            batch = self.shuffler.batch(window).read_bytes()
            self.analyzer.take(manifest.raw, signature, lambda _: batch)
        self.analyzer.advance(window)
        if self.random.random() < 0.7:  # otherwise the receipt is lost
            self.shuffler.take_receipt(window, self.analyzer.receipt(window), self.now)

    def forge(self):
        manifest, _ = self.shuffler.manifest(0, self.now)
        self.shuffler.take_receipt(0, write_receipt(manifest, live.secret("somebody")), self.now)

    def finish(self):
        """Everybody lives on for as long as it takes."""
        self.dying = None
        self.restart()
        self.now = 10_000.0
        self.shuffler.tick(self.now)
        for window in range(2):
            if self.shuffler.store.row(window).state is State.WRITTEN:
                manifest, signature = self.shuffler.manifest(window, self.now)
                batch = self.shuffler.batch(window)
                self.analyzer.take(manifest.raw, signature, lambda _, at=batch: at.read_bytes())
                self.shuffler.take_receipt(window, self.analyzer.receipt(window), self.now)
            if window in self.analyzer.states():
                self.analyzer.advance(window)

    def check(self):
        lost = doubled = 0
        states = self.analyzer.states()
        for window in range(2):
            mine = {person for place, person in self.acknowledged if place == window}
            if states.get(window) == "published":
                (tally,) = self.analyzer.tallies(window)
                doubled += int((tally.counts > 1).sum())
                lost += sum(1 for person in mine if tally.counts[person] == 0)
            else:
                row = self.shuffler.store.row(window)
                assert row.state is State.EXPIRED, (window, states, row)
                assert row.reports < COLLECTION.pledge.min_batch
                lost += len(mine) > row.reports
            assert not self.shuffler.batch_path(window).exists()
        if states:
            entries = self.analyzer.ledger.entries(COLLECTION.id.hex())
            assert len(entries) == len(states)
        return lost, doubled


OPERATIONS = (
    ("upload",) * 8
    + ("wait",) * 3
    + ("tick",) * 3
    + ("fetch",) * 3
    + ("skew", "die", "reboot", "forge")
)


def play(folder, seed, mutant=None):
    world = World(folder, Random(seed), mutant)  # noqa: S311
    for _ in range(world.random.randint(10, 40)):
        world.do(world.random.choice(OPERATIONS))
    world.finish()
    return world.check()


def play_all(folder, lists, mutant=None):
    found = [play(folder, seed, mutant) for seed in lists]
    return sum(lost for lost, _ in found), sum(doubled for _, doubled in found)


@pytest.fixture
def quick():
    """A folder in memory, if there is one: lists do not wait for a disk."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def test_random_lists_of_operations(quick, every_store):
    assert play_all(quick, range(100 if every_store == "sqlite" else 10)) == (0, 0)


@pytest.mark.slow
def test_5400_random_lists_of_operations(quick, every_store):
    assert play_all(quick, range(100, 5500 if every_store == "sqlite" else 600)) == (0, 0)


class CheckedOutside:
    """A store that checks outside of the transaction whether the window is open: it loses reports."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def admit(self, group, now):
        outcomes = self._store.admit(group, now)
        return [None if outcome == "too_late" else outcome for outcome in outcomes]


class Forgetful(CheckedOutside):
    """A store that forgets which reports it has: it counts twice."""

    def inspect(self, window=None):
        """It would notice that the ids are not those of the reports."""

    def admit(self, group, now):
        fresh = [
            each._replace(id=bytes([i]) + each.id[1:], inners=each.inners)
            for i, each in enumerate(group)
        ]
        return self._store.admit(fresh, now)


def test_lists_notice_a_store_that_loses(quick):
    lost, _ = play_all(quick, range(20), CheckedOutside)
    assert lost > 0


def test_lists_notice_a_store_that_counts_twice(quick, monkeypatch):
    """Together with an analyzer that does not drop copies and a seal that looks at nothing: each would be enough."""
    monkeypatch.setattr("shuffledp.live.analyzer._drop_copies", lambda records: (records, 0))
    _, doubled = play_all(quick, range(20), Forgetful)
    assert doubled > 0
