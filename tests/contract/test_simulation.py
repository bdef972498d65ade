"""Where a tally is drawn from the counts of the codes, it has the law of the tally of messages."""

import numpy as np
import pytest

import shuffledp as sdp
from branches import law_of
from contract.examples import all_examples
from shuffledp import run_counts
from shuffledp.numerics.draws import Simulated, is_dealt


def cases(group):
    found = [case for examples in all_examples() for case in examples.cases(group)]
    return [pytest.param(case, id=case.label) for case in found]


@pytest.mark.parametrize("case", cases("shuffled_tiny"))
def test_simulation_has_the_law_of_the_messages(case):
    if not isinstance(case.protocol.randomizer, Simulated):
        pytest.skip("has no simulation")
    protocol, size = case.protocol, case.size
    for data in ([0], [0, size - 1], [0, min(1, size - 1), size - 1]):
        inputs = np.bincount(data, minlength=size)
        simulated = law_of(
            lambda draws, inputs=inputs: tuple(
                protocol.randomizer.simulate(inputs, draws).counts.tolist()
            )
        )
        wanted = case.tally_law(data)
        assert set(simulated) <= set(wanted)
        for tally, mass in wanted.items():
            assert float(simulated.get(tally, 0)) == pytest.approx(float(mass), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("case", cases("shuffled"))
def test_counts_engine_is_near_the_truth(case):
    if not is_dealt(case.protocol.randomizer):
        pytest.skip("its tally cannot be drawn")
    n, size = case.parameters["n"], case.size
    inputs = np.random.default_rng(1).multinomial(n, np.full(size, 1 / size))
    estimate = run_counts(case.protocol, inputs, sdp.SeededWords(5))
    low, high = estimate.interval(1 - 1e-12)
    if case.protocol.task == "histogram":
        assert np.all(np.asarray(low) <= inputs)
        assert np.all(np.asarray(high) >= inputs)
