"""Words have 1 to 64 bits: every device refuses other widths itself, whoever makes it."""

from dataclasses import fields, replace

import pytest

from contract.examples import all_examples
from shuffledp import ParameterError

CASES = [
    pytest.param(case, id=f"{each.spec.name}-{case.model.value}")
    for each in all_examples()
    for case in [next(iter(each.cases("tiny")), None) or next(iter(each.cases("ordinary")))]
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("bits", [0, -1, 65, 8.5, True, "8"])
def test_words_of_another_width_are_refused(case, bits):
    device = case.protocol.randomizer
    if "word_bits" not in {each.name for each in fields(device)}:
        pytest.skip("it has the words of its parts")
    given = {each.name for each in fields(device) if each.init}
    if "word_bits" in given:
        with pytest.raises(ParameterError, match="word_bits"):
            replace(device, word_bits=bits)
    if "word_bits" in case.parameters:
        with pytest.raises(ParameterError, match="word_bits"):
            case.make(word_bits=bits)
