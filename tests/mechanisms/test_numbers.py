"""The numbers of mechanisms stay as they are (see number_table.py): laws, accuracies, and what seeds draw."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from number_table import CLOSE, NumberTable
from shuffledp.core.errors import ShuffledpError
from shuffledp.core.protocol import Promise
from shuffledp.mechanisms import (
    binomial,
    frequency_list,
    geometric,
    geometric_tree,
    laplace,
    rebuild,
    selection,
    several,
    stability_histogram,
)
from shuffledp.numerics.entropy import SeededWords

MODULES = (
    binomial,
    frequency_list,
    geometric,
    geometric_tree,
    laplace,
    selection,
    several,
    stability_histogram,
)


def divide(*asked, epsilon=1.0, delta=1e-6):
    """What several questions get: weight, whether it is a histogram, and whether its mechanism fails."""

    def make(needed, fails):
        if fails:
            return binomial.make(n=100_000, epsilon=needed[0], delta=needed[1])
        return geometric.make(epsilon=needed[0], sensitivity=1)

    questions = [
        several.CuratorQuestion(
            str(place), weight, histogram, fails, lambda *needed, fails=fails: make(needed, fails)
        )
        for place, (weight, histogram, fails) in enumerate(asked)
    ]
    made = several.Several.of(questions, Promise(epsilon=epsilon, delta=delta))
    return [
        [[part.guarantee.epsilon, part.guarantee.delta] for part in made.parts],
        made.shares,
        made.guarantee.delta,
        made.leave_out_each(),
        [made.accuracy(beta) for beta in (0.5, 1e-6)],
    ]


def select(name, utilities, times=8, **given):
    """Who is chosen with seeds 0, 1, ..., and how likely everybody is."""
    vote = rebuild(name, {"epsilon": 1.0, "sensitivity": 1.0, "k": len(utilities)} | given)
    chosen = [vote.select(utilities, SeededWords(seed)).index for seed in range(times)]
    return [chosen, vote.probabilities(utilities), vote.accuracy(0.1)]


def is_refused(make):
    try:
        make()
    except ShuffledpError:
        return 1
    return 0


TABLE = NumberTable(
    path=Path(__file__).with_name("numbers.json"),
    names={module.__name__.rpartition(".")[2]: module for module in MODULES}
    | {
        "F": Fraction,
        "Seeded": SeededWords,
        "arange": np.arange,
        "array": np.array,
        "divide": divide,
        "is_refused": is_refused,
        "select": select,
    },
)


@pytest.mark.parametrize("expression", TABLE.read())
def test_number(expression):
    TABLE.check(expression, CLOSE)


if __name__ == "__main__":
    TABLE.write()
