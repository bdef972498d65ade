"""What devices and mechanisms print: what they were given, and none of the tables that they are made with."""

import pytest

from shuffledp import Reals
from shuffledp.mechanisms.selection import PermuteAndFlip
from shuffledp.protocols import make
from shuffledp.protocols.gaussian import GaussianNoise
from shuffledp.protocols.levels import Levels

GIVEN = {"n": 1000, "epsilon": 1.0, "delta": 1e-5}


@pytest.mark.parametrize(
    ("name", "own", "hidden"),
    [
        ("correlated_count", {}, ("noise=", "flood=")),
        (
            "correlated_histogram",
            {"k": 3},
            ("noise=", "flood=", "domain=", "words_per_input="),
        ),
        ("zero_sum_flooding", {"lower": 0, "upper": 2}, ("noise=", "flood=")),
    ],
)
def test_tables_are_not_printed(name, own, hidden):
    said = repr(make(name, **GIVEN, **own).randomizer)
    assert len(said) < 400
    assert not [each for each in hidden if f" {each}" in said]


def test_a_selector_prints_its_parameters():
    vote = PermuteAndFlip(epsilon=1.0, sensitivity=2.0, k=2, labels=("tea", "coffee"))
    assert repr(vote) == (
        "PermuteAndFlip(epsilon=1.0, sensitivity=2.0, k=2, labels=('tea', 'coffee'), utility_error=0.0)"
    )


def test_a_device_with_gaussian_noise_prints_its_parameters():
    device = GaussianNoise(domain=Reals(lower=0.0, upper=1.0, steps=2), sigma=1.5)
    assert repr(device) == (
        "GaussianNoise(domain=Reals(lower=0.0, upper=1.0, steps=2), sigma=1.5, word_bits=64)"
    )


def test_levels_can_be_remembered():
    levels = Levels(k=3, people={0.5: 10, 1.0: 20})
    assert {levels: 1}[Levels(k=3, people={0.5: 10, 1.0: 20})] == 1
