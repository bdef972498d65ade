r"""Words that many people have, in the local model: one random prefix each, hashed, by randomized response.

Everybody draws a row of public cells, and sends the cell of their word in it by k-ary randomized response (`device`).
Rows look at prefixes of several lengths; the analyzer extends prefixes that stand out, level by level, and counts
the words that are left from the rows of the last level (`decoder`). The noise grows with the square root of n, so a word
needs far more people than with a shuffler: that is the price of trusting nobody.

With g buckets and p, q the probabilities of the own and of another cell, the estimate for a word of nobody has variance

    n (1/g) (1 - 1/g) / (share (p - 1/g)^2) ,    p - 1/g = (p - q) (1 - 1/g) ,

share that of the last level among the rows; g is the power of two that makes this small, about e^epsilon.

References: Wang, Li, Jha 2021, "Locally differentially private heavy hitter identification" (PEM: people in groups, one
for each prefix length, and local hashing). Deviations: hash functions are linear, so that all continuations of a prefix
are decoded by one transform; words are stirred; large words are peeled; groups are as large as their thresholds need.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.core.analyzer import Step, Tally, message_tally
from shuffledp.core.arrays import Counts, Floats
from shuffledp.core.errors import UnsupportedError
from shuffledp.core.estimate import Estimate, Value
from shuffledp.core.protocol import Parts
from shuffledp.core.randomizer import Message
from shuffledp.core.shuffler import Shuffled
from shuffledp.core.validate import positive
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols.assembly import local, register, shuffled
from shuffledp.protocols.hashed_prefixes import (
    draw_seed,
    list_words,
    read_words_domain,
    report_counts,
)
from shuffledp.protocols.hashed_prefixes.decoder import Found, Seen
from shuffledp.protocols.hashed_prefixes.design import LevelSight, level_tails, split_bits
from shuffledp.protocols.local_prefixes.decoder import ALARMS, Level, decode, limit_sum
from shuffledp.protocols.local_prefixes.device import MOST_CELLS, LocalPrefixes

__all__ = ["SPEC", "LocalPrefixes", "LocalWordsAnalyzer", "make", "make_local"]

_MOST_ROWS = 1 << 14
_MOST_BUCKETS = 1 << 8
_OTHERS = 50  # prefixes that are large indeed: a guess, for the number of candidates
_SURELY = 2.2  # standard errors above a level's threshold, where a word is hardly missed


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalWordsAnalyzer:
    """Counts the messages in each cell, and looks for words."""

    device: LocalPrefixes

    @property
    def influence(self) -> float:
        """Infinite: no bound is known.

        A message moves the sum of its word by one. But a word that crosses the count from which words are peeled
        changes the counts of all others, by hundreds of people in a million: see docs/theory/robustness.md.
        """
        return math.inf

    @property
    def _shares(self) -> tuple[float, ...]:
        """The probability of each level."""
        return tuple(rows / self.device.all_rows for rows in self.device.rows)

    def tally(self, shuffled: Shuffled) -> Tally:
        return message_tally(shuffled, self.device.alphabet)

    def predict(self, n: int) -> LevelSight:
        """What is seen among n people, if other words collide no more than in the mean.

        >>> made = make_local(bits=64, epsilon=1.0, seed=1)
        >>> made.analyzer.predict(10**6).find_count(0.95) > 20_000
        True
        """
        device, seen = self.device, []
        lead = float(device.response.p - device.response.q) * (1 - 1 / device.buckets)
        tails = level_tails(device.lengths, ALARMS, _OTHERS)
        for share, tail in zip(self._shares, tails, strict=True):
            mean = n * share / device.buckets
            limit = limit_sum(round(n * share), device.buckets, tail)
            seen.append(Seen(share * lead, mean, mean * (1 - 1 / device.buckets), limit, lost=0.0))
        return LevelSight.of(seen)

    def find(self, tally: Tally, step: Step | None = None) -> Found:
        """The words that stand out, by code."""
        return decode(self.device, tally.counts, step)

    def estimate(self, tally: Tally) -> Estimate:
        """The words that were found, the most frequent first."""
        return self.estimate_stepwise(tally, None)

    def estimate_stepwise(self, tally: Tally, step: Step | None) -> Estimate:
        """The same, with a call of `step` after every level."""
        n, found = tally.people(), self.find(tally, step)
        stderr = self._stderr(found.values, found.seen[-1], n)
        return list_words(self.device.domain, found, found.values, stderr, n)

    def count(self, tally: Tally, words: ArrayLike) -> Estimate:
        """How many people have each of these words, chosen before looking: found or not, without bias.

        >>> from shuffledp import SeededWords, run
        >>> made = make_local(alphabet="letters", max_length=4, epsilon=4.0, seed=1)
        >>> people = ["cat"] * 15_000 + ["dog"] * 5_000
        >>> from shuffledp.engine.memory import tally_each
        >>> counted = made.analyzer.count(tally_each(made, people, SeededWords(1)), ["cat", "cow"])
        >>> [round(value, -3) for value in counted.value.tolist()]
        [15000.0, 0.0]
        """
        device, n, place = self.device, tally.people(), len(self.device.lengths) - 1
        codes = device.domain.codes(words).astype(np.uint64)
        table = tally.counts.reshape(device.all_rows, device.buckets)
        level = Level.of(device, place, table[device.starts[place] :])
        values, left = level.fit(device.stirring.stir_words(codes), math.inf)
        stderr = self._stderr(values, level.tell(left, 0.0), n)
        return report_counts(device.domain, codes, values, stderr, n)

    def _stderr(self, values: Floats, seen: Seen, n: int) -> Floats:
        """Noise and collisions as in the other cells; and the own people, who may draw another level or cell."""
        share, g, p = self._shares[-1], self.device.buckets, float(self.device.response.p)
        held = np.clip(values, 0.0, n)
        own = share * (p * (1 - 1 / g) ** 2 + (1 - p) / g**2) - seen.share**2
        stderr: Floats = np.sqrt(seen.variance * (1 - held / n) + held * own) / seen.share
        return stderr

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError("which words are counted depends on the messages: none has a weight")

    def variance(self, inputs: Counts) -> Value:
        """Of a word that few have, without collisions beyond the mean."""
        said = self.predict(int(inputs.sum()))
        assert said.spreads is not None
        return said.spreads[-1] / said.shares[-1] ** 2


@local(
    name="local_prefixes",
    task="words",
    title="hashed prefixes by randomized response",
    reference="Wang, Li, Jha 2021",
)
def make_local(
    *,
    epsilon: float,
    alphabet: str | None = None,
    max_length: int | None = None,
    bits: int | None = None,
    lengths: Sequence[int] | None = None,
    rows: Sequence[int] | None = None,
    buckets: int | None = None,
    seed: int | None = None,
    word_bits: int = 64,
) -> Parts:
    """Words over an alphabet up to a length, or integers of `bits` bits.

    `lengths` (of the prefixes), `rows` and `buckets` are chosen unless given. The `seed` of the public functions comes
    from secure words unless given: whoever chooses it must not know the words.

    >>> p = make_local(bits=64, epsilon=1.0, seed=1)
    >>> p.parameters["lengths"], p.parameters["buckets"], p.cost.bits_per_message
    ([20, 35, 49, 64], 4, 16)

    Behind a shuffler:

    >>> p = make(n=10**6, bits=64, epsilon=1.0, delta=1e-8, seed=1)
    >>> p.cost.messages_max, 9 < p.local_floor.epsilon < 10
    (1, True)
    """
    domain = read_words_domain(alphabet, max_length, bits)
    g = _choose_buckets(positive("epsilon", epsilon)) if buckets is None else buckets
    levels = split_bits(domain.bits) if lengths is None else tuple(lengths)
    each = _share_rows(levels, g) if rows is None else tuple(rows)
    device = LocalPrefixes(
        domain=domain,
        lengths=levels,
        rows=each,
        buckets=g,
        seed=draw_seed() if seed is None else seed,
        epsilon0=epsilon,
        word_bits=word_bits,
    )
    return Parts(
        device,
        LocalWordsAnalyzer(device=device),
        resolved={
            "lengths": list(device.lengths),
            "rows": list(device.rows),
            "buckets": g,
            "seed": device.seed,
        },
    )


def _choose_buckets(epsilon0: float) -> int:
    """The power of two with the smallest variance of a word that nobody has."""
    e = float(exp_lower(min(epsilon0, 60.0)))

    def variance(g: int) -> float:
        p = e / (e + g - 1)
        return (1 / g) * (1 - 1 / g) / (p - 1 / g) ** 2

    return min((1 << j for j in range(1, _MOST_BUCKETS.bit_length())), key=variance)


def _share_rows(lengths: Sequence[int], buckets: int) -> tuple[int, ...]:
    """More rows where the threshold is higher, so that a word that one level sees is seen by all."""
    from scipy.special import ndtri  # scipy.stats takes a second to import

    every = min(_MOST_ROWS, MOST_CELLS // max(2, buckets))
    tails = level_tails(lengths, ALARMS, _OTHERS)
    needs = [(float(-ndtri(tail)) + _SURELY) ** 2 for tail in tails]
    shares = [max(1, math.floor(every * need / sum(needs))) for need in needs]
    return (*shares[:-1], every - sum(shares[:-1]))


make = shuffled(make_local, draw={"seed": draw_seed})

SPEC = register(make_local, make)
