"""The numbers of every accountant stay as they are (see number_table.py)."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from number_table import CLOSE, NumberTable
from shuffledp import protocols
from shuffledp.accounting import (
    amplify,
    base,
    binary,
    blanket,
    clones,
    closed_forms,
    compose,
    correlated,
    exact,
    moved_message,
    noisy_count,
    positive_part,
    pure_total,
    rules,
    server_noise,
)
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.protocol import Promise
from shuffledp.numerics.cut_laplace import CutLaplace

MODULES = (
    amplify,
    base,
    binary,
    blanket,
    clones,
    closed_forms,
    compose,
    correlated,
    exact,
    moved_message,
    noisy_count,
    positive_part,
    protocols,
    pure_total,
    rules,
    server_noise,
)


def alone(epsilon, delta):
    return Guarantee(epsilon=epsilon, delta=delta, model=Model.CENTRAL, proof="some mechanism")


TABLE = NumberTable(
    path=Path(__file__).with_name("numbers.json"),
    names={module.__name__.rpartition(".")[2]: module for module in MODULES}
    | {
        "Promise": Promise,
        "CutLaplace": CutLaplace,
        "F": Fraction,
        "arange": np.arange,
        "array": np.array,
        "exp": math.exp,
        "alone": alone,
    },
)
CLOSER = {"base": 1e-13, "closed_forms": 1e-13, "rules": 1e-13}
"""Formulas, whose slack for rounding is a part in 10^12."""


@pytest.mark.parametrize("expression", TABLE.read())
def test_number(expression):
    TABLE.check(expression, CLOSER.get(expression.partition(".")[0], CLOSE))


if __name__ == "__main__":
    TABLE.write()
