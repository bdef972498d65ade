"""Anybody's randomizer: what is accepted, what is refused, and that it samples its own law."""

import math
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from support import enumerated_law

HALF = Fraction(1, 2)


def test_dict_is_kept_as_it_was_given():
    given = {0: {(0, 1): HALF, (): HALF}, 1: {(1,): Fraction(1)}}
    made = sdp.audit.channel(given)
    assert [made.pmf(x) for x in (0, 1)] == list(given.values())
    assert isinstance(made, sdp.core.randomizer.Randomizer)


def test_every_way_to_write_a_probability():
    made = sdp.audit.channel([["1/4", "0.75"], [1, 0], [0.5, np.float64(0.5)], [HALF, HALF]])
    assert made.pmf(0) == {(0,): Fraction(1, 4), (1,): Fraction(3, 4)}
    assert made.pmf(1) == {(0,): Fraction(1)}
    assert made.pmf(2) == made.pmf(3)


def test_arrays_are_matrices():
    made = sdp.audit.channel(np.array([[0.5, 0.5], [0.25, 0.75]]))
    assert made.pmf(1) == {(0,): Fraction(1, 4), (1,): Fraction(3, 4)}


def test_names():
    made = sdp.audit.channel({"cat": {"miaow": 1}, "dog": {"bark": HALF, "growl": HALF}})
    assert made.domain.codes(["dog", "cat"]).tolist() == [1, 0]
    assert made.messages == ("bark", "growl", "miaow")
    assert sdp.audit.exact(made, n=2, epsilon=1.0).delta == 1.0


@pytest.mark.parametrize(
    "rows",
    [
        [[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]],
        [["1/2", "1/3"], [1, 0]],
        [[1, 0]],
        [[2, -1], [1, 0]],
        [[math.nan, 1], [1, 0]],
        [["half", "half"], [1, 0]],
        [[None, 1], [1, 0]],
        [[True, False], [1, 0]],
    ],
)
def test_refused(rows):
    with pytest.raises(sdp.ParameterError):
        sdp.audit.channel(rows)


def test_samples_its_own_law():
    rows = {
        0: {(0, 1): Fraction(3, 16), (5,): Fraction(9, 16), (): Fraction(4, 16)},
        1: {(5,): Fraction(1, 16), (2, 2, 2): Fraction(15, 16)},
    }
    made = sdp.audit.channel(rows).round(4)
    for x in (0, 1):
        assert enumerated_law(made, x) == made.pmf(x) == rows[x]


def test_codes_of_messages_that_are_no_integers():
    made = sdp.audit.channel({0: {("b", "a"): 1}, 1: {("a",): 1}})
    messages = sdp.randomize(made, [0, 1], sdp.SeededWords(1))
    assert [made.messages[code] for code in messages.payload] == ["b", "a", "a"]
    assert messages.owner.tolist() == [0, 0, 1]


def test_thirds_are_sampled_only_after_rounding():
    made = sdp.audit.channel([["1/3", "2/3"], ["2/3", "1/3"]])
    with pytest.raises(sdp.UnsupportedError, match=r"sample channel\.round\(\)"):
        sdp.randomize(made, [0], sdp.SeededWords(1))
    law = made.round().pmf(0)
    assert sum(law.values()) == 1
    assert abs(law[(0,)] - Fraction(1, 3)) < Fraction(1, 1 << 64)


def test_enumerated_function_is_our_own_randomizer():
    """The law of `encode`, called like a plain function, is the declared one."""
    krr = sdp.protocols.krr.KRR(k=3, epsilon0=1.0, word_bits=5)

    def function(x, words):
        tape = np.array([words], dtype=np.uint8)
        return krr.encode(np.array([x]), tape).of(0)

    made = sdp.audit.enumerate_tape(function, range(3), word_bits=5, words_per_input=1)
    assert [made.pmf(x) for x in range(3)] == [krr.pmf(x) for x in range(3)]


def test_two_words():
    made = sdp.audit.enumerate_tape(
        lambda x, words: [x] * sum(word < 1 for word in words),
        [7, 8],
        word_bits=2,
        words_per_input=2,
    )
    assert made.pmf(0) == {(): Fraction(9, 16), (7,): Fraction(6, 16), (7, 7): Fraction(1, 16)}


def test_long_tapes_are_refused():
    with pytest.raises(sdp.UnsupportedError, match="tapes"):
        sdp.audit.enumerate_tape(lambda x, _: x, [0, 1], word_bits=64, words_per_input=1)
