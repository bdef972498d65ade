"""Files that are whole or not there, and secrets that nobody else may read."""

import os
import stat
from pathlib import Path

import pytest

import shuffledp as sdp
from shuffledp.live.store import check_private, read_private, write_whole


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
