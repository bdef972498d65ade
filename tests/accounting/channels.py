"""Small random epsilon0-local randomizers with rational laws."""

from fractions import Fraction

import numpy as np

from shuffledp.core.randomizer import Law

RATIOS = [Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(3), Fraction(7), Fraction(20)]


def krr(k: int, p: Fraction) -> list[Law]:
    """k-ary randomized response with e^epsilon0 = p, exactly."""
    return [
        {(y,): (p if y == x else Fraction(1)) / (p + k - 1) for y in range(k)} for x in range(k)
    ]


def laws_of(rows: list[list[Fraction]]) -> list[Law]:
    return [{(y,): q for y, q in enumerate(row)} for row in rows]


def random_channel(rng: np.random.Generator, p: Fraction) -> list[Law]:
    """A channel of 2 to 4 inputs and 2 to 5 outputs with likelihood ratios up to about p.

    Half of them are extremal before their rows are normalised: every entry is 1 or p times its
    column's weight. The true ratio is what `local_ratio` says.
    """
    inputs, outputs = int(rng.integers(2, 5)), int(rng.integers(2, 6))
    column = [Fraction(int(c), 12) for c in rng.integers(1, 13, outputs)]
    if rng.random() < 0.5:
        levels = rng.integers(0, 2, (inputs, outputs)).astype(float)
    else:
        levels = rng.random((inputs, outputs))
    rows = []
    for level in levels:
        row = [
            c * (1 + (p - 1) * Fraction(round(64 * x), 64))
            for c, x in zip(column, level, strict=True)
        ]
        total = sum(row)
        rows.append([q / total for q in row])
    return laws_of(rows)


def extremal_channel(rng: np.random.Generator, p: Fraction) -> list[Law]:
    """Cyclic shifts of one row of ones and p's: all rows have one sum, so the ratio is exactly p."""
    outputs = int(rng.integers(2, 5))
    high = rng.permutation(outputs) < int(rng.integers(1, outputs))
    rows = []
    for shift in range(int(rng.integers(2, outputs + 1))):
        row = [p if h else Fraction(1) for h in np.roll(high, shift)]
        rows.append([q / sum(row) for q in row])
    return laws_of(rows)
