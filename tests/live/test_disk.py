"""Files that are whole or not there, and secrets that nobody else may read."""

import os
import sqlite3
import stat
from pathlib import Path

import pytest

import shuffledp as sdp
from live.test_roles import COLLECTION
from shuffledp.live.analyzer import Analyzer
from shuffledp.live.device import Device
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets
from shuffledp.live.serve.folders import Home
from shuffledp.live.store import (
    SqliteStore,
    check_private,
    draft_of,
    read_private,
    write_private,
    write_whole,
)


@pytest.fixture
def events(monkeypatch):
    """What happens to the disk, in order: which files are synced, and renames."""
    seen = []
    fsync, rename = os.fsync, Path.rename

    def note_sync(handle):
        mode = os.fstat(handle).st_mode
        size = os.fstat(handle).st_size
        seen.append("sync folder" if stat.S_ISDIR(mode) else f"sync {size} bytes")
        fsync(handle)

    def note_rename(self, target):
        seen.append(f"rename to {Path(target).name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "rename", note_rename)
    return seen


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_before_we_go_on(
    tmp_path, events
):
    write_whole(tmp_path / "batch-0.bin", [b"four", b"more"])
    assert events == ["sync 8 bytes", "rename to batch-0.bin", "sync folder"]
    assert (tmp_path / "batch-0.bin").read_bytes() == b"fourmore"
    assert stat.S_IMODE((tmp_path / "batch-0.bin").stat().st_mode) == 0o600


def test_tokens_are_on_the_disk_before_their_hashes_are_told(tmp_path, events):
    write_private(tmp_path / "tokens.txt", b"secret")
    assert events == ["sync 6 bytes", "sync folder"]


def test_a_new_collection_with_its_folder_is_on_the_disk_before_its_link_is_told(
    tmp_path, monkeypatch
):
    synced, fsync = [], os.fsync

    def note(handle):
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        fsync(handle)

    monkeypatch.setattr(os, "fsync", note)
    home = Home(tmp_path / "survey")
    home.create(COLLECTION, ShufflerSecrets.generate(2), AnalyzerSecrets.generate())
    assert synced[-3:] == [draft_of(home.document), home.path, tmp_path]


@pytest.mark.parametrize("role", ["device", "analyzer"])
def test_no_commit_can_be_taken_back_by_a_power_failure(tmp_path, monkeypatch, role):
    """With a journal that is deleted, FULL does not sync the folder afterwards: the journal may come back."""
    at_commit = set()

    class Watched(sqlite3.Connection):
        def execute(self, statement, *arguments):
            if statement == "COMMIT":
                asked = ("synchronous", "journal_mode")
                at_commit.add(tuple(super(Watched, self).execute(f"PRAGMA {each}").fetchone()[0] for each in asked))  # fmt: skip
            return super().execute(statement, *arguments)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **o: real(*a, factory=Watched, **o))
    if role == "device":
        Device(tmp_path / "outbox").close()
    else:
        Analyzer(collection=COLLECTION, secrets=AnalyzerSecrets.generate(), folder=tmp_path).close()
    assert at_commit == {(3, "delete")}  # 3 is EXTRA


@pytest.mark.parametrize("bit", range(6))
@pytest.mark.parametrize("what", ["folder", "file"])
def test_no_bit_for_the_group_or_for_others(tmp_path, bit, what):
    """One bit is enough: to read, to write or to enter, for the group or for everybody."""
    folder = tmp_path / "keys"
    folder.mkdir(mode=0o700)
    path = folder / "keys.json"
    path.write_bytes(b"{}")
    path.chmod(0o600)
    assert read_private(path) == b"{}"
    changed, least = (folder, 0o700) if what == "folder" else (path, 0o600)
    changed.chmod(least | 1 << bit)
    with pytest.raises(sdp.DataError, match=f"chmod {least:o}"):
        read_private(path)
    with pytest.raises(sdp.DataError, match="may be read by others"):
        check_private(changed)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: None, "cannot be opened: unable to open database file"),
        (lambda path: path.mkdir(parents=True), "cannot be opened: unable to open database file"),
        (lambda path: (path.parent.mkdir(), path.write_text("not a database at all")), "is damaged: file is not a database"),
    ],
)  # fmt: skip
def test_a_database_that_cannot_be_used_is_named(tmp_path, make, said):
    path = tmp_path / "folder" / "store"
    make(path)
    for open_one in (Device, lambda path: SqliteStore(path, COLLECTION)):
        with pytest.raises(sdp.DataError) as told:
            open_one(path)
        assert str(told.value) == f"{path} {said}"
