"""The analyzer: checks a batch, opens it message by message, charges the ledger once, publishes.

Per window `stored -> opened -> charged -> published`, or `refused` if too few messages are left; each step is
repeated after a crash and does nothing the second time. One batch per window, for ever.

If the servers add the noise, this one draws its own before anything leaves it, once and for ever: `stored -> charged ->
published`. The exact tally is never stored; the result is on the disk and its hash in the seal log before anybody can
read it. A result that the log has and the disk has not is `expired`: it is never drawn again.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.core import __version__
from shuffledp.core.analyzer import Tally
from shuffledp.core.arrays import Bools
from shuffledp.core.display import list_numbers
from shuffledp.core.errors import MismatchError, WireError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import honest_users
from shuffledp.core.randomizer import Octets, Shuffled, WordSource
from shuffledp.ledger import Budget, Ledger
from shuffledp.live.keys import AnalyzerSecrets
from shuffledp.live.results import LEVEL
from shuffledp.live.seals import Entry, SealError, SealLog, find_digest, recognize
from shuffledp.live.servers import add_noise
from shuffledp.live.store import open_database, sync_folder, transaction, write_whole
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.promise import compute_guarantee
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.report import Manifest, check_batch, open_inner, write_receipt
from shuffledp.numerics.entropy import SecureWords
from shuffledp.protocols.one_question import scale_up

_EXACT = (
    "reports, valid, people, of and dropped are counted without noise: how many reports came and how many messages no "
    "honest device sends"
)
_SCHEMA = (
    (
        """CREATE TABLE IF NOT EXISTS batches (
            window INTEGER PRIMARY KEY, manifest BLOB NOT NULL, state TEXT NOT NULL, tallies TEXT, dropped TEXT)""",
    ),
    ("CREATE TABLE log (one INTEGER PRIMARY KEY CHECK (one = 1), identity BLOB NOT NULL)",),
)

FINAL = ("published", "refused", "expired")
"""The states of windows that are done with."""
Opener = Callable[[Collection, int, bytes, Octets], tuple[Octets, Bools]]
"""Opens the records of a window: plaintexts[n, 1 + message_size], and which of them could be opened."""


def open_records(
    collection: Collection, window: int, secret: bytes, records: Octets
) -> tuple[Octets, Bools]:
    """Open records in this process, one by one; `serve` has a pool for many."""
    plains = np.zeros((len(records), 1 + collection.message_size), dtype=np.uint8)
    good = np.ones(len(records), dtype=np.bool_)
    for place, record in enumerate(records):
        try:
            plain = open_inner(collection, window, record.tobytes(), secret)
            plains[place] = np.frombuffer(plain, dtype=np.uint8)
        except WireError:
            good[place] = False
    return plains, good


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRecords:
    """The tally of each question, and the messages that were dropped, by reason."""

    tallies: tuple[Tally, ...]
    dropped: Mapping[str, int]


def count_messages(collection: Collection, plains: Octets) -> CountedRecords:
    """Return the tallies of plaintexts; a message that no honest device sends is dropped, and spoils nothing else."""
    dropped: Counter[str] = Counter()
    tallies = []
    strange = int((plains[:, 0] >= len(collection.questions)).sum())
    if strange:
        dropped["unknown_question"] = strange
    for kind, question in enumerate(collection.questions):
        mine = plains[plains[:, 0] == kind, 1:]
        code = question.code
        clean = ~mine[:, code.size :].any(axis=1)
        dropped["padding"] += int((~clean).sum())
        read = code.decode_message(np.ascontiguousarray(mine[clean, : code.size]))
        dropped["out_of_range"] += int((~read.accepted).sum())
        shuffled = Shuffled(payload=read.payload, users=len(read.payload))
        tallies.append(question.protocol.analyzer.tally(shuffled))
    return CountedRecords(tallies=tuple(tallies), dropped={k: n for k, n in dropped.items() if n})


def _pause(step: str) -> None:
    """Do nothing between two steps: tests put a crash here."""


class Analyzer:
    """The state machine. Everything durable is in its folder, so it may die at any step."""

    def __init__(
        self,
        *,
        collection: Collection,
        secrets: AnalyzerSecrets,
        folder: Path,
        opener: Opener = open_records,
        step: Callable[[str], None] = _pause,
        durable: bool = True,
        seals: SealLog | None = None,
        rng: WordSource | None = None,
    ) -> None:
        if collection.by_servers and seals is None:
            raise SealError("an analyzer that adds noise needs a seal log, outside of its folder")
        self.collection = collection
        self._secrets = secrets
        self._folder = folder
        self._open = opener
        self._step = step
        self._seals = seals if collection.by_servers else None
        self._rng = rng
        self._consulted = False
        self.confirmed: set[int] = set()
        """Windows whose receipt the shuffler has; asking again after a start does no harm."""
        self._db = open_database(folder / "analyzer.sqlite", self, _SCHEMA, durable=durable)
        for (raw,) in self._db.execute("SELECT manifest FROM batches LIMIT 1"):
            # A batch of another collection would be counted under the wrong labels.
            if Manifest.read(raw).collection_id != collection.id:
                raise MismatchError(f"{folder} has batches of another collection")

    def close(self) -> None:
        """Let go of the files."""
        self._db.close()

    @property
    def ledger(self) -> Ledger:
        """The ledger that each window is charged to, once."""
        return Ledger(self._folder / "ledger.sqlite")

    def result_path(self, window: int) -> Path:
        """Return where the result of a window is published."""
        return self._folder / f"result-{window}.json"

    def _batch_path(self, window: int) -> Path:
        return self._folder / f"batch-{window}.bin"

    def states(self) -> dict[int, str]:
        """Return the windows that were taken, and how far they are."""
        return dict(self._db.execute("SELECT window, state FROM batches ORDER BY window"))

    def delete_batches(self, before: float) -> tuple[int, ...]:
        """Delete the batches of windows that ended before a moment and are published, refused or expired; returns them.

        Nothing reads them any more: tallies, results and the ledger are kept. A batch that is still to be counted stays.
        """
        closes = self.collection.windows.closes
        gone = tuple(
            window
            for window, state in self.states().items()
            if state in FINAL and closes(window) < before and self._batch_path(window).exists()
        )
        for window in gone:
            self._batch_path(window).unlink()
        if gone:
            sync_folder(self._folder)
        return gone

    @property
    def sign(self) -> bytes:
        """The key with which it signs what it asks of the shuffler."""
        return self._secrets.sign

    def results(self) -> list[dict[str, Any]]:
        """List what was published, window after window."""
        windows = [window for window, state in self.states().items() if state == "published"]
        return [self._read_result(window) for window in windows]

    def _read_result(self, window: int) -> dict[str, Any]:
        raw = self.result_path(window).read_bytes()
        log = self._consult()
        entry = None if log is None else log.find(window)
        if log is not None and (entry is None or hashlib.sha256(raw).digest() != entry.other):
            raise SealError(f"the result of window {window} is not what the seal log says it was")
        result: dict[str, Any] = json.loads(raw)
        return result

    def _consult(self) -> SealLog | None:
        """Return the seal log, if there is to be one, and it is the one that this folder belongs to."""
        if self._seals is None or self._consulted:
            return self._seals
        known = self._db.execute("SELECT identity FROM log").fetchone()
        identity = recognize(self._seals, None if known is None else bytes(known[0]))
        with transaction(self._db):
            self._db.execute("INSERT OR IGNORE INTO log VALUES (1, ?)", (identity,))
        self._consulted = True
        return self._seals

    def take(
        self, manifest_raw: bytes, signature: bytes, fetch: Callable[[int], bytes]
    ) -> Manifest:
        """Check a batch and keep it: from now on it is the batch of its window.

        `fetch(size)` gets the batch; it is called only after the shuffler's signature has been verified.
        """
        manifest = Manifest.verify(manifest_raw, signature, self.collection)
        earlier = self._find_manifest(manifest.window)
        if earlier is not None:
            # Two batches of the same people, whose differences tell about few of them, would be two releases.
            if earlier != manifest:
                raise WireError(
                    "second_batch", f"window {manifest.window} has another batch already"
                )
            return manifest
        log = self._consult()
        if log is not None and log.find(manifest.window) is not None:
            raise WireError(
                "expired", f"window {manifest.window} was published before this folder was made"
            )
        batch = fetch(manifest.messages * self.collection.inner_size)
        check_batch(manifest, batch, self.collection)
        # The file before the row: on the word of the row a receipt is signed, and then no other copy is left.
        write_whole(self._batch_path(manifest.window), [batch])
        self._step("stored file")
        with transaction(self._db):
            self._db.execute(
                "INSERT INTO batches VALUES (?, ?, 'stored', NULL, NULL)",
                (manifest.window, manifest.raw),
            )
        self._step("stored")
        return manifest

    def _find_manifest(self, window: int) -> Manifest | None:
        query = "SELECT manifest FROM batches WHERE window = ?"
        row = self._db.execute(query, (window,)).fetchone()
        return None if row is None else Manifest.read(row[0])

    def _manifest(self, window: int) -> Manifest:
        """Return the manifest of a batch that was taken."""
        manifest = self._find_manifest(window)
        assert manifest is not None
        return manifest

    def advance(self, window: int) -> str:
        """Take a stored batch as far as it goes; returns its state. After a crash, call it again."""
        state = self.states()[window]
        log = self._consult()
        if log is not None:
            return self._publish_once(window, state, log)
        if state == "stored":
            state = self._count(window)
            self._step("opened")
        if state == "opened":
            # Before anything is published; after a crash the key of the charge makes the second one the first.
            self._charge(window)
            self._step("charged")
            state = self._move(window, "opened", "charged")
        if state == "charged":
            # The file before the state, by which readers know that there is one.
            write_whole(self.result_path(window), [json.dumps(self._result(window)).encode()])
            self._step("result written")
            state = self._move(window, "charged", "published")
            self._step("published")
        return state

    def _publish_once(self, window: int, state: str, log: SealLog) -> str:
        """Advance a batch whose result has noise that is drawn here, so that at most one result ever leaves."""
        manifest = self._manifest(window)
        if state == "stored":
            if manifest.reports < self.collection.pledge.min_batch:
                return self._move(window, "stored", "refused")
            self._charge(window)
            self._step("charged")
            state = self._move(window, "stored", "charged")
        if state != "charged":
            return state
        draft, place = self._folder / f"draft-{window}.json", self.result_path(window)
        entry = log.find(window)
        # The draft is on the disk before its hash is in the log: until then nobody can have read it, and another draw
        # may take its place. Once there is an entry, those bytes are published or none.
        if entry is None:
            raw = json.dumps(self._draw_result(manifest)).encode()
            write_whole(draft, [raw])
            self._step("drafted")
            entry = Entry(batch=manifest.sha256, other=hashlib.sha256(raw).digest())
            log.create(window, entry)
            self._step("logged")
        if entry.batch == manifest.sha256 and find_digest(draft) == entry.other:
            draft.rename(place)
            sync_folder(self._folder)
            self._step("result written")
        if entry.batch != manifest.sha256 or find_digest(place) != entry.other:
            return self._move(window, "charged", "expired")
        state = self._move(window, "charged", "published")
        self._step("published")
        return state

    def _draw_result(self, manifest: Manifest) -> dict[str, Any]:
        """Return the result with the analyzer's own noise: another one at every call."""
        counted, dropped = self._open_batch(manifest)
        words = SecureWords() if self._rng is None else self._rng
        noised = add_noise(self.collection.questions, counted.tallies, manifest.reports, words)
        pledge = self.collection.pledge
        always = {"reports": 1, "epsilon": pledge.epsilon, "delta": pledge.delta}
        return self._describe_result(
            manifest,
            noised,
            valid=manifest.reports,
            dropped=dropped,
            if_honest={
                **always,
                "for": "any report, whoever else lies: either server's noise alone",
            },
        )

    def _move(self, window: int, old: str, new: str) -> str:
        with transaction(self._db):
            self._db.execute(
                "UPDATE batches SET state = ? WHERE window = ? AND state = ?", (new, window, old)
            )
        return new

    def receipt(self, window: int) -> bytes:
        """Sign the receipt that the shuffler gets once the batch is stored safely."""
        manifest = self._find_manifest(window)
        if manifest is None:
            raise WireError("not_ready", f"there is no batch of window {window} yet")
        return write_receipt(manifest, self._secrets.sign)

    def _count(self, window: int) -> str:
        counted, dropped = self._open_batch(self._manifest(window))
        least = self._count_valid(counted.tallies)
        state = "opened" if least >= self.collection.pledge.min_batch else "refused"
        tallies = [{"counts": t.counts.tolist(), "users": t.users} for t in counted.tallies]
        with transaction(self._db):
            self._db.execute(
                "UPDATE batches SET state = ?, tallies = ?, dropped = ? WHERE window = ?",
                (
                    state,
                    json.dumps(tallies) if state == "opened" else None,
                    json.dumps(dropped),
                    window,
                ),
            )
        return state

    def _open_batch(self, manifest: Manifest) -> tuple[CountedRecords, dict[str, int]]:
        """Return the exact tallies, and how many messages were dropped, by reason."""
        window = manifest.window
        batch = self._batch_path(window).read_bytes()
        records = check_batch(manifest, batch, self.collection)
        unique, copies = _drop_copies(records)
        plains, good = self._open(self.collection, window, self._secrets.inner, unique)
        counted = count_messages(self.collection, plains[good])
        lost = {"copy": copies, "undecryptable": int((~good).sum())}
        return counted, {**counted.dropped, **{reason: n for reason, n in lost.items() if n}}

    def _count_valid(self, tallies: Sequence[Tally]) -> int:
        """Return how many reports there are at least, counting only messages that an honest device may have sent."""
        users = [tally.users for tally in tallies]
        # With one random question in each report, all reports are a crowd; otherwise each question has all of them.
        return sum(users) if self.collection.pledge.one_question else min(users)

    def _suppose_honest(self, valid: int) -> dict[str, Any]:
        """Return what a person with one report in a batch is promised, if the promised share of the valid ones is honest.

        Other windows may have had fewer reports, so nothing is said here about several reports of a device: for
        those there is the promise.
        """
        alone = replace(self.collection.pledge, min_batch=valid, composed=False)
        guarantee = compute_guarantee(self.collection.questions, alone)
        return {
            "reports": guarantee.honest,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "for": "one report of a device, in this window alone",
        }

    def count_dropped(self, window: int) -> dict[str, int]:
        """Count the messages of a window that were dropped, by reason; results with our noise state them."""
        if self.collection.by_servers:
            if self.states().get(window) != "published":
                return {}
            try:
                return dict(self._read_result(window)["dropped"])
            except (OSError, SealError):  # whoever reads the results is told
                return {}
        query = "SELECT dropped FROM batches WHERE window = ?"
        row = self._db.execute(query, (window,)).fetchone()
        dropped: dict[str, int] = json.loads(row[0]) if row and row[0] else {}
        return dropped

    def tallies(self, window: int) -> tuple[Tally, ...]:
        """Return the tally of each question."""
        query = "SELECT tallies FROM batches WHERE window = ?"
        (stored,) = self._db.execute(query, (window,)).fetchone()
        return tuple(
            Tally(counts=np.array(each["counts"], dtype=np.int64), users=each["users"])
            for each in json.loads(stored)
        )

    @property
    def guarantee(self) -> Guarantee:
        """What a window costs a person, at most: what was promised for all of a device's reports, or for each."""
        pledge = self.collection.pledge
        return Guarantee(
            epsilon=pledge.epsilon,
            delta=pledge.delta,
            model=Model.SHUFFLE,
            proof="the promise of the collection, which every device recomputes",
            honest=1
            if self.collection.by_servers
            else honest_users(pledge.min_batch, pledge.honest),
        )

    def _charge(self, window: int) -> None:
        promise, name = self.collection.pledge, self.collection.id.hex()
        key = f"{name}:{window}"
        # Once it is there, the budget is the operator's to change (`shuffledp ledger budget`).
        opening = Budget.for_releases(
            self.collection.windows.count, epsilon=promise.epsilon, delta=promise.delta
        )
        entry = self.ledger.charge(
            self.guarantee,
            dataset=name,
            budget=None if name in self.ledger.datasets else opening,
            note={"title": self.collection.title, "window": window},
            key=key,
        )
        self.ledger.mark_released(entry)

    def _result(self, window: int) -> dict[str, Any]:
        tallies = self.tallies(window)
        valid = self._count_valid(tallies)
        return self._describe_result(
            self._manifest(window),
            tallies,
            valid=valid,
            dropped=self.count_dropped(window),
            if_honest=self._suppose_honest(valid),
        )

    def _describe_result(
        self,
        manifest: Manifest,
        tallies: Sequence[Tally],
        *,
        valid: int,
        dropped: Mapping[str, int],
        if_honest: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return what is published: estimates from these tallies, and what was promised."""
        pledge = self.collection.pledge
        sampled = pledge.one_question and not self.collection.by_servers
        return {
            "collection": self.collection.id.hex(),
            "title": self.collection.title,
            "window": manifest.window,
            "reports": manifest.reports,
            "valid": valid,
            "dropped": dict(dropped),
            "level": LEVEL,
            "questions": {
                question.name: answer_question(question, tally, valid if sampled else None)
                for question, tally in zip(self.collection.questions, tallies, strict=True)
            },
            "promise": pledge.to_dict(),
            "if_honest": dict(if_honest),
            "not_private": [_EXACT],
            "one_operator": self.collection.development,
            "version": __version__,
        }


def _drop_copies(records: Octets) -> tuple[Octets, int]:
    """Drop copies of the same ciphertext, which are neighbours, and count them."""
    if len(records) < 2:
        return records, 0
    same = np.append(False, (records[1:] == records[:-1]).all(axis=1))
    return (records[~same], int(same.sum())) if same.any() else (records, 0)


def answer_question(question: Question, tally: Tally, reports: int | None = None) -> dict[str, Any]:
    """Return the answer about everybody in the tally; with `reports`, about that many people, of whom it is a sample."""
    task = question.asks
    estimate = task.convert(question.protocol.analyzer.estimate(tally))
    if reports is not None:
        estimate = scale_up(estimate, question.protocol, tally.people(), reports)
    rows = list_numbers(estimate, LEVEL, label=question.task)
    labels: Sequence[str] = [row.label for row in rows]
    if question.labels is not None and len(rows) == len(question.labels):
        labels = question.labels
    return {
        "text": question.text,
        "task": question.task,
        "protocol": question.protocol.name,
        "people": tally.users,
        "of": tally.users if reports is None else reports,
        "estimate": [
            row._replace(label=label)._asdict() for label, row in zip(labels, rows, strict=True)
        ],
        **task.details(estimate),
    }
