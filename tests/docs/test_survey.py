"""The survey's growth exponents are those of the theory."""

import pytest

import shuffledp as sdp
import survey

THEORY = {
    ("central", "bits"): (0, -1),
    ("central", "integers"): (0, -1),
    ("central", "reals"): (0, -1),
    ("local", "bits"): (1 / 2, -1),
    ("local", "integers"): (1 / 2, -1),
    ("local", "reals"): (1 / 2, -1),
    ("blanket, one message", "bits"): (0, None),
    ("blanket, one message", "integers"): (0, None),
    ("blanket, one message", "reals"): (1 / 6, None),
    ("vanishing communication", "bits"): (0, -1),
    ("vanishing communication", "integers"): (0, None),
    ("vanishing communication", "reals"): (0, None),
    ("almost central", "bits"): (0, -1),
    ("almost central", "integers"): (0, -1),
    ("almost central", "reals"): (0, -1),
}
"""Exponents of the error of the sum in n and in epsilon; None where theory has a logarithm as well."""


@pytest.mark.parametrize(("family", "data"), THEORY)
def test_growth_is_that_of_the_theory(family, data):
    of_n, of_epsilon = THEORY[family, data]
    rows = [row for row in survey.found() if (row.family, row.data) == (family, data)]
    assert rows
    for row in rows:
        assert row.n_exponent == pytest.approx(of_n, abs=0.02)
        assert -1.02 <= row.epsilon_exponent <= -0.55
        if of_epsilon is not None:
            assert row.epsilon_exponent == pytest.approx(of_epsilon, abs=0.02)


def test_nobody_beats_the_curator():
    for row in survey.found():
        curator = next(r for r in survey.found() if (r.family, r.data) == ("central", row.data))
        assert row.rmse >= curator.rmse * (1 - 1e-6)  # a coarse grid's is a little below Laplace


def test_messages_of_a_bit_vanish_beyond_the_first():
    few, many = (
        next(
            row.messages_per_user
            for row in sdp.growth_table(
                honest=1, data=["bits"], n=n, users=[n, 10 * n], epsilons=[0.5, 1.0]
            )
            if row.protocol == "correlated_count"
        )
        for n in (10_000, 1_000_000)
    )
    assert (few - 1) / (many - 1) == pytest.approx(100, rel=0.05)
