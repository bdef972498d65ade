"""What every store answers, call by call: the same on SQLite and on PostgreSQL."""

import hashlib
from dataclasses import replace

import pytest

import live_support as live
from shuffledp.core.errors import MismatchError
from shuffledp.live.store import DamageError, State, WindowRow, end_window, judge
from shuffledp.live.wire.report import Opened, report_id

COLLECTION = live.make_collection()
TOKENS = live.make_collection(tokens=True)
SIZE = 2 * COLLECTION.inner_size
NOW = 1001.0
SEALED = b"s" * 32


def opened(number, window=0, token=b"", collection=COLLECTION):
    inners = number.to_bytes(2, "big") * (SIZE // 2)
    return Opened(report_id(collection, window, inners), window, token, inners)


def fill(store, people=20, window=0, now=NOW):
    assert store.admit([opened(each, window) for each in range(people)], now) == [None] * people


@pytest.fixture
def store(tmp_path, every_store):
    return live.make_store(tmp_path, COLLECTION)


def test_a_new_store_knows_nothing(store):
    assert store.row(0) == WindowRow(
        window=0, state=State.OPEN, reports=0, sha256=None, messages=None
    )
    assert (store.rows(), store.count(0), store.closed(), store.last_beat()) == ({}, 0, None, None)
    assert (store.known_log(), list(store.load(0)), list(store.load_batch(0, SEALED))) == (
        None,
        [],
        [],
    )
    assert store.inspect() is None
    assert store.inspect(0) is None
    assert store.scrub() is True
    assert store.connected == 1
    assert store.origin() is None


def test_each_report_has_its_own_outcome(store):
    group = [opened(1), opened(1, window=1), opened(2), opened(1)]
    assert store.admit(group, NOW) == [None, "too_early", None, None]
    assert (store.count(0), store.count(1)) == (2, 0)
    assert sorted(store.load(0)) == [opened(1).inners, opened(2).inners]
    assert store.admit([opened(1), opened(3)], 1110.0) == [None, "too_late"]  # known, and not
    assert store.admit([opened(1, window=1), opened(1)], 1110.0) == [None, None]
    assert (store.count(0), store.count(1)) == (2, 1)
    assert store.admit([], NOW) == []


def test_the_tokens_of_a_group_are_spent_in_its_order(tmp_path, every_store):
    store = live.make_store(tmp_path, TOKENS)
    tokens = [bytes([each]) * 32 for each in range(5)]
    hashes = [hashlib.sha256(each).digest() for each in tokens]
    assert store.count_tokens(hashes) == {"unused": 0, "spent": 0, "unknown": 5}
    store.issue_tokens(hashes[:2])
    store.issue_tokens(hashes[1:4])  # one of them again
    assert store.count_tokens(hashes) == {"unused": 4, "spent": 0, "unknown": 1}

    def report(number, token, window=0):
        return opened(number, window, tokens[token], TOKENS)

    group = [report(1, 0), report(2, 0), report(3, 4), report(4, 1), report(1, 2)]
    assert store.admit(group, NOW) == [None, "token_spent", "unknown_token", None, None]
    assert store.count(0) == 2
    assert store.count_tokens(hashes) == {"unused": 2, "spent": 2, "unknown": 1}
    # Who was refused comes back with another one; who was taken needs none.
    again = [report(2, 2), report(3, 0), report(1, 4)]
    assert store.admit(again, NOW) == [None, "token_spent", None]
    assert store.count_tokens([]) == {"unused": 0, "spent": 0, "unknown": 0}
    assert store.count_tokens(hashes[2:3] * 2) == {"unused": 0, "spent": 2, "unknown": 0}
    assert sorted(store.load(0)) == [opened(each).inners for each in (1, 2, 4)]
    assert store.admit([report(9, 3, 1)], 1150.0) == [None]
    assert store.count_tokens(hashes) == {"unused": 0, "spent": 4, "unknown": 1}


def test_a_window_goes_from_open_to_deleted_and_never_back(store):
    fill(store)
    sealed = WindowRow(window=0, state=State.SEALED, reports=20)
    assert store.seal(0) == sealed
    assert store.row(0) == sealed
    assert store.seal(0) == sealed
    assert store.rows() == {0: sealed}
    assert store.admit([opened(30), opened(3)], NOW) == ["too_late", None]
    assert store.count(0) == 20
    store.mark_deleted(0)  # nobody has it yet
    assert store.row(0) == sealed
    store.mark_written(0, SEALED, messages=50)
    written = replace(sealed, state=State.WRITTEN, sha256=SEALED, messages=50)
    assert store.row(0) == written
    assert (store.count(0), list(store.load(0))) == (0, [])
    store.mark_written(0, b"t" * 32, messages=51)
    store.expire(0)
    assert store.seal(0) == written
    assert store.rows() == {0: written}
    assert store.admit([opened(3)], NOW) == ["too_late"]
    store.mark_deleted(0)
    assert store.row(0) == replace(written, state=State.DELETED)
    store.expire(0)
    assert store.rows() == {0: replace(written, state=State.DELETED)}


def test_too_few_people_are_deleted_at_the_end(store):
    fill(store, 19)
    fill(store, 3, window=1, now=1100.0)
    few = WindowRow(window=0, state=State.EXPIRED, reports=19)
    assert store.seal(0) == few
    assert (store.count(0), store.count(1)) == (0, 3)
    store.mark_written(0, SEALED)
    store.mark_deleted(0)
    assert store.rows() == {0: few}


def test_a_batch_that_cannot_be_served_is_given_up_with_its_count(store):
    fill(store, 21)
    store.seal(0)
    store.expire(0)
    given_up = WindowRow(window=0, state=State.EXPIRED, reports=21)
    assert (store.row(0), store.count(0)) == (given_up, 0)
    store.expire(0)
    assert store.row(0) == given_up
    fill(store, 2, window=1, now=1100.0)
    store.expire(1)  # while it was open
    assert store.rows() == {0: given_up, 1: WindowRow(window=1, state=State.EXPIRED, reports=2)}


def test_the_first_end_that_is_said_counts(store):
    assert store.close_after(0) == 0
    assert store.close_after(1) == 0
    assert store.closed() == 0
    group = [opened(1), opened(1, window=1)]
    assert store.admit(group, 1100.0) == ["too_late", "closed"]


def test_a_collection_that_ends_before_its_first_window_takes_nothing(store):
    assert store.close_after(-1) == -1
    assert store.admit([opened(1)], NOW) == ["closed"]
    assert store.closed() == -1


def test_the_last_time_and_the_first_log_are_kept(store):
    store.beat(12.25)
    assert store.last_beat() == 12.25
    store.beat(11.5)
    assert store.last_beat() == 11.5
    store.keep_log(b"one")
    store.keep_log(b"two")
    assert store.known_log() == b"one"


def test_one_process_claims_a_window(store):
    with store.claim(0) as mine:
        assert mine is True


def test_reports_that_are_not_what_was_acknowledged_are_damage(store):
    store.admit([opened(1), opened(2)._replace(inners=b"x" * SIZE), opened(3)], NOW)
    assert store.inspect() is None
    with pytest.raises(DamageError) as told:
        store.inspect(0)
    assert str(told.value) == "the store is damaged: 1 of 3 reports of window 0 have changed"
    assert store.inspect(1) is None


def test_a_store_belongs_to_one_collection_and_comes_back(tmp_path, store):
    fill(store, 3)
    store.beat(7.0)
    again = live.make_store(tmp_path, COLLECTION)
    assert (again.count(0), again.last_beat()) == (3, 7.0)
    with pytest.raises(MismatchError, match=r"belongs to another collection$"):
        live.make_store(tmp_path, TOKENS)


@pytest.mark.parametrize(
    ("window", "state", "last", "now", "why"),
    [
        (0, State.OPEN, None, 999.9, "too_early"),
        (0, State.OPEN, None, 1000.0, None),
        (0, State.OPEN, None, 1109.9, None),
        (0, State.OPEN, None, 1110.0, "too_late"),
        (1, State.OPEN, None, 1099.9, "too_early"),
        (1, State.OPEN, None, 1100.0, None),
        (0, State.SEALED, None, 1000.0, "too_late"),
        (0, State.OPEN, 0, 1000.0, "too_late"),
        (1, State.OPEN, 0, 1150.0, "closed"),
        (1, State.OPEN, 1, 1150.0, "too_late"),
        (1, State.OPEN, 1, 1000.0, "too_early"),
        (0, State.OPEN, -1, 0.0, "closed"),
    ],
)
def test_when_a_window_takes_reports(window, state, last, now, why):
    assert judge(COLLECTION, window, state, last, now) == why
    assert [end_window(COLLECTION, count) for count in (19, 20)] == [State.EXPIRED, State.SEALED]
