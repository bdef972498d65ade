"""Draws that follow every branch with its exact probability."""

from fractions import Fraction
from itertools import product
from math import comb, factorial

import numpy as np


class _NextBranchError(Exception):
    """The script of a run is used up: the draw that needs more has this many outcomes."""

    def __init__(self, outcomes):
        self.outcomes = outcomes


class ScriptedDraws:
    """Answers from a script; each answer has a probability, which multiplies up."""

    def __init__(self, script):
        self._script = list(script)
        self.probability = Fraction(1)

    def _pick(self, outcomes):
        """outcomes: list of (value, probability)."""
        possible = [(value, mass) for value, mass in outcomes if mass]
        if not self._script:
            raise _NextBranchError(len(possible))
        value, mass = possible[self._script.pop(0)]
        self.probability *= mass
        return value

    def binomial(self, n, p):
        q = Fraction(p)
        return self._pick(
            [(k, comb(int(n), k) * q**k * (1 - q) ** (int(n) - k)) for k in range(int(n) + 1)]
        )

    def binomials(self, n, p):
        return np.array([self.binomial(int(m), p) for m in np.asarray(n)], dtype=np.int64)

    def multinomial(self, n, p):
        masses = [Fraction(float(q)) for q in p]
        total = sum(masses)
        masses = [mass / total for mass in masses]
        outcomes = []
        for counts in _compositions(int(n), len(masses)):
            weight = Fraction(factorial(int(n)))
            for count, mass in zip(counts, masses, strict=True):
                weight *= mass**count / factorial(count)
            outcomes.append((np.array(counts, dtype=np.int64), weight))
        return self._pick(outcomes)


def _compositions(total, parts):
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def law_of(run):
    """The exact law of run(draws), as {result: probability}, over all branches."""
    law = {}
    scripts = [()]
    while scripts:
        script = scripts.pop()
        draws = ScriptedDraws(script)
        try:
            result = run(draws)
        except _NextBranchError as more:
            scripts.extend((*script, branch) for branch in range(more.outcomes))
            continue
        law[result] = law.get(result, Fraction(0)) + draws.probability
    return law


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
