"""What the assembler adds to a protocol: the generator that its words come from."""

from fractions import Fraction
from functools import partial

import pytest

import shuffledp as sdp
from shuffledp.accounting.base import Computational, bound_generator
from shuffledp.core.randomizer import tape_width
from shuffledp.protocols.shared.assembly import Amplified

PROTOCOLS = [
    pytest.param(sdp.protocols.rr.make, {}, id="rr"),
    pytest.param(sdp.protocols.symmetric_unary.make, {"k": 50}, id="symmetric_unary"),
    pytest.param(sdp.protocols.zsum_sparse.make, {}, id="zsum_sparse"),
    pytest.param(sdp.protocols.dummies_histogram.make, {"k": 20}, id="dummies_histogram"),
    pytest.param(
        sdp.protocols.rounded_sum.make, {"lower": 0.0, "upper": 1.0, "steps": 9}, id="reals"
    ),
]


def added(protocol, people, epsilon):
    return bound_generator(people, tape_width(protocol.randomizer), epsilon)


@pytest.mark.parametrize(("make", "own"), PROTOCOLS)
class TestDelta:
    def test_has_room_for_the_generator(self, make, own):
        protocol = make(n=5000, epsilon=1.0, delta=1e-6, **own)
        assert isinstance(protocol.accountant, Computational)
        ideal = protocol.accountant.ideal.guarantee(4500)
        stated = protocol.guarantee
        assert Fraction(ideal.delta) + added(protocol, 5000, 1.0) <= Fraction(stated.delta)
        assert ideal.delta < stated.delta <= 1e-6
        assert (stated.epsilon, stated.honest, stated.proof) == (1.0, 4500, ideal.proof)

    @pytest.mark.parametrize("epsilon", [0.0, 0.7])
    def test_at_every_epsilon_and_for_fewer_people(self, make, own, epsilon):
        protocol = make(n=5000, epsilon=1.0, delta=1e-6, **own)
        for honest in (100, 4500):
            ideal = Fraction(protocol.accountant.ideal.delta(honest, epsilon))
            most = min(Fraction(1), ideal + added(protocol, 5000, epsilon))
            assert most <= Fraction(protocol.accountant.delta(honest, epsilon))
            assert protocol.accountant.delta(honest, epsilon) <= float(most) * (1 + 1e-15)

    def test_near_the_limit(self, make, own):
        """Here the term is no rounding error: what is left for the noise is visibly less."""
        term = added(make(n=5000, epsilon=1.0, delta=1e-6, **own), 5000, 1.0)
        wanted = float(4 * term)
        protocol = make(n=5000, epsilon=1.0, delta=wanted, **own)
        ideal = protocol.accountant.ideal.guarantee(4500).delta
        assert protocol.guarantee.delta <= wanted
        assert Fraction(ideal) + term <= Fraction(protocol.guarantee.delta)
        with pytest.raises(sdp.UnsupportedError, match="twice what the words of 5000 people add"):
            make(n=5000, epsilon=1.0, delta=float(term), **own)


def test_the_words_of_everybody_count_whoever_is_honest():
    """A million devices with 50 words each: 96 spans, or 191 where twice as many take part."""
    protocol = sdp.protocols.symmetric_unary.make(n=10**6, k=50, epsilon=1.0, delta=1e-25)
    one = partial(bound_generator, 1, 1)
    assert protocol.randomizer.words_per_input == 50
    for honest, spans in ((900_000, 96), (10, 96), (1_800_000, 191)):
        ideal = protocol.accountant.ideal.guarantee(honest)
        stated = protocol.accountant.guarantee(honest)
        more, needed = Fraction(stated.delta) - Fraction(ideal.delta), spans * one(ideal.epsilon)
        assert needed <= more <= needed * (1 + Fraction(1, 10**9))


def test_more_words_than_were_counted_at_first():
    """A device has at least one word, and this one has 50: the noise is made a second time."""
    asked = {"n": 10**6, "epsilon": 1.0, "k": 50}
    needed = bound_generator(10**6, 50, 1.0)
    assert needed > 20 * bound_generator(10**6, 1, 1.0)
    wanted = float(2.5 * needed)
    tight = sdp.protocols.symmetric_unary.make(delta=wanted, **asked)
    assert tight.guarantee.delta <= wanted
    assert Fraction(tight.accountant.ideal.guarantee(900_000).delta) + needed <= Fraction(wanted)
    with pytest.raises(sdp.UnsupportedError, match="twice what the words of 1000000 people"):
        sdp.protocols.symmetric_unary.make(delta=float(1.5 * needed), **asked)


def test_made_once_where_more_words_cost_nothing_that_is_seen(monkeypatch):
    make, made = sdp.protocols.dummies_histogram.make, []
    build = make._build
    monkeypatch.setattr(make, "_build", lambda *_, **own: made.append(1) or build(*_, **own))
    make(n=10**8, k=20, epsilon=1.0, delta=1e-12)
    assert len(made) == 1


def test_an_epsilon_that_the_generator_cannot_carry_is_lowered():
    """(1 + e^epsilon) times the advantage would be more than delta."""
    most = sdp.protocols.zsum_sparse.make(n=1000, epsilon=45.0, delta=1e-6).guarantee
    assert (most.epsilon, most.delta <= 1e-6) == (45.0, True)
    lowered = sdp.protocols.zsum_sparse.make(n=1000, epsilon=60.0, delta=1e-6).guarantee
    assert (lowered.epsilon, lowered.delta <= 1e-6) == (20.0, True)


def test_a_pure_protocol_is_pure_for_uniform_words():
    protocol = sdp.protocols.pure_count.make(n=60, epsilon=1.0)
    assert protocol.guarantee.delta == 0
    assert protocol.accountant.delta(54, 1.0) == 0
    assert protocol.accountant.delta(54, 0.5) > protocol.accountant.ideal.delta(54, 0.5) > 0


def test_amplification_answers_for_uniform_words():
    ideal = sdp.protocols.rr.make(n=5000, epsilon=1.0, delta=1e-6).accountant.ideal
    assert isinstance(ideal, Amplified)
    assert sdp.amplify(epsilon0=0.5, n=5000, delta=1e-300).delta == 1e-300


class TestExplained:
    def test_what_is_in_delta(self):
        text = sdp.explain(sdp.protocols.rr.make(n=5000, epsilon=1.0, delta=1e-6))
        assert "cannot break AES-256: delta includes 3.8e-28" in text

    def test_what_is_not(self):
        local = sdp.explain(sdp.protocols.rr.make_local(epsilon=1.0))
        assert (
            "those of uniform words; ours could add at most 1.6e-27 for 1,000,000 people." in local
        )
        pure = sdp.explain(sdp.protocols.pure_count.make(n=60, epsilon=1.0))
        assert "those of uniform words; ours could add at most 3.8e-28." in pure

    def test_the_word_that_rounds_is_in_the_size(self):
        """Three words of a person are two blocks of the cipher, the two of the noise alone are one."""
        hybrid = sdp.protocols.hybrid.make_local(lower=0.0, upper=1.0, steps=10, epsilon=1.0)
        assert (hybrid.randomizer.words_per_input, tape_width(hybrid.randomizer)) == (2, 3)
        assert "ours could add at most 3.1e-27 for 1,000,000 people" in sdp.explain(hybrid)


def test_the_word_that_rounds_a_real_is_counted():
    real = sdp.protocols.rounded_sum.make(
        n=5000, epsilon=1.0, delta=1e-6, lower=0.0, upper=1.0, steps=9
    )
    assert real.accountant.words_per_input == real.randomizer.words_per_input + 1
