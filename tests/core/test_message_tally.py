"""Counting packed codes is counting."""

from collections import Counter

import numpy as np
import pytest

from shuffledp.core.analyzer import CodeCounter, check_messages, count_codes, message_tally
from shuffledp.core.errors import DataError
from shuffledp.core.randomizer import Shuffled


@pytest.mark.parametrize("alphabet", [2, 3, 8, 9, 64, 65])
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 1023, 16_384, 20_001])
def test_every_message_is_counted_once(alphabet, n):
    # Skewed, so that a confusion of bins shows; the last bins stay empty.
    drawn = np.random.default_rng(n).geometric(0.4, size=n) - 1
    payload = np.minimum(drawn, alphabet - 1).astype(np.uint8)
    found = message_tally(Shuffled(payload=payload, users=n), alphabet)
    seen = Counter(payload.tolist())
    assert found.counts.tolist() == [seen[message] for message in range(alphabet)]
    assert found.users == n


@pytest.mark.parametrize("size", [2, 8, 9, 16, 17, 64, 65, 10**5])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, np.uint64])
def test_codes_are_counted_in_parts(size, dtype):
    largest = min(size, np.iinfo(dtype).max + 1)
    codes = np.random.default_rng(size).geometric(0.3, size=300_007).clip(max=largest) - 1
    codes = codes.astype(dtype)
    counter = CodeCounter(size)
    for part in (codes[:3], codes[3:3], codes[3:100_000], codes[100_000::2], codes[100_001::2]):
        counter.add(part)
    expected = np.bincount(codes.astype(np.int64), minlength=size).tolist()
    assert counter.total().tolist() == expected
    assert count_codes(codes, size).tolist() == expected


@pytest.mark.parametrize(
    "payload", [np.zeros((2, 1), np.int64), np.zeros(2), np.zeros((), np.int64), np.array(["0"])]
)
def test_messages_are_integers_in_one_column(payload):
    with pytest.raises(DataError, match=r"^messages are integers 0 \.\. 3, not "):
        check_messages(payload, 4)


def test_messages_end_where_the_alphabet_does():
    check_messages(np.array([0, 3]), 4)
    check_messages(np.zeros(0, np.uint8), 4)
    for outside in (-1, 4):
        with pytest.raises(DataError) as caught:
            check_messages(np.array([0, outside, 3]), 4)
        assert str(caught.value) == "a message is outside 0 .. 3"
