"""Who drops out makes no noise: the guarantee is that of the people who took part."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.core.analyzer import Tally
from shuffledp.core.protocol import honest_users
from shuffledp.numerics.rounding import exp_lower

PLANNED = sdp.protocols.zsum_sparse.make(n=1_000_000, epsilon=1.0, delta=1e-6)


def collected(people, protocol=PLANNED):
    tally = Tally(counts=np.array([people // 2], dtype=np.int64), users=people)
    return sdp.Answer.of(sdp.engine.Collected(protocol=protocol, tally=tally))


def test_a_hundred_people_do_not_have_the_promise_of_a_million():
    answer = collected(100)
    assert answer.guarantee.honest == 90
    assert answer.guarantee.delta > 0.99
    assert any("100 took part" in said for said in answer.warnings)
    assert "1,000,000" in answer.explain()
    assert "90 of the 100 people" in answer.explain()
    assert answer.to_dict()["delta"] == answer.guarantee.delta


def test_a_share_of_those_who_took_part_is_honest():
    """After a tenth has dropped out, a tenth of the rest may still lie."""
    answer = collected(900_000)
    assert answer.guarantee.honest == honest_users(900_000, 0.9) == 810_000
    assert answer.guarantee == PLANNED.accountant.guarantee(810_000)
    assert answer.guarantee.delta > PLANNED.guarantee.delta


def test_with_everybody_there_nothing_changes():
    assert collected(1_000_000).guarantee == PLANNED.guarantee
    assert collected(1_000_000).warnings == []


@pytest.mark.parametrize("people", [2, 3])
def test_the_recomputed_guarantee_holds(people):
    """By enumeration, for the protocol that was made for more people."""
    planned = sdp.protocols.zsum_sparse.make(n=4, epsilon=1.0, delta=0.2, honest=1.0, word_bits=8)
    stated = planned.with_people(people).guarantee
    assert stated.honest == people
    laws = [planned.randomizer.pmf(x) for x in (0, 1)]
    exact = shuffled_delta(laws, people, exp_lower(stated.epsilon))
    assert planned.guarantee.delta < float(exact) <= stated.delta * (1 + 1e-12)


def test_local_protocols_need_nobody():
    local = sdp.protocols.krr.make_local(k=3, epsilon=1.0)
    assert local.with_people(5) is local
