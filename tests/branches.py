"""Laws of sums over independent people, as fractions."""

from fractions import Fraction
from itertools import product


def add_up(people):
    """The law of the sum over independent people: people[i] is {vector of numbers: Fraction}."""
    law = {None: Fraction(1)}
    for person in people:
        after = {}
        for (total, p), (one, q) in product(law.items(), person.items()):
            both = one if total is None else tuple(map(sum, zip(total, one, strict=True)))
            after[both] = after.get(both, Fraction(0)) + p * q
        law = after
    return law
