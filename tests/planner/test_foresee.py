"""The worst bin is foreseen, not simulated: the same widths as a dealt tally, and no work for every bin."""

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.planner.question import Problem, candidates
from shuffledp.planner.rows import measure, worst_bin

N, K = 3_000, 12
ASKED = Problem.of("histogram", n=N, k=K, epsilon=1.5, delta=1e-5, honest=0.9)
MADE = {
    f"{each.name}-{each.model.value}": each
    for each in candidates(ASKED.task)
    if each.model is not sdp.Model.CENTRAL
}
LEVEL = 0.95


@pytest.mark.parametrize("name", MADE)
def test_no_dealt_tally_has_narrower_intervals(name):
    """At the same counts the widths are the same; noise beside them can only widen the largest one."""
    protocol = measure(MADE[name], ASKED).made
    if not protocol.dealt or name.startswith("count_min"):
        pytest.skip("nothing to compare with")
    inputs = np.zeros(K, dtype=np.int64)
    inputs[3] = N
    dealt = protocol.analyzer.estimate(protocol.randomizer.deal(inputs, sdp.SeededWords(5)))
    low, high = dealt.interval(1 - (1 - LEVEL) / K)
    widest = float(np.max(np.maximum(dealt.value - low, high - dealt.value)))
    foreseen = worst_bin(protocol, inputs, LEVEL)
    assert 0.5 * widest <= foreseen <= 1.1 * widest


@pytest.mark.parametrize("name", MADE)
def test_what_is_foreseen_is_the_truth(name):
    protocol = measure(MADE[name], ASKED).made
    if protocol.offers.foresee is None or name.startswith(("count_min", "zsum")):
        pytest.skip("biased, or another one")
    inputs = np.array([N - 40, 40] + [0] * (K - 2))
    foreseen = protocol.offers.foresee(inputs)
    step = 1 / float(getattr(protocol.randomizer, "lead", 1))  # of a whole number of messages
    values = np.asarray(foreseen.value)
    assert all(np.abs(values - count).min() <= step for count in (0, 40, N - 40))


def test_equal_bins_are_computed_once():
    asked = Problem.of("histogram", n=10**6, k=10**5, epsilon=1.0, delta=1e-8, honest=0.9)
    each = next(each for each in candidates(asked.task) if each.name == "correlated_histogram")
    measured = measure(each, asked)
    foreseen = measured.made.analyzer.foresee(measured.inputs)
    assert np.shape(foreseen.value) == (2,)


def test_equal_blocks_are_computed_once():
    """At a large epsilon there are nearly as many blocks as categories: one has all people, the others nobody."""
    inputs = np.zeros(10**5, dtype=np.int64)
    inputs[7] = 239
    made = sdp.protocols.hadamard.make_local(k=10**5, epsilon=11.0)
    assert made.randomizer.blocks > 1000
    foreseen = made.analyzer.foresee(inputs)
    assert np.shape(foreseen.value) == (
        3,
    )  # the bin, another one of its block, one of another block
