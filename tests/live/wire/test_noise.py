"""The law of the dummies: every tape, its totals, its promise, and its form in the document."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import SeededWords
from shuffledp.core.errors import DataError, ParameterError, WireError
from shuffledp.live.wire.noise import Dummies, DummyKind, read_dummies
from shuffledp.testing.tapes import all_tapes

BINS, COUNT = DummyKind.BINS, DummyKind.COUNT
LAWS = [
    Dummies(kind=kind, bins=bins, rate=rate, most=most, word_bits=bits)
    for kind, bins, rate, most, bits in [
        (COUNT, 2, 1.0, 1, 3),
        (COUNT, 2, 0.5, 3, 3),
        (BINS, 2, 1.0, 2, 3),
        (BINS, 2, 0.5, 1, 2),
        (BINS, 3, 1.0, 1, 2),
    ]
]


@pytest.mark.parametrize("law", LAWS)
def test_every_tape_makes_the_declared_numbers(law: Dummies) -> None:
    tapes = all_tapes(law.word_bits, 2 * law.draws).reshape(-1, law.draws, 2)
    drawn = Counter(tuple(law.read(tape).tolist()) for tape in tapes)
    assert {each: Fraction(times, len(tapes)) for each, times in drawn.items()} == law.pmf()


@pytest.mark.parametrize("law", LAWS)
def test_totals_offset_and_variance_are_those_of_the_law(law: Dummies) -> None:
    pmf = law.pmf()
    sums = {sum(each) for each in pmf}
    assert (min(sums), max(sums)) == law.totals
    for place in range(law.bins):
        mean = sum(mass * each[place] for each, mass in pmf.items())
        assert mean == law.offset
        spread = sum(mass * (each[place] - mean) ** 2 for each, mass in pmf.items())
        assert spread == law.variance


def test_dummies_are_messages_of_their_bins() -> None:
    law = Dummies(kind=BINS, bins=5, rate=0.5, most=36)
    drawn = law.draw(SeededWords(3))
    assert np.bincount(law.messages(drawn), minlength=5).tolist() == drawn.tolist()
    exact = np.array([7, 0, 3, 0, 1])
    noisy = law.add(exact, SeededWords(3))
    assert (noisy - exact).tolist() == drawn.tolist()
    with pytest.raises(DataError, match="5 numbers >= 0"):
        law.messages(np.array([1, 2, 3, 4, -1]))
    with pytest.raises(DataError, match="must have 5 bins"):
        law.add(np.zeros(4, dtype=np.int64), SeededWords(3))


def test_the_document_carries_the_law_exactly() -> None:
    law = Dummies(kind=BINS, bins=5, rate=0.1 + 0.2, most=36)
    assert read_dummies(law.to_dict()) == law


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "words"}, "must be bins or count"),
        ({"kind": "count"}, "bins=5 must be 2 for a count"),
        ({"bins": 1}, "from 2 to"),
        ({"most": 0}, "from 1 to"),
        ({"rate": 0.5}, "must be a decimal in a string"),
        ({"rate": "0"}, "rate=0.0 must be > 0"),
        ({"more": 1}, "unknown field 'more'"),
    ],
)
def test_other_laws_are_refused(change: dict[str, object], complaint: str) -> None:
    good: dict[str, object] = {"kind": "bins", "bins": 5, "rate": "0.5", "most": 36}
    with pytest.raises(WireError, match=complaint):
        read_dummies({**good, **change})


def test_a_count_has_two_bins() -> None:
    with pytest.raises(ParameterError, match="bins=3 must be 2"):
        Dummies(kind=COUNT, bins=3, rate=0.5, most=36)
