"""Counting by pairs is counting."""

from collections import Counter

import numpy as np
import pytest

from shuffledp.core.analyzer import message_tally
from shuffledp.core.shuffler import Shuffled


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
