"""What a role does, in its order, and on which databases: after each step it may be killed."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from live.test_roles import fill, hand_over, open_analyzer, open_shuffler
from shuffledp.core.errors import UnsupportedError
from shuffledp.live.postgres import OLDEST, AwayError, _check_server
from shuffledp.live.shuffler import Shuffler
from shuffledp.live.store import State, draft_of


@pytest.mark.usefixtures("every_store")
def test_the_steps_of_a_window_from_its_seal_to_its_result(tmp_path):
    sealed, counted = [], []
    shuffler = open_shuffler(tmp_path / "s", step=sealed.append)
    fill(shuffler)
    sealed.clear()
    shuffler.tick(1110.0)
    analyzer = open_analyzer(tmp_path / "a", step=counted.append)
    assert hand_over(shuffler, analyzer) == "published"
    assert counted == ["stored file", "stored", "opened", "charged", "result written", "published"]
    assert sealed == ["sealed", "renamed", "kept", "written", "deleted", "unlinked"]
    assert shuffler.store.row(0).state is State.DELETED
    counted.clear()
    assert analyzer.advance(0) == "published"
    assert counted == []


@pytest.mark.parametrize(
    ("server", "durable", "error", "said"),
    [
        ({}, True, None, ""),
        ({"version": OLDEST * 10_000}, True, None, ""),
        ({"version": OLDEST * 10_000 - 1}, True, UnsupportedError, f"must be {OLDEST} or later"),
        ({"fsync": "off"}, True, UnsupportedError, "the database has fsync = off: what is"),
        ({"full_page_writes": "off"}, True, UnsupportedError, "has full_page_writes = off"),
        ({"fsync": "off", "full_page_writes": "off"}, True, UnsupportedError, "fsync and full_page_writes = off"),
        ({"fsync": "off", "full_page_writes": "off"}, False, None, ""),
        ({"transaction_read_only": "on"}, False, AwayError, "read-only: is it a standby"),
    ],
)  # fmt: skip
def test_a_database_must_keep_what_it_acknowledges(server, durable, error, said):
    usual = {"fsync": "on", "full_page_writes": "on", "transaction_read_only": "off"}
    version = server.get("version", 160_000)

    def execute(query):
        name = query.removeprefix("SHOW ")
        return SimpleNamespace(fetchone=lambda: ({**usual, **server}[name],))

    db = SimpleNamespace(info=SimpleNamespace(server_version=version), execute=execute)
    with pytest.raises(error, match=said) if error else nullcontext():
        _check_server(db, durable=durable)


@pytest.mark.parametrize(
    ("now", "last"),
    [(0.0, -1), (99.0, -1), (100.0, 0), (109.0, 0), (110.0, 1), (129.0, 2), (999.0, 2)],
)
def test_windows_that_have_begun_are_sealed_and_no_others(now, last):
    """Three of ten seconds, from second 100 on; what is asked for is on the disk before anything is done."""
    done = []
    shuffler = SimpleNamespace(
        collection=SimpleNamespace(windows=SimpleNamespace(start=100, seconds=10, count=3)),
        store=SimpleNamespace(close_after=lambda found: (done.append(found), found)[1]),
        step=done.append,
        advance=lambda window: done.append(f"window {window}"),
    )
    Shuffler.close(shuffler, now)
    assert done == [last, "closing", *(f"window {each}" for each in range(last + 1))]


@pytest.mark.parametrize("left", [(), ("batch",), ("draft",), ("batch", "draft")])
def test_a_batch_that_is_handed_over_leaves_the_disk(tmp_path, monkeypatch, left):
    done = []
    batch = tmp_path / "batch-0.bin"
    for each, path in (("batch", batch), ("draft", draft_of(batch))):
        if each in left:
            path.write_bytes(b"x")
    monkeypatch.setattr("shuffledp.live.shuffler.sync_folder", done.append)
    own = SimpleNamespace(batch_path=lambda _: batch, folder=tmp_path, step=done.append)
    Shuffler._unlink(own, 0)
    assert done == [*([tmp_path] if left else []), "unlinked"]
    assert list(tmp_path.iterdir()) == []
