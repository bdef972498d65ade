"""Words have 1 to 64 bits: every device refuses other widths itself, whoever makes it."""

import importlib
import inspect
import pkgutil
from dataclasses import fields, replace

import pytest

from contract.examples import all_examples
from shuffledp import ParameterError, protocols

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


WIDTHS = {"hadamard_blanket", "local_hashing", "unary", "fake_users"}
"""The files of devices that read many words of 32 bits; all others read words of 64."""


def test_widths_that_nobody_chose():
    """A narrower word rounds every probability a bit more: nobody gets one without asking for it."""
    made = 0
    for module in pkgutil.iter_modules(protocols.__path__):
        loaded = importlib.import_module(f"{protocols.__name__}.{module.name}")
        for name, each in vars(loaded).items():
            if not callable(each) or getattr(each, "__module__", "") != loaded.__name__:
                continue
            width = inspect.signature(each).parameters.get("word_bits")
            if width is not None and width.default is not width.empty:
                made += 1
                assert width.default == (32 if module.name in WIDTHS else 64), (module.name, name)
    assert made > 50


def test_numbers_of_another_type_are_refused_by_name():
    """By every device and analyzer, of every number that it is made of."""
    seen = set()
    for (case,) in (each.values for each in CASES):
        for part in (case.protocol.randomizer, case.protocol.analyzer):
            for each in fields(part):
                value, place = getattr(part, each.name), (type(part), each.name)
                if not each.init or place in seen or type(value) not in (int, float):
                    continue
                seen.add(place)
                for wrong in ("7", True, *([value + 0.5] if type(value) is int else [])):
                    with pytest.raises(ParameterError, match=each.name):
                        replace(part, **{each.name: wrong})
    assert len(seen) > 80


def test_makers_say_what_they_make():
    for each in (each for each in all_examples() if each.spec.make is not None):
        said = inspect.signature(each.spec.make).return_annotation
        assert getattr(said, "__name__", said) == "ShuffleProtocol", each.spec.name
