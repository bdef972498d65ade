"""The budget that an error takes: the search reaches it, says how near it came, and spends little more."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.questions.plans import _search, _Spent

LAWS = {
    "1 / mu": lambda mu: 1 / mu,
    "1 / sqrt(mu)": lambda mu: mu**-0.5,
    "1 / mu^3": lambda mu: mu**-3,
    "in steps": lambda mu: 2.0 ** -int(np.floor(6 * np.log2(mu))),
}


@pytest.mark.parametrize("start", [0.01, 0.7, 30.0])
@pytest.mark.parametrize("wanted", [0.7, 2.0])
@pytest.mark.parametrize("law", LAWS)
def test_an_error_is_reached_and_little_more_is_spent(law, wanted, start):
    """Whatever the power is by which errors fall; nothing that was tried and good is forgotten."""
    tried = []

    def at(mu):
        tried.append(mu)
        return _Spent(None, None, mu), LAWS[law](mu)

    found = _search(at, wanted, start, 0.1, 1000)
    assert LAWS[law](found.mu) <= wanted
    assert len(tried) <= 12
    assert found.mu == min(mu for mu in tried if LAWS[law](mu) <= wanted)
    least = next(mu for mu in np.geomspace(1e-3, 60, 20_000) if LAWS[law](mu) <= wanted)
    assert found.mu <= (1.12 if law == "in steps" else 1.03) * least


def test_an_error_out_of_reach_says_how_small_it_can_be():
    said = r"error=0.2 cannot be reached with 1,000 people: even at epsilon = 25.6 it is 0.6"
    with pytest.raises(sdp.UnsupportedError, match=said):
        _search(lambda mu: (_Spent(None, None, mu), 3.0), 1.0, 0.5, 0.2, 1000)
