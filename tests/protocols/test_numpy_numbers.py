"""Makers take NumPy's small integers, which overflow in arithmetic, for what they are."""

import inspect

import numpy as np
import pytest

from shuffledp.protocols import PROTOCOLS

FEW = ("pure_count", "pure_histogram")  # are not for 30,000 people
OTHERS = ("hashed_tree", "hashed_prefixes", "local_prefixes")  # are for fine grids and for words
SPECS = [spec for spec in PROTOCOLS if spec.make is not None and spec.name not in FEW + OTHERS]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_the_same_protocol(spec):
    plain = {"n": 30_000, "epsilon": 1.0, "delta": 1e-6}
    small = plain | {"n": np.int16(30_000)}
    if spec.task == "histogram":
        plain, small = plain | {"k": 200}, small | {"k": np.uint8(200)}
    if "seed" in inspect.signature(spec.make).parameters:  # by default it is drawn
        plain, small = plain | {"seed": 7}, small | {"seed": np.uint8(7)}
    if "lower" in inspect.signature(spec.make).parameters:
        numbers = {"lower": 0, "upper": 100, "steps": 100}
        plain |= numbers
        small |= {name: np.int8(number) for name, number in numbers.items()}
    expected, found = spec.make(**plain), spec.make(**small)
    assert found.randomizer == expected.randomizer
    assert found.guarantee == expected.guarantee
    assert found.cost == expected.cost
    assert type(found.parameters["n"]) is int
    assert type(found.parameters.get("k", 0)) is int
