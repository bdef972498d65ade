r"""k-ary randomized response with personal levels: everybody picks their epsilon0 from a public list.

The level must not depend on the value: whoever chooses it may be known, and so may the choice. A person of level e
sends a uniform category with probability gamma_e = k / (e^e + k - 1), and the truth otherwise. Two ways to collect:

**Levels hidden.** Messages are categories, whatever the level. A uniform message is a uniform message, so the target
hides among those of *all* levels. Let M be their number among the others: a sum of independent bits of means gamma_i.
Given M = m, the divergence is D_m = E[(G_0 + ... + G_m)_+] / (m + 1) with independent G, values gamma (p - E), gamma
(1 - p E) (probability 1/k each) and gamma (1 - E), for the gamma and p = e^e of the target's level. D_m falls with m.

It need not be convex in m (fair coins: 1, 1/2, 1/2, 3/8 are the means of |S_m| / m), so E[D_M] is *not* bounded by
convexity. What helps is Hoeffding 1956 ("On the distribution of the number of successes in independent trials"): a
sum M of N independent bits with mean mu has Pr[M <= c] <= Pr[Bin(N, mu/N) <= c] for every c <= mu - 1. So M is
stochastically at least min(Bin(N, mu/N), floor(mu)), and E[D_M] <= E[D_min(B, floor(mu))]. More people, or more
cautious ones, only help: counts may be those that one is sure of.

**Levels visible.** The message names its level. Then people hide among those of their level only, and each level
is amplified by itself; in return the analyzer can weigh.

If randomizers give their sender away (a level of one's own, a number on the message), nothing is amplified.
Proofs and numbers: docs/theory/levels.md.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import numpy as np

from shuffledp.accounting.base import SMALLEST_DELTA, find_epsilon, guess_epsilon
from shuffledp.accounting.blanket import BlanketProfile
from shuffledp.accounting.positive_part import mean_positive_part
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import ParameterError
from shuffledp.core.privacy import Guarantee, Model
from shuffledp.core.validate import whole
from shuffledp.numerics.masses import bound_at_most
from shuffledp.numerics.rounding import UNIT, exp_lower, float_below
from shuffledp.protocols.krr import KRR

_EXACT = 60  # up to this many others every number of uniform messages is a cell of its own
_CELLS, _COARSE = 40, 8
_HIDDEN = "uniform messages of people of all levels (docs/theory/levels.md), evaluated numerically"
_VISIBLE = "privacy blanket among the people of the same level, evaluated numerically"


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """The number of people assumed honest at each level.

    >>> levels = Levels(k=4, people={0.5: 2_000, 2.0: 8_000})
    >>> [round(each.epsilon, 3) for each in levels.hide(1e-6).values()]
    [0.018, 0.091]
    >>> [round(each.epsilon, 3) for each in levels.show(1e-6).values()]
    [0.032, 0.115]
    """

    k: int
    people: dict[float, int] = field(hash=False)
    """How many of each epsilon0."""
    word_bits: int = 64

    def __post_init__(self) -> None:
        if not self.people:
            raise ParameterError("people", self.people, "must name at least one level")
        for epsilon0, count in self.people.items():
            whole(f"people[{epsilon0!r}]", count, at_least=1)
            self.device(epsilon0)

    def device(self, epsilon0: float) -> KRR:
        """Return what a person of this level runs."""
        if epsilon0 not in self.people:
            raise ParameterError("epsilon0", epsilon0, f"must be one of {sorted(self.people)}")
        return KRR(k=self.k, epsilon0=epsilon0, word_bits=self.word_bits)

    def hide(self, delta: float) -> dict[float, Guarantee]:
        """Return what each level is promised if messages do not tell their levels."""
        curves = {epsilon0: self.hide_level(epsilon0) for epsilon0 in self.people}
        return {
            epsilon0: self._guarantee(
                curve.epsilon(delta), delta, _HIDDEN, sum(self.people.values())
            )
            for epsilon0, curve in curves.items()
        }

    def show(self, delta: float) -> dict[float, Guarantee]:
        """Return what each level is promised if messages tell their levels."""
        return {
            epsilon0: self._guarantee(self.visible(epsilon0).epsilon(delta), delta, _VISIBLE, count)
            for epsilon0, count in self.people.items()
        }

    def hide_level(self, epsilon0: float) -> "HiddenLevel":
        """Return the privacy curve of a person of this level among all."""
        uniform = {each: self.k * _low(self.device(each)) for each in self.people}
        mean = sum((count * uniform[each] for each, count in self.people.items()), Fraction(0))
        return HiddenLevel(
            device=self.device(epsilon0),
            others=sum(self.people.values()) - 1,
            mean=mean - uniform[epsilon0],
        )

    def visible(self, epsilon0: float) -> BlanketProfile:
        """Return the privacy curve of a person of this level among those of the same."""
        blankets = self.device(epsilon0).blankets()
        return BlanketProfile(blankets=blankets, n=self.people[epsilon0], epsilon0=epsilon0)

    @staticmethod
    def _guarantee(epsilon: float, delta: float, proof: str, honest: int) -> Guarantee:
        return Guarantee(
            epsilon=epsilon, delta=delta, model=Model.SHUFFLE, proof=proof, honest=honest
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenLevel:
    """The curve of one person among `others` who send `mean` uniform messages on average, together.

    >>> curve = Levels(k=4, people={0.5: 2_000, 2.0: 8_000}).hide_level(2.0)
    >>> curve.delta(curve.epsilon(1e-6)) <= 1e-6
    True
    """

    device: KRR
    others: int
    mean: Fraction

    def delta(self, epsilon: float) -> float:
        """Bound the true delta at epsilon from above."""
        if epsilon >= self.device.epsilon0:
            return 0.0
        starts, below = _place_cells(self.others, self.mean)
        inner = np.minimum.accumulate([self._bound_given(int(m), epsilon) for m in starts])
        terms = np.append((inner[:-1] - inner[1:]) * below[1:], inner[-1])
        return min(1.0, max(math.fsum(terms) * (1 + 16 * UNIT), SMALLEST_DELTA))

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon, rounded up by at most a part in 10^5, with delta(epsilon) <= delta."""
        low, p = float(_low(self.device)), math.exp(self.device.epsilon0)
        spread = (p - 1) * low * math.sqrt(2 * self.device.k / max(float(self.mean), 1.0))
        return find_epsilon(
            self.delta,
            delta,
            epsilon0=self.device.epsilon0,
            guess=guess_epsilon(spread, delta),
            tolerance=1e-5,
        )

    def _bound_given(self, m: int, epsilon: float) -> float:
        """Bound D_m from above: the target's message and m uniform ones."""
        k, low = self.device.k, _low(self.device)
        high = 1 - (k - 1) * low
        E = exp_lower(epsilon)
        gains = [float(k * (a - E * b)) for a, b in ((high, low), (low, high), (low, low))]
        sizes = np.array(
            [float(k * (a + E * b)) for a, b in ((high, low), (low, high), (low, low))]
        )
        masses = np.array([1 / k, 1 / k, (k - 2) / k])
        return mean_positive_part(masses, np.array(gains) + 4 * UNIT * sizes, m + 1)


def _low(device: KRR) -> Fraction:
    """Return the exact probability of each category but the truth."""
    return Fraction(device.share, 1 << device.word_bits)


@lru_cache(maxsize=256)
def _place_cells(others: int, mean: Fraction) -> tuple[Floats, Floats]:
    """Return left ends of cells of min(B, floor(mean)), and at least the probability of being below each."""
    if others == 0:
        return np.zeros(1), np.zeros(1)
    top = math.floor(mean)
    share = float_below(mean / others)  # fewer uniform messages are less privacy
    if top <= _EXACT:
        starts = np.arange(top + 1, dtype=np.float64)
    else:
        reach = min(float(top), 14 * math.sqrt(top))
        coarse, fine = np.linspace(0.0, top - reach, _COARSE), np.linspace(top - reach, top, _CELLS)
        starts = np.unique(np.floor(np.concatenate([coarse, fine])))
    if share >= 1:
        return starts[-1:], np.zeros(1)
    _, high = bound_at_most(starts - 1, np.full(starts.shape, float(others)), share)
    return starts, np.minimum(high, 1.0)


def estimate_hidden(counts: Counts, levels: Levels) -> Floats:
    """Estimate how many people hold each category, from the messages of all levels together.

    Unbiased if the levels do not depend on the values: each level is then a random part of the people.

    >>> levels = Levels(k=2, people={1.0: 500, 3.0: 500})
    >>> estimate_hidden(np.array([600, 400]), levels).sum().round(6)
    np.float64(1000.0)
    """
    lows = {each: float(_low(levels.device(each))) for each in levels.people}
    noise = sum(count * lows[each] for each, count in levels.people.items())
    kept = sum(count * (1 - levels.k * lows[each]) for each, count in levels.people.items())
    n = sum(levels.people.values())
    people: Floats = n * (np.asarray(counts, dtype=np.float64) - noise) / kept
    return people


def estimate_visible(counts: dict[float, Counts], levels: Levels) -> Floats:
    """Return the estimate from the messages of each level, weighted by a level's information about a rare category.

    >>> levels = Levels(k=2, people={1.0: 500, 3.0: 500})
    >>> told = {1.0: np.array([270, 230]), 3.0: np.array([480, 20])}
    >>> estimate_visible(told, levels).sum().round(6)
    np.float64(1000.0)
    """
    n, total, weighted = sum(levels.people.values()), 0.0, np.zeros(levels.k)
    for each, count in levels.people.items():
        low = float(_low(levels.device(each)))
        kept = 1 - levels.k * low
        weight = count * kept**2 / (low * (1 - low))
        shares = (np.asarray(counts[each], dtype=np.float64) / count - low) / kept
        weighted += weight * shares
        total += weight
    return n * weighted / total
