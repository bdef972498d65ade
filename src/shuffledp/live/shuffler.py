"""The shuffler: takes reports, seals windows, hands out batches in the order of their bytes, and forgets.

If the servers add the noise, it adds messages to each window, made like those of devices: sealed for the analyzer's key
with the same suite, encoding and length, so that nobody without that key tells them from people's. How many of them stand
for each answer is drawn once, and kept nowhere.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.core.errors import WireError
from shuffledp.core.randomizer import Octets, WordSource
from shuffledp.live.keys import ShufflerSecrets
from shuffledp.live.seals import Entry, SealError, SealLog, TakenError, find_digest, recognize
from shuffledp.live.store import (
    DamageError,
    State,
    Store,
    WindowRow,
    draft_of,
    read_pieces,
    sync_folder,
    write_whole,
)
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.report import (
    Manifest,
    Opened,
    open_report,
    seal_inner,
    sort_records,
    split_upload,
    verify_receipt,
)

_ROWS = 1 << 16  # records that are written at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What became of an upload: how many reports there were, and which of them failed, and why."""

    reports: int
    failed: tuple[tuple[int, str], ...] = ()

    @property
    def raw(self) -> bytes:
        """As JSON."""
        failed = [{"index": index, "reason": reason} for index, reason in self.failed]
        content = {"accepted": self.reports - len(self.failed), "failed": failed}
        return json.dumps(content, separators=(",", ":")).encode()


def open_reports(
    collection: Collection, sealed: Sequence[bytes], secrets: dict[int, bytes]
) -> list[Opened | str]:
    """Return each report as the shuffler sees it, or why it is invalid. Pure, so any process may do it."""
    opened: list[Opened | str] = []
    for each in sealed:
        try:
            opened.append(open_report(collection, each, secrets))
        except WireError as error:
            opened.append(error.reason)
    return opened


def draw_dummies(collection: Collection, source: WordSource | None = None) -> Octets:
    """Draw the plaintexts[n, 1 + message_size] of one window's dummies: others at every call."""
    from shuffledp.numerics.entropy import SecureWords

    words = SecureWords() if source is None else source
    parts = []
    for kind, question in enumerate(collection.questions):
        law = question.noise
        if law is None:
            continue
        payload = law.make(words)
        plain = np.zeros((len(payload), 1 + collection.message_size), dtype=np.uint8)
        plain[:, 0] = kind
        if len(payload):
            plain[:, 1 : 1 + question.code.size] = question.code.encode_message(payload)
        parts.append(plain)
    return np.concatenate(parts)


def seal_plains(collection: Collection, window: int, plains: Octets) -> Octets:
    """Seal each of them for the analyzer: records[n, inner_size]."""
    sealed = b"".join(seal_inner(collection, window, row.tobytes()) for row in plains)
    return np.frombuffer(sealed, dtype=np.uint8).reshape(-1, collection.inner_size)


def make_dummies(collection: Collection, window: int) -> Octets:
    """Make the sealed dummies of a window in this process."""
    return seal_plains(collection, window, draw_dummies(collection))


def _make_entry(manifest: Manifest) -> Entry:
    return Entry(batch=manifest.sha256, other=hashlib.sha256(manifest.raw).digest())


def _pause(step: str) -> None:
    """Do nothing between two steps: tests put a crash here."""


def _forget(event: str, **facts: object) -> None:
    """Ignore what happened to a window: a server writes it down."""


@dataclass(kw_only=True)
class Shuffler:
    """The state machine. Everything durable is in the store and the folder, so it may die at any step."""

    collection: Collection
    secrets: ShufflerSecrets
    store: Store
    folder: Path
    """Where batches lie until the analyzer has them."""
    step: Callable[[str], None] = _pause
    note: Callable[..., None] = _forget
    refused: Counter[str] = field(default_factory=Counter)
    """Reports by the reason why they were refused: since the start, in memory only."""
    accepted: int = 0
    """Reports that were acknowledged, repeated ones included."""
    done: set[int] = field(default_factory=set)
    """Windows that need nothing more: years of them are not looked at again and again."""
    fetched: set[int] = field(default_factory=set)
    """Windows whose batch was taken from a shared store."""
    damaged: str | None = None
    """Why the store cannot be believed: then nothing more is taken or sealed, and nothing is deleted."""
    unscrubbed: bool = True
    """Whether deleted rows may still be in the journal."""
    seals: SealLog | None = None
    """What has left for ever: needed if this shuffler adds noise."""
    prepared: dict[int, Octets] | None = None
    """Sealed dummies by window, which somebody makes on another thread (`unprepared`); None: they are made here."""
    consulted: int = 0
    """The connection of the store, as it was when the seal log was found to be its own."""

    def __post_init__(self) -> None:
        if self.collection.by_servers and self.seals is None:
            raise SealError("a shuffler that adds noise needs a seal log, outside of its store")

    def _consult(self) -> SealLog | None:
        """Return the seal log, if there is to be one: looked at before anything is taken, sealed or served.

        If it knows of a window that is still open here, then this store is an old copy: that window has left, and whoever
        has it could find out which of its messages are people's by uploading them again. After a new connection all this
        is looked at again: a replica may have taken over that is a little behind.
        """
        connected = self.store.connected
        if self.consulted == connected:
            return self.seals
        self.done.clear()
        self.fetched.clear()
        if self.seals is not None:
            self._check_apart(self.seals)
            known = self.store.known_log()
            if known is None:
                self.store.keep_log(recognize(self.seals, known))
            recognize(self.seals, self.store.known_log())
            for window in self.seals.windows():
                if self.store.row(window).state in (State.OPEN, State.SEALED):
                    self._settle(window)
        self.consulted = connected
        return self.seals

    def _check_apart(self, log: SealLog) -> None:
        origin = log.origin()
        if origin is not None and origin == self.store.origin():
            raise SealError(
                "the seal log is on the same database server as the store, or on a replica of it: what is restored from a "
                "backup would bring back both. Keep the log on another server"
            )

    def _settle(self, window: int) -> None:
        """Finish a window that the seal log has and the store has not written, or give it up."""
        with self.store.claim(window) as mine:
            if not mine:
                raise SealError(f"another shuffler is about to finish window {window}")
            log, state = self.seals, self.store.row(window).state
            entry = None if log is None else log.find(window)
            if state is State.OPEN:
                self._give_up(window)
            elif state is State.SEALED and entry is not None:
                self._resume(window, entry)

    def _give_up(self, window: int) -> None:
        """Give up a window that has left before, and whose bytes are gone: nothing of it is drawn or served again."""
        self.store.expire(window)
        self.batch_path(window).unlink(missing_ok=True)
        self.note("expire", window=window, reason="the seal log has it, and its bytes are gone")
        self.unscrubbed = True

    @property
    def unprepared(self) -> list[int]:
        """Sealed windows that wait for dummies."""
        if self.prepared is None or not self.collection.by_servers:
            return []
        waiting = [row.window for row in self.store.rows().values() if row.state is State.SEALED]
        for window in set(self.prepared).difference(waiting):
            del self.prepared[window]  # another shuffler was faster
        return [window for window in waiting if window not in self.prepared]

    def receive(self, body: bytes, now: float) -> Reply:
        """Take an upload from beginning to end; raises `WireError` if it is not one."""
        opened = open_reports(
            self.collection, split_upload(self.collection, body), dict(self.secrets.outer)
        )
        return self.admit([opened], now)[0]

    def admit(self, uploads: Sequence[Sequence[Opened | str]], now: float) -> list[Reply]:
        """Store several uploads in one transaction; the replies are true once this returns."""
        group = [each for upload in uploads for each in upload if isinstance(each, Opened)]
        self._consult()
        with self._noticing_damage():
            outcomes = iter(self.store.admit(group, now)) if group else iter(())
        self.step("admitted")
        replies = []
        for upload in uploads:
            failed = []
            for index, each in enumerate(upload):
                reason = next(outcomes) if isinstance(each, Opened) else each
                if reason is not None:
                    failed.append((index, reason))
                    self.refused[reason] += 1
            replies.append(Reply(reports=len(upload), failed=tuple(failed)))
            self.accepted += len(upload) - len(failed)
        return replies

    @contextmanager
    def _noticing_damage(self) -> Iterator[None]:
        """Do nothing more with a store once it is damaged."""
        if self.damaged is not None:
            raise DamageError(self.damaged)
        try:
            yield
        except DamageError as error:
            self.damaged = str(error)
            raise

    def inspect(self, window: int | None = None) -> None:
        """Raise `DamageError`, now and from now on, if the store does not hold what was written to it."""
        with self._noticing_damage():
            self.store.inspect(window)

    def tick(self, now: float) -> None:
        """Do what is due: seal windows that are over, write their batches, delete what is no longer needed.

        The first call after a start also finishes what a crash interrupted: it repeats the step of the stored state.
        """
        due = self._list_due(now)
        if due:
            self._consult()  # another copy of the store may have windows again that need nothing more in this one
        for window in due:
            if window not in self.done:
                self.advance(window)
        if self.unscrubbed:
            self.unscrubbed = not self.store.scrub()

    def _list_due(self, now: float) -> range:
        """Return the windows that take no more reports."""
        windows, last = self.collection.windows, self.store.closed()
        if last is not None:
            return range(last + 1)
        over = (now - windows.start - windows.grace) // windows.seconds
        return range(max(0, min(windows.count, int(over))))

    def advance(self, window: int) -> None:
        """Take a window that is over as far as it goes without the analyzer."""
        self._consult()
        row = self.store.row(window)
        if row.state in (State.OPEN, State.SEALED):
            with self.store.claim(window) as mine:
                if not mine:
                    return  # another process is at it
                row = self._finish(window)
        if row.state is State.DELETED:
            self._unlink(window)
        if row.state in (State.DELETED, State.EXPIRED):
            self.done.add(window)

    def _finish(self, window: int) -> WindowRow:
        """Seal a window and write its batch."""
        row = self.store.row(window)
        # Before anything leaves: a batch of a damaged store could not be taken back.
        if row.state in (State.OPEN, State.SEALED):
            self.inspect(window)
        if row.state is State.OPEN:
            row = self.store.seal(window)
            self.note(
                "expire" if row.state is State.EXPIRED else "seal",
                window=window,
                reports=row.reports,
            )
            self.unscrubbed = True
            self.step("sealed")
        if row.state is State.SEALED:
            with self._noticing_damage():
                self._write(window)
        return row

    def close(self, now: float) -> None:
        """Seal every window that has begun, now: nothing more is taken, and no other window begins.

        What is to be done is on the disk first, so a crash does not leave it half done: `tick` goes on.
        """
        windows = self.collection.windows
        begun = int((now - windows.start) // windows.seconds)
        last = self.store.close_after(max(-1, min(windows.count - 1, begun)))
        self.step("closing")
        for window in range(last + 1):
            self.advance(window)

    def _write(self, window: int) -> None:
        """Write the batch: to the disk, then into the seal log; only then may it be read.

        After a crash before the entry, nothing has left, so another draw does no harm. After a crash behind it, the bytes
        that the entry names have been kept, and `_resume` serves those or none.
        """
        entry = None if self.seals is None else self.seals.find(window)
        if entry is not None:
            self._resume(window, entry)
            return
        if self.prepared is not None and self.collection.by_servers and window not in self.prepared:
            return  # its dummies are still being made on another thread: `tick` comes back
        expected, records = self.store.row(window).reports, self._records(window)
        if len(records) != expected * self.collection.slots:
            raise DamageError(
                f"the store is damaged: {len(records):,} messages of window {window} are not those of {expected:,} "
                "reports"
            )
        records = self._add_dummies(window, records)
        # Sorted by ciphertext, which is random: the order tells neither who came when nor which are dummies.
        order = sort_records(records)
        digest = hashlib.sha256()

        def pieces() -> Iterator[bytes]:
            for start in range(0, len(order), _ROWS):
                piece = records[order[start : start + _ROWS]].tobytes()
                digest.update(piece)
                yield piece

        write_whole(self.batch_path(window), pieces())
        self.step("renamed")
        self.store.keep_batch(window, digest.digest(), read_pieces(self.batch_path(window)))
        self.step("kept")
        manifest = self._describe(window, expected, len(records), digest.digest())
        if self.seals is not None and not self._enter(self.seals, manifest):
            return
        self._mark_written(manifest)

    def _enter(self, log: SealLog, manifest: Manifest) -> bool:
        """Make the entry of a batch; False if another shuffler, which lost its claim and went on, was faster."""
        try:
            log.create(manifest.window, _make_entry(manifest))
        except TakenError:
            entry = log.find(manifest.window)
            assert entry is not None
            self._resume(manifest.window, entry)
            return False
        self.step("logged")
        return True

    def _mark_written(self, manifest: Manifest) -> None:
        window = manifest.window
        self.store.mark_written(window, manifest.sha256, manifest.messages)
        self.note("written", window=window, reports=manifest.reports)
        # The reports are deleted, but their bytes stay in the journal of the store until it is scrubbed.
        self.unscrubbed = True
        self.step("written")

    def _add_dummies(self, window: int, records: Octets) -> Octets:
        """Return people's messages and the shuffler's own, of which nothing else is kept."""
        if not self.collection.by_servers:
            return records
        made = None if self.prepared is None else self.prepared.pop(window, None)
        added = make_dummies(self.collection, window) if made is None else made
        return np.concatenate([records, added])

    def _resume(self, window: int, entry: Entry) -> None:
        """Go on after a crash between the seal log and the store, whoever crashed: with the same bytes, or none."""
        path, row = self.batch_path(window), self.store.row(window)
        if row.state is not State.SEALED:
            # Another shuffler has finished it: what lies here may be another draw.
            self._unlink(window)
            return
        if self.store.shared:
            write_whole(path, self.store.load_batch(window, entry.batch))
        size = path.stat().st_size // self.collection.inner_size if path.exists() else 0
        manifest = self._describe(window, row.reports, size, entry.batch)
        if find_digest(path) == entry.batch and _make_entry(manifest) == entry:
            self._mark_written(manifest)
        else:
            self._give_up(window)

    def _describe(self, window: int, reports: int, messages: int, sha256: bytes) -> Manifest:
        return Manifest(
            collection_id=self.collection.id,
            window=window,
            reports=reports,
            messages=messages,
            sha256=sha256,
        )

    def _check_sealed(self, manifest: Manifest) -> None:
        """Refuse to serve what the seal log does not have, and what could still be compared with deleted rows."""
        log = self._consult()
        if log is None:
            return
        if log.find(manifest.window) != _make_entry(manifest):
            raise WireError(
                "expired", f"window {manifest.window} is not what the seal log says that it was"
            )
        if self.unscrubbed:
            self.unscrubbed = not self.store.scrub()
        if self.unscrubbed:
            raise WireError("not_ready", "deleted reports are still in the journal of the store")

    def _records(self, window: int) -> Octets:
        size = self.collection.inner_size
        room = bytearray()
        for inners in self.store.load(window):
            room += inners
        return np.frombuffer(room, dtype=np.uint8).reshape(-1, size)

    def batch_path(self, window: int) -> Path:
        """Return where the batch of a window lies."""
        return self.folder / f"batch-{window}.bin"

    def manifest(self, window: int, now: float) -> tuple[Manifest, bytes]:
        """Return the signed manifest of a batch; "not_ready" says what is missing, and when it can be."""
        manifest = self._find_manifest(window, now)
        return manifest, manifest.sign(self.secrets.sign)

    def _find_manifest(self, window: int, now: float) -> Manifest:
        """Return the manifest of a batch, if the seal log agrees; why there is none depends on the time."""
        row = self.store.row(window)
        if row.state in (State.WRITTEN, State.DELETED):
            return self._describe_sealed(row)
        if row.state is State.EXPIRED:
            least = self.collection.pledge.min_batch
            if row.reports >= least:
                raise WireError("expired", f"window {window} has left before, and was deleted")
            raise WireError(
                "expired",
                f"window {window} had fewer than min_batch={least:,} reports, and was deleted",
            )
        last = self.store.closed()
        if last is not None and window > last:
            raise WireError("expired", f"the collection was closed before window {window}")
        wait = max(0, round(self.collection.windows.closes(window) - now))
        raise WireError("not_ready", f"window {window} takes reports for another {wait} seconds")

    def _describe_sealed(self, row: WindowRow) -> Manifest:
        plain = row.reports * self.collection.slots
        messages = plain if row.messages is None else row.messages
        manifest = self._describe(row.window, row.reports, messages, row.sha256 or b"")
        self._check_sealed(manifest)
        return manifest

    def batch(self, window: int) -> Path:
        """Return the file of a batch that the analyzer has not confirmed yet."""
        row, path = self.store.row(window), self.batch_path(window)
        if row.state is State.DELETED:
            # Not "not_ready": an analyzer restored from a copy would wait for it, and for all later windows, for ever.
            raise WireError("expired", f"the batch of window {window} was handed over, and deleted")
        if row.state is not State.WRITTEN:
            raise WireError("not_ready", f"there is no batch of window {window} now")
        if self.store.shared and window not in self.fetched:  # another process may have written it
            write_whole(path, self.store.load_batch(window, row.sha256 or b""))
            self.fetched.add(window)
        if self.seals is not None:
            self._describe_sealed(row)
            if find_digest(path) != row.sha256:
                raise WireError("expired", f"window {window} has other bytes than were sealed")
        return path

    def take_receipt(self, window: int, receipt: bytes, now: float) -> None:
        """Delete the batch, which the analyzer has. A receipt that was forged changes nothing."""
        manifest = self._find_manifest(window, now)
        verify_receipt(manifest, receipt, self.collection)
        # The store first: a file that a crash leaves is unlinked by the next `advance`, but one that was unlinked
        # too early would be missing from a window that is still to be handed over.
        self.store.mark_deleted(window)
        self.note("handed over", window=window)
        self.step("deleted")
        self._unlink(window)

    def _unlink(self, window: int) -> None:
        path = self.batch_path(window)
        left = [each for each in (path, draft_of(path)) if each.exists()]
        for each in left:  # a draft, if this process died while another one finished the window
            each.unlink()
        if left:
            sync_folder(self.folder)
        self.step("unlinked")

    def status(self, now: float, *, operator: bool) -> list[dict[str, Any]]:
        """Return the windows that have begun. Counts of an open one would time individuals: operators only."""
        entries = []
        last, rows = self.store.closed(), self.store.rows()
        for window in range(self.collection.windows.count if last is None else last + 1):
            if now < self.collection.windows.opens(window):
                break
            row = rows.get(window, WindowRow(window=window, state=State.OPEN, reports=0))
            entry: dict[str, Any] = {"window": window, "state": row.state.value}
            if row.state is not State.OPEN:
                entry["reports"] = row.reports
            elif operator:
                entry["reports"] = self.store.count(window)
            entries.append(entry)
        return entries
