"""What the generator adds to delta, however the words are divided among keys."""

from fractions import Fraction

import pytest

from shuffledp.accounting.base import bound_generator
from shuffledp.numerics.entropy import SPAN_WORDS, SecureWords, prf_advantage
from shuffledp.numerics.rounding import exp_lower, exp_upper


def both(epsilon):
    return 1 + exp_lower(epsilon), 1 + exp_upper(epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 5.0, 40.0])
@pytest.mark.parametrize("people", [1, 1000, 10**6, 10**9])
@pytest.mark.parametrize("words", [1, 2, 7, 1000, SPAN_WORDS - 1, SPAN_WORDS, 3 * SPAN_WORDS])
def test_covers_every_way_to_divide_the_words(people, words, epsilon):
    """One stream; a key for each person; a key for each thousand, as in the parts of a run."""
    low, _ = both(epsilon)
    bound = bound_generator(people, words, epsilon)
    for group in {1, min(people, 1000), people}:
        parts = -(-people // group)
        advantage = parts * Fraction(prf_advantage(group * words))
        if people % group == 0:
            assert min(1, low * advantage) <= bound
    spans = -(-people * (words + words % 2) // SPAN_WORDS)
    assert bound <= min(1, both(epsilon)[1] * spans * Fraction(prf_advantage(SPAN_WORDS)))


def test_many_spans_that_are_not_quite_full():
    """The worst division: here the claim is an equation, up to the half block that is counted as a whole one."""
    people, words = 10**6, SPAN_WORDS - 1
    each_its_own = people * Fraction(prf_advantage(words))
    bound = bound_generator(people, words, 0.0)
    assert 2 * each_its_own <= bound <= 2 * each_its_own * (1 + Fraction(1, 10**6))


def test_a_span_is_what_shares_a_key(monkeypatch):
    keys = []
    monkeypatch.setattr(
        "shuffledp.numerics.entropy.hmac.digest", lambda *a: keys.append(a) or bytes(32)
    )
    source = SecureWords()
    source.words(SPAN_WORDS)
    assert len(keys) == 1
    source.words(1)
    assert len(keys) == 2


def test_never_above_1_and_for_every_epsilon():
    assert bound_generator(1, 1, 1e6) == bound_generator(10**15, 10**6, 60.0) == 1
