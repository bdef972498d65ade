"""The numbers of every accountant stay as they are (see number_table.py)."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from number_table import CLOSE, ROUGH, NumberTable
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
from shuffledp.numerics.rounding import exp_lower
from shuffledp.numerics.tabulated import CutLaplace

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
        "exp_lower": exp_lower,
        "F": Fraction,
        "arange": np.arange,
        "array": np.array,
        "exp": math.exp,
        "alone": alone,
    },
)
CLOSER = 2e-15
"""For formulas that leave a few units for rounding."""
FORMULAS = ("base.", "rules.", "closed_forms._", "correlated._minimum", "correlated._accumulate")
INTERPOLATED = 1e-8
"""For where a bound is looked at: it holds at any such point."""
ENDS = (".epsilon0", ".pure", ".bound_losing(0.3)", ".bound_gaining(0.3)", ".directions(0.1)")
ROUGHLY = (
    "compose.compose",
    "positive_part.mean_positive_part",
    "pure_total.MirroredTotal",
    "pure_total._Tilted",
    "server_noise.",
)


@pytest.mark.parametrize("expression", TABLE.read())
def test_number(expression):
    close = CLOSE
    if expression.startswith(ROUGHLY):
        close = INTERPOLATED if "._tilts(" in expression else ROUGH
    exact = expression.startswith(FORMULAS) or expression.endswith(ENDS)
    TABLE.check(expression, CLOSER if exact else close)


if __name__ == "__main__":
    TABLE.write()
