"""A clock that jumps ends no window, and deletes nothing."""

import pytest

from shuffledp.live.serve.shuffler import ABSENCE, JUMP, Watch

WEEK = 7 * 86_400.0


def make(last=None, now=1000.0):
    return Watch.start(now, uptime=10.0, last=last)


@pytest.mark.parametrize("off", [JUMP + 60, 60 * WEEK, -JUMP - 60, -WEEK])
def test_a_jump_is_not_believed_until_it_is_undone(off):
    watch = make()
    assert watch.judge(1001.0, uptime=11.0) is None
    for uptime in (12.0, 13.0, 500.0):
        assert watch.judge(990.0 + uptime + off, uptime=uptime) is not None
    assert watch.judge(990.0 + 600.0, uptime=600.0) is None


def test_many_small_jumps_are_one_large_one():
    watch = make()
    seconds = [watch.judge(1000.0 + 600.0 * step, uptime=10.0 + step) for step in range(20)]
    assert seconds[0] is None
    assert seconds[-1] is not None


def test_a_clock_that_drifts_is_believed():
    """Four tenths of a second in a thousand, for a year."""
    watch = make()
    for day in range(1, 366):
        assert watch.judge(1000.0 + day * 86_400.0 * 1.0004, uptime=10.0 + day * 86_400.0) is None


def test_the_last_time_in_the_store_is_compared_at_the_start():
    assert (
        make(last=1000.0, now=1000.0 + ABSENCE - 60).judge(1000.0 + ABSENCE - 60, uptime=10.0)
        is None
    )
    away = make(last=1000.0)
    assert "ahead of the last time in the store" in away.judge(1000.0 + ABSENCE + 60, uptime=10.0)
    assert "behind" in make(last=1000.0).judge(1000.0 - JUMP - 60, uptime=10.0)
    away.believe(1000.0 + 60 * WEEK, uptime=11.0)
    assert away.judge(1001.0 + 60 * WEEK, uptime=12.0) is None
    assert away.judge(1001.0, uptime=12.0) is not None


def test_after_a_start_an_hour_is_the_limit_again():
    watch = make(last=1000.0)
    assert watch.judge(2000.0, uptime=10.0) is None
    assert watch.judge(2001.0 + JUMP + 60, uptime=11.0) is not None
