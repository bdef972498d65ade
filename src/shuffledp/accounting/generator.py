"""What the generator of the words adds to delta: guarantees are computational.

Devices and their accountants know the laws of uniform words. The words of a run are those of AES-256 (see
`numerics.entropy`), which nobody tells from uniform ones with more than a small advantage a. That makes
(epsilon, delta + (1 + e^epsilon) a) of (epsilon, delta): each of the two probabilities in the definition moves
by at most a.

**One bound for every way to draw the words.** Each device's words are counted in whole blocks of the cipher, and
all of them in whole spans, those that share a key; each span costs A = `prf_advantage(SPAN_WORDS)`, with a secret
of its own. Then it does not matter whether one stream serves everybody, or each part of a run has a key, or each
live device takes one from its operating system. For b blocks of one span under a secret of their own cost
(b^2 + 4 + tiny) / 2^129, which is at most b / B times A = (B^2 + 4 + tiny) / 2^129, B = 2^18 being the blocks of a
whole span: the difference is concave in b, 0 at b = B and positive at b = 1. And spans that share a secret cost
less than with one each.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from shuffledp.core.privacy import Guarantee
from shuffledp.core.protocol import Accountant, Crowd
from shuffledp.numerics.entropy import SPAN_WORDS, prf_advantage
from shuffledp.numerics.rounding import exp_upper, float_above

_LARGEST_EPSILON = 700.0  # beyond, every delta is at most 1 anyway
_ADVANTAGE = Fraction(prf_advantage(SPAN_WORDS))


def bound_generator(people: int, words_per_input: int, epsilon: float) -> Fraction:
    """Return an upper bound on what the generator's words, not being uniform, add to delta for this many devices.

    >>> [f"{float(bound_generator(people, 1, 1.0)):.1e}" for people in (1, 10**6, 10**9)]
    ['3.8e-28', '1.5e-27', '1.4e-24']
    """
    blocks = people * -(-words_per_input // 2)
    spans = -(-2 * blocks // SPAN_WORDS)
    factor = 1 + exp_upper(min(epsilon, _LARGEST_EPSILON))
    return min(Fraction(1), factor * spans * _ADVANTAGE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Computational:
    """The accountant of a protocol whose words come from the generator.

    `ideal` is the accountant of uniform words. What the words of everybody who takes part add goes into every
    delta above 0. A delta of 0 stays: it is the law of uniform words, and says so.

    >>> from shuffledp import protocols
    >>> accountant = protocols.rr.make(n=1000, epsilon=1.0, delta=1e-26).accountant
    >>> [f"{each.guarantee(900).delta:.4g}" for each in (accountant.ideal, accountant)]
    ['9.625e-27', '1e-26']
    """

    ideal: Accountant
    words_per_input: int
    crowd: Crowd

    def guarantee(self, honest: int) -> Guarantee:
        return self.weaken(self.ideal.guarantee(honest), honest)

    def weaken(self, ideal: Guarantee, honest: int) -> Guarantee:
        """Return what is left of the guarantee that uniform words have with that many honest users."""
        return replace(ideal, delta=self._add(ideal.delta, honest, ideal.epsilon))

    def delta(self, honest: int, epsilon: float) -> float:
        return self._add(self.ideal.delta(honest, epsilon), honest, epsilon)

    def _add(self, delta: float, honest: int, epsilon: float) -> float:
        if delta == 0:
            return 0.0
        added = bound_generator(self._people(honest), self.words_per_input, epsilon)
        return float_above(min(Fraction(1), Fraction(delta) + added))

    def _people(self, honest: int) -> int:
        """At least how many take part: those of the plan, or more if more are honest."""
        if honest <= self.crowd.trusted:
            return self.crowd.n
        return math.ceil((honest + 1) / Fraction(repr(self.crowd.honest)))


def find_ideal(accountant: Accountant) -> Accountant:
    """Return the accountant of uniform words."""
    return accountant.ideal if isinstance(accountant, Computational) else accountant
