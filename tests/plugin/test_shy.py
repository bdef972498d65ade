import math

from shuffledp_shy import SPEC, make_local

from shuffledp.testing import Contract, Examples

EXAMPLES = Examples(
    SPEC,
    local=({"k": 16, "epsilon": 1.0},),
    local_tiny=({"k": 3, "epsilon": 1.0, "word_bits": 8},),
    shuffled=({"n": 10_000, "k": 16, "epsilon": 1.0, "delta": 1e-6},),
    shuffled_tiny=({"n": 3, "k": 3, "epsilon": 1.0, "delta": 0.1, "honest": 1.0, "word_bits": 8},),
)


class TestContract(Contract):
    examples = (EXAMPLES,)


def test_a_quarter_is_lost():
    shy = make_local(k=4, epsilon=math.log(3)).randomizer
    assert float(shy.p) == 3 / 8
    assert float(shy.q) == 1 / 8
