"""The law of the dummies: every tape, its totals, its promise, and its form in the document."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import SeededWords
from shuffledp.core.errors import DataError, ParameterError, WireError
from shuffledp.live.wire.noise import Dummies, DummyKind, HashedDummies, read_dummies
from shuffledp.testing import all_tapes

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
    assert np.bincount(law.make(SeededWords(3)), minlength=5).tolist() == drawn.tolist()
    with pytest.raises(DataError, match="5 numbers >= 0"):
        law.messages(np.array([1, 2, 3, 4, -1]))


def test_the_document_carries_the_law_exactly() -> None:
    law = Dummies(kind=BINS, bins=5, rate=0.1 + 0.2, most=36)
    assert read_dummies(law.to_dict()) == law


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "words"}, "must be bins, count or hashed"),
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


def test_every_word_makes_one_of_the_messages_of_the_family() -> None:
    """Uniform: as many words make each."""
    law = HashedDummies(messages=5, r=2, s=2, width=3)
    made = Counter(map(tuple, law.read(np.arange(64, dtype=np.uint8)).tolist()))
    assert made == {(a, v): 4 for a in range(4) for v in range(4)}
    drawn = law.make(SeededWords(3))
    assert drawn.tolist() == law.read(SeededWords(3).words(5, 64)).tolist()
    assert (law.totals, law.mean_total, law.words) == ((5, 5), 5, 5)
    assert law.support == Fraction(3, 4)


def test_the_document_carries_the_hashing_exactly() -> None:
    law = HashedDummies(messages=113_092, r=32, s=16, width=36)
    assert read_dummies(law.to_dict()) == law


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"messages": 0}, "from 1 to"),
        ({"messages": 200_001}, "from 1 to"),
        ({"r": 25}, "r=25 must be one of"),
        ({"s": 33}, "from 1 to"),
        ({"r": 8}, "s=16 must be"),
        ({"width": 1 << 16}, "width=65536 must be"),
        ({"width": 0}, "from 1 to"),
        ({"rate": "0.5"}, "unknown field 'rate'"),
        ({"kind": "bins"}, "must have the field 'bins'|bins"),
    ],
)
def test_other_hashings_are_refused(change: dict[str, object], complaint: str) -> None:
    good = HashedDummies(messages=113_092, r=32, s=16, width=36).to_dict()
    with pytest.raises(WireError, match=complaint):
        read_dummies({**good, **change})
