"""Closing early is an intention on the disk: finished after any restart, and no later window opens."""

import pytest

import live_support as live
from live.test_roles import (
    COLLECTION,
    CrashError,
    crash_at,
    fill,
    hand_over,
    open_analyzer,
    open_shuffler,
    refused,
    upload,
)
from shuffledp.live.store import State

pytestmark = pytest.mark.usefixtures("every_store")
NOW = 1050.0  # window 0 takes reports until 1110
LATER = 1150.0  # in window 1


@pytest.mark.parametrize("step", ["closing", "sealed", "renamed", "kept", "written"])
def test_a_crash_while_closing_is_finished_by_the_next_start(tmp_path, step):
    shuffler = open_shuffler(tmp_path / "s", step=crash_at(step))
    fill(shuffler)
    with pytest.raises(CrashError):
        shuffler.close(NOW)
    shuffler.store.close()
    again = open_shuffler(tmp_path / "s")
    late = live.make_inners(COLLECTION, 0, 99)
    assert again.receive(upload(late), NOW).failed == ((0, "too_late"),)
    again.tick(NOW)
    assert again.store.row(0).state is State.WRITTEN
    assert hand_over(again, open_analyzer(tmp_path / "a"), now=NOW) == "published"


def test_no_later_window_opens(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.close(NOW)
    for again in (shuffler, open_shuffler(tmp_path / "s")):
        report = upload(live.make_inners(COLLECTION, 1, 5), window=1)
        assert again.receive(report, LATER).failed == ((0, "closed"),)
        again.tick(LATER + 1000)
        assert [row["window"] for row in again.status(LATER, operator=True)] == [0]
        assert again.store.row(1).state is State.OPEN  # it never was anything else
        assert refused(again.manifest, 1, LATER) == "expired"


def test_closing_before_the_first_window_takes_nothing_at_all(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    shuffler.close(900.0)
    assert shuffler.receive(upload(live.make_inners(COLLECTION, 0, 1)), NOW).failed == (
        (0, "closed"),
    )
    assert refused(shuffler.manifest, 0, NOW) == "expired"


def test_closing_long_after_the_end_seals_the_windows_that_were(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    count = COLLECTION.windows.count
    shuffler.close(COLLECTION.windows.start + (count + 5) * COLLECTION.windows.seconds)
    assert shuffler.store.closed() == count - 1
    rows = shuffler.status(1e9, operator=True)
    assert [row["window"] for row in rows] == list(range(count))


def test_closing_again_changes_nothing(tmp_path):
    shuffler = open_shuffler(tmp_path / "s")
    fill(shuffler)
    shuffler.close(NOW)
    shuffler.close(LATER)
    assert shuffler.store.row(1).state is State.OPEN
    assert shuffler.store.closed() == 0
    assert shuffler.receive(upload(live.make_inners(COLLECTION, 1, 5), window=1), LATER).failed == (
        (0, "closed"),
    )


def test_a_report_that_was_taken_is_acknowledged_again_after_the_close(tmp_path):
    """Its first reply may have been lost; once the batch is written nobody knows any more."""
    shuffler = open_shuffler(tmp_path / "s", step=crash_at("sealed"))
    fill(shuffler)
    with pytest.raises(CrashError):
        shuffler.close(NOW)
    known = live.make_inners(COLLECTION, 0, 3)
    shuffler.store.close()
    again = open_shuffler(tmp_path / "s")
    from live.test_roles import POOL

    assert again.receive(upload(POOL[3]), NOW).failed == ()
    assert again.receive(upload(known), NOW).failed == ((0, "too_late"),)
