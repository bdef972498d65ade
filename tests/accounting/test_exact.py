"""The oracle itself, against enumeration that shares no code with it."""

import math
from collections import Counter
from fractions import Fraction
from itertools import product

import pytest

from shuffledp.accounting.exact import data_set_delta, local_delta, local_ratio, shuffled_delta
from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.protocols.krr import KRR

F = Fraction
TWO_MESSAGES = [
    {(): F(1, 4), (1,): F(1, 4), (1, 2): F(1, 4), (2, 1): F(1, 4)},
    {(): F(1, 8), (2,): F(3, 8), (1, 1): F(1, 2)},
]
LOPSIDED = [
    {(0,): F(1, 2), (1,): F(1, 3), ((2, 3),): F(1, 6)},
    {(0,): F(1, 5), (1,): F(2, 5), ((2, 3),): F(2, 5)},
    {(0,): F(1, 4), (1,): F(1, 4), ((2, 3),): F(1, 2)},
]


def krr(k: int, p: Fraction) -> list[dict[tuple[int, ...], Fraction]]:
    return [{(y,): (p if y == x else F(1)) / (p + k - 1) for y in range(k)} for x in range(k)]


def view(laws, data):
    """The law of the multiset, by listing what every user may send."""
    law: Counter = Counter()
    for sent in product(*(laws[x].items() for x in data)):
        messages = sorted((m for messages, _ in sent for m in messages), key=repr)
        law[tuple(messages)] += math.prod(q for _, q in sent)
    return law


def slow_delta(laws, n, E):
    worst = F(0)
    for data in product(range(len(laws)), repeat=n):
        for x in range(len(laws)):
            a, b = view(laws, data), view(laws, (x, *data[1:]))
            worst = max(worst, sum(max(F(0), q - E * b[o]) for o, q in a.items()))
    return worst


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("E", [F(1), F(9, 8), F(2)])
@pytest.mark.parametrize("laws", [TWO_MESSAGES, LOPSIDED, krr(3, F(5, 2))])
def test_equal_to_listing_everything(laws, n, E):
    assert shuffled_delta(laws, n, E) == slow_delta(laws, n, E)


def test_one_user_is_the_local_view_of_one_message():
    for E in (F(1), F(3, 2), F(2)):
        assert shuffled_delta(LOPSIDED, 1, E) == local_delta(LOPSIDED, E)


def test_the_local_view_sees_the_order_and_the_shuffled_view_does_not():
    laws = [{(1, 2): F(1)}, {(2, 1): F(1)}]
    assert local_delta(laws, 1) == 1
    assert shuffled_delta(laws, 1, 1) == 0
    assert local_ratio(laws) == math.inf


def test_ratio_is_where_the_local_delta_vanishes():
    ratio = local_ratio(LOPSIDED)
    assert ratio == F(1, 2) / F(1, 6)
    assert local_delta(LOPSIDED, ratio) == 0
    assert local_delta(LOPSIDED, ratio - F(1, 1000)) > 0


def test_laws_that_a_randomizer_declares():
    randomizer = KRR(k=3, epsilon0=1.0, word_bits=8)
    laws = [randomizer.pmf(x) for x in range(3)]
    assert local_ratio(laws) == randomizer.p / randomizer.q
    assert shuffled_delta(laws, 4, F(3, 2)) < shuffled_delta(laws, 3, F(3, 2))


@pytest.mark.parametrize(
    ("n", "f", "s", "epsilon", "one_zero", "zero_one"),
    [
        (100, F(1, 10), 0, 0.5, 1.32226119908e-3, 9.79843353081e-3),
        (100, F(1, 10), 50, 0.5, 3.33876140267e-3, 3.42072623131e-3),
        (300, F(1, 20), 0, 1.0, 5.46584389466e-11, 1.51411105558e-4),
    ],
)
def test_binary_randomized_response_vectors(n, f, s, epsilon, one_zero, zero_one):
    laws = [{(0,): 1 - f, (1,): f}, {(0,): f, (1,): 1 - f}]
    others = [1] * s + [0] * (n - 1 - s)
    E = F(math.exp(epsilon))
    assert float(data_set_delta(laws, others, (1, 0), E)) == pytest.approx(one_zero, rel=1e-9)
    assert float(data_set_delta(laws, others, (0, 1), E)) == pytest.approx(zero_one, rel=1e-9)


def test_too_much_work_is_refused_with_an_estimate():
    with pytest.raises(UnsupportedError, match=r"n=1000 users with 10 inputs .* steps"):
        shuffled_delta(krr(10, F(3)), 1000, F(2))


@pytest.mark.parametrize(
    ("laws", "n", "ratio"),
    [
        (krr(2, F(3))[:1], 2, F(2)),
        ([{(0,): F(1, 2)}, {(0,): F(1)}], 2, F(2)),
        ([{(0,): F(3, 2), (1,): F(-1, 2)}, {(0,): F(1)}], 2, F(2)),
        (krr(2, F(3)), 0, F(2)),
        (krr(2, F(3)), 2, F(1, 2)),
        (krr(2, F(3)), 2, 1.5),
    ],
)
def test_bad_questions(laws, n, ratio):
    with pytest.raises(ParameterError):
        shuffled_delta(laws, n, ratio)
