"""Split and mix: sums of integers or reals with the accuracy of the central model, in a few messages.

Everybody adds a share of discrete Laplace noise to their number, writes the result modulo q as a sum of
`shares` numbers, all but one of them uniform, and sends these. Shuffled together, the messages of
all users say next to nothing but their sum: the view is within a tiny total variation distance of a
function of the noisy sum, and the noisy sum is epsilon-DP as in the central model.

A user's share of the noise is the difference of two NB(1/h, a) numbers, a = e^(-epsilon / reach), h the
number of users who are honest: h shares make exactly discrete Laplace noise (noise.py).

Everybody sends the same number of messages, each of them uniform on its own. A user's messages must
arrive all or none: a missing one makes the sum worthless.

References: Ishai, Kushilevitz, Ostrovsky, Sahai 2006, "Cryptography from anonymity"; Balle, Bell, Gascon,
Nissim 2020, "Private summation in the multi-message shuffle model"; Ghazi, Manurangsi, Pagh, Velingker
2020, "Private aggregation from fewer anonymous messages".

Deviations: the number of shares follows from a bound that is evaluated, about one share less than the
published formula, which `calibration="paper"` uses.

**How many shares hide everything but the sum.** n users write their value in Z_q as a sum of m shares, m - 1 of them
uniform, and all n m shares are shuffled. Take two inputs with the same sum. The total variation distance of their views
is at most

    TV <= sqrt(E_n / q - 1),   E_N = E[q^C],

C the number of components of a random multigraph on N vertices, M = m - 1 out-stubs and M in-stubs
per vertex, matched uniformly. Proof. (i) M uniform shares per user, and their sums u: given the
shuffled shares y, u is h_pi(y) for a hidden uniform pi. Its distance from the uniform law on the
q^(n-1) vectors with the right sum is at most (1/2) sqrt(q^(n-1) Pr[h_pi(y) = h_pi'(y)] - 1), and the
linear system h_pi = h_pi' has rank n - C. (ii) The m-th share of a user is x - u. With u uniform given
y, the vector x - u has the same law for every x with this sum; so the distance is paid twice.

The component of the first vertex has k vertices with probability at most C(N-1, k-1) / C(NM, kM), so

    E_N <= q (1 + sum_(j=1)^(N-1) c(N, j) E_j),   c(N, j) = C(N-1, j) / C(NM, jM).          (*)

That is O(n^2). For larger n, let M >= 2, g(N, j) = C(N, j) / C(NM, jM), v_k = (kM)! / k!.
  (a) g(N, j+1) / g(N, j) = prod_(i<M) (jM + i) / ((N-j)M - i) grows with j: g is log-convex in j, and
      g(N, j) = g(N, N-j), so g(N, j) <= g(N, t) for t <= j <= N - t.
  (b) c(N, j), N g(N, j), and d(N, k) = c(N, N-k) = (k/N) g(N, k) do not increase with N: a step from N
      to N + 1 multiplies C(NM, jM) by ((N+1)/(N+1-j))^M or more, and (a-1)/(b-1) <= (a/b)^2 for a >= b >= 2.
  (c) (*) with equality is solved by v_N E_N = [z^N] exp(q sum_k v_k z^k), whose coefficients are
      positive: E_N <= exp(q sum_(k<=N) v_k z^k) / (v_N z^N) for every z > 0. We take q v_N z^N = 1.
For small N, E_N is far above q (all users may be apart); (c) shows from which T on it is not. Let
w = T - t, and B >= E_j / q for w < j <= T. Split (*) into j <= w, N - j <= t, and the middle:

    E_N / q - 1 <= sum_(j<=w) c(N, j) E_j + B q ( sum_(k<=t) d(N, k) + N g(N, t+1) )          (**)

as long as E_j <= B q for w < j < N. By (b) the right side does not increase with N, and at N = T + 1 its
first sum is at most the bound (c) of E_N / q, less 1. So if it is at most B - 1 there, then by induction
E_N <= B q for all N > w. Now (**) at N = n bounds E_n, with E_j from (*) for the first j. For the others
up to w take (c) with one z for all: g(n, j) E_j <= exp(q sum_(k<=w) v_k z^k) v_(n-j) / (v_n z^j), which is
log-convex in j, so it is at most the larger of its ends.
Where no such T is found nothing is claimed: TV <= 1.

**Rounding.** Everything is computed in logarithms, and every bound is raised by what its roundings can amount to, in
units of 2^-53: 4 for exp, log and log1p (as NumPy documents; a logarithm x is then off by 4 |x| units), 1 for each sum
and product. A sum of exponentials of numbers that are off by `error` is off by as much, plus one unit for each
term and 8 for each of its own logarithm's digits before the point.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np

from shuffledp.core.analyzer import Estimate, Tally, check_messages
from shuffledp.core.arrays import Codes, Counts, Floats, Words
from shuffledp.core.domain import Integers, Reals
from shuffledp.core.errors import DataError, ParameterError, UnsupportedError
from shuffledp.core.protocol import Calibration, Cost, Crowd, Hints, Look, Parts, Promise
from shuffledp.core.randomizer import Law, Message, Messages, Shuffled, WordSource
from shuffledp.core.validate import fraction_of_one, non_negative, number, whole
from shuffledp.numerics.intervals import DiscreteLaplace, SharedNoise, SharedNoiseError
from shuffledp.numerics.masses import stirling_error
from shuffledp.numerics.rounding import UNIT
from shuffledp.protocols.shared.assembly import register, shuffle
from shuffledp.protocols.shared.sums import (
    add_codes,
    answer,
    bound_bias,
    count_rounded,
    reach,
    read_scale,
    step,
)
from shuffledp.protocols.split_and_mix.noise import (
    SLOWEST,
    WORDS,
    NoiseShare,
    sampled_delta,
    small_delta,
)

_ALWAYS_FULL = 128  # up to here the full recursion is fast enough
_LARGEST_FULL = 2000
_NEAR = 64  # this many E_j by recursion in any case
_SMALL_TABLE = 256  # and this many where they make B sharper
_MARGIN = 24  # t
_WEAK = 8.0  # (c) is used where it shows E_N <= e^8 q
_LONGEST = 1_000_000  # T M
_LARGEST_N = 10**12
_MOST_SHARES = 2000
_LOG_2 = math.log(2)
_HALF_LOG_TAU = math.log(2 * math.pi) / 2


def log2_distance(*, n: int, m: int, q: int) -> float:
    """Bound log2 of the total variation distance from above; 0 (which says nothing) where no bound is known.

    >>> round(log2_distance(n=1_000_000, m=7, q=2**35), 1)
    -35.3
    """
    whole("n", n, at_least=2, at_most=_LARGEST_N)
    whole("m", m, at_least=2)
    whole("q", q, at_least=2)
    return min(0.0, _log_excess(n, m - 1, q) / (2 * _LOG_2) * (1 - 8 * UNIT))


def find_shares(*, n: int, q: int, distance: float) -> int:
    """Return the smallest m whose bound is at most `distance`.

    >>> find_shares(n=1_000_000, q=2**35, distance=1e-8)
    7
    """
    whole("n", n, at_least=2, at_most=_LARGEST_N)
    whole("q", q, at_least=2)
    target = math.log2(fraction_of_one("distance", distance))
    m = _guess(n, q, target)
    while log2_distance(n=n, m=m, q=q) > target:
        m += 1
        if m > _MOST_SHARES:
            raise UnsupportedError(
                f"n={n} users: no number of shares up to {_MOST_SHARES} suffices"
            )
    while m > 2 and log2_distance(n=n, m=m - 1, q=q) <= target:
        m -= 1
    return m


def published_shares(*, n: int, q: int, distance: float) -> int:
    """Return the published condition m >= 2 + (2 sigma + log2 q) / (log2 n - log2 e), sigma = -log2 distance.

    Reference: Balle, Bell, Gascon, Nissim 2020, "Private summation in the multi-message shuffle
    model"; n >= 19, m >= 3.

    >>> published_shares(n=1_000_000, q=2**35, distance=1e-10)
    8
    """
    whole("n", n, at_least=1)
    whole("q", q, at_least=2)
    if n < 19:
        raise UnsupportedError(f"n={n} is outside the theorem: n >= 19")
    sigma = -math.log2(fraction_of_one("distance", distance))
    exact = 2 + (2 * sigma + math.log2(q)) / (math.log2(n) - math.log2(math.e))
    return max(3, math.ceil(exact))


def secure_sum_delta(*, delta0: float, epsilon: float, log2_tv: float) -> float:
    """Bound delta of the shuffled view: delta0 + (1 + e^epsilon) TV, if the sum alone is (epsilon, delta0)-DP.

    The view is within TV of a function of the noisy sum, on either side of the inequality.

    >>> f"{secure_sum_delta(delta0=0.0, epsilon=1.0, log2_tv=-30.0):.3e}"
    '3.463e-09'
    """
    if not 0 <= number("delta0", delta0) <= 1:
        raise ParameterError("delta0", delta0, "must be >= 0 and <= 1")
    non_negative("epsilon", epsilon)
    if epsilon > 700:
        return 1.0
    added = (1 + math.exp(epsilon)) * 2.0 ** min(0.0, number("log2_tv", log2_tv))
    return float(min(1.0, (delta0 + added) * (1 + 1e-13)))


def _guess(n: int, q: int, target: float) -> int:
    """Guess from the leading term, q n / C(nM, M): nearly always the answer."""
    for M in range(1, _MOST_SHARES):
        if math.log(q) + float(_log_g(n, M, 1)[0][1]) <= 2 * target * _LOG_2:
            return M + 1
    return _MOST_SHARES


def _log_excess(n: int, M: int, q: int) -> float:
    """Bound ln(E_n / q - 1) from above; infinite where no bound is known."""
    if n > _ALWAYS_FULL and M > 1:
        cap = _Cap.find(M, q)
        excess, sharp = (math.inf, False) if cap is None else cap.log_excess(n)
        if sharp or n > _LARGEST_FULL:
            return excess
    return _log_excess_full(n, M, q)


def _log_excess_full(n: int, M: int, q: int) -> float:
    """Return the sum in (*) at N = n."""
    return _near(n, *_log_g(n, M, n - 1), _table(M, q, n - 1))


@lru_cache(maxsize=64)
def _table(M: int, q: int, size: int) -> Floats:
    """Bound ln E_0, ..., ln E_size, by (*)."""
    j = np.arange(size + 1, dtype=np.float64)
    log_v, error = _log_v(j, M)  # ln g(N, j) = that at j and N - j, less that at N
    log_j = np.log(np.maximum(j, 1.0))
    log_q = math.log(q)
    # A term of a row has three ln v and some ten roundings of sums that stay below `large`.
    large = float(log_v[-1]) + size * log_q + 10
    slack = 3 * error + 16 * UNIT * large
    weight = log_j + log_v  # ln of k v_k
    log_E = np.zeros(size + 1)
    log_W = log_v.copy()  # ln of v_j E_j
    for N in range(1, size + 1):
        terms = log_W[1:N] + weight[N - 1 : 0 : -1] - float(log_v[N] + log_j[N])
        row = _log_sum(terms, slack)
        log_E[N] = log_q + float(np.logaddexp(0.0, row)) + 16 * UNIT * (log_q + max(row, 0.0) + 1)
        log_W[N] += log_E[N]
    return log_E


def _log_v(k: Floats, M: int) -> tuple[Floats, float]:
    """Return ln v_k = ln (kM)! - ln k!, and a bound of the error of each, for k in ascending order."""
    largest = float(k[-1]) * M
    error = 32 * UNIT * (largest + 1) * math.log(largest + 2) + 1e-13
    return _log_factorial(k * M) - _log_factorial(k), error


def _log_factorial(n: Floats) -> Floats:
    """Return ln n!, off by at most 9 units of (n + 1) ln(n + 2), and by 4e-14 for the error of Stirling's series."""
    x = np.maximum(n, 1.0)
    return np.where(n > 1, (x + 0.5) * np.log(x) - x + (_HALF_LOG_TAU + stirling_error(x)), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cap:
    """E_N <= B q for all N > w."""

    M: int
    q: int
    w: int
    log_cap: float
    log_z: float
    exponent: float  # at least q sum_(k<=w) v_k z^k

    @staticmethod
    @lru_cache(maxsize=64)
    def find(M: int, q: int) -> "_Cap | None":
        size = max(64.0, math.exp(1 + (math.log(q) + math.lgamma(M + 1)) / M) / M)
        while size * M <= _LONGEST:
            cap = _cap(M, q, math.ceil(size))
            if cap is not None:
                return cap
            size *= 1.2
        return None

    def log_excess(self, n: int) -> tuple[float, bool]:
        """Return (**) at n, and whether all but the near terms are negligible."""
        if n <= self.w + _MARGIN:
            return math.inf, False
        log_g, error = _log_g(n, self.M, self.w)
        first = min(_NEAR, self.w)
        near = _near(n, log_g, error, _table(self.M, self.q, first))
        rest = [_far(n, self.M) + self.log_cap + math.log(self.q)]
        if first < self.w:
            ends = (self._log_term(j, log_g, error) for j in (first + 1, self.w))
            rest.append(math.log(self.w - first) + max(ends))
        # The parts are sums of three numbers, none of them far from the total.
        slack = 8 * UNIT * max(abs(near), *map(abs, rest), 100.0)
        total = _log_sum(np.array([near, *rest]), slack)
        return total, _log_sum(np.array(rest), slack) < near - 4.6

    def _log_term(self, j: int, log_g: Floats, error: Floats) -> float:
        """Bound ln of exp(q sum v_k z^k) v_(n-j) / (v_n z^j) from above."""
        logs, wrong = _log_v(np.array([float(j)]), self.M)
        log_v = float(logs[0])
        log = self.exponent + float(log_g[j]) - log_v - j * self.log_z
        return log + float(error[j]) + wrong + 8 * UNIT * (log_v + j * abs(self.log_z) + 100)


def _cap(M: int, q: int, size: int) -> _Cap | None:
    """Return the cap for T = size; None if (c) is too weak, or the induction does not start."""
    log_q = math.log(q)
    log_qD = log_q + _far(size + 1, M)
    if log_qD > -1:
        return None
    k = np.arange(1, size + 2, dtype=np.float64)
    log_v, error = _log_v(k, M)
    highest = 0.0
    for N in range(size + 1, size - _MARGIN, -1):
        log_z = -(log_q + float(log_v[N - 1])) / N
        exponents = np.minimum(log_q + log_v[:N] + k[:N] * log_z, 10.0)
        total = float(np.exp(exponents).sum())
        if total > _WEAK:
            return None
        highest = max(highest, total)
    # By (c) ln(E_N / q) is at most `highest` at T + 1 and at w + 1 .. T. An exponent has two ln v, and k times a
    # rounded ln z; whatever z is, q v_N z^N is 1 as nearly.
    wrong = 4 * error + 16 * UNIT * (float(log_v[-1]) + log_q + size)
    highest = highest * (1 + 2 * wrong) + wrong
    above_q = highest
    if size <= _SMALL_TABLE:  # (*) itself says more
        log_E = _table(M, q, size + 1)
        above_q = min(highest, float(log_E[size - _MARGIN + 1 :].max()) - log_q + 1e-12)
    return _Cap(
        M=M,
        q=q,
        w=size - _MARGIN,
        log_cap=above_q - math.log1p(-math.exp(log_qD)) * (1 + 16 * UNIT) + 1e-12,
        log_z=log_z,
        exponent=highest,
    )


def _near(N: int, log_g: Floats, error: Floats, log_E: Floats) -> float:
    """Bound ln of the sum of c(N, j) E_j over the table from above."""
    last = len(log_E)
    j = np.arange(1, last, dtype=np.float64)
    if not len(j):
        return -math.inf
    terms = log_g[1:last] + np.log1p(-j / N) + log_E[1:]
    slack = float(error[last - 1]) + 4 * UNIT * (float(log_E[-1]) + math.log(N) + 10)
    return _log_sum(terms, slack)


def _far(N: int, M: int) -> float:
    """Bound ln of the sum of d(N, k), k <= t, plus N g(N, t + 1), from above."""
    log_g, error = _log_g(N, M, _MARGIN + 1)
    k = np.arange(1, _MARGIN + 1, dtype=np.float64)
    few = log_g[1 : _MARGIN + 1] + np.log(k / N)
    terms = np.append(few, math.log(N) + log_g[_MARGIN + 1])
    return _log_sum(terms, float(error[-1]) + 8 * UNIT * (math.log(N) + 1))


def _log_g(N: int, M: int, top: int) -> tuple[Floats, Floats]:
    """Return ln g(N, j), j = 0 .. top, as a product of the ratios in (a), in which nothing cancels; and their
    errors.
    """
    j = np.arange(top, dtype=np.float64)[:, None]
    i = np.arange(1, M, dtype=np.float64)[None, :]
    ratios = np.log(j * M + i) - np.log((N - j) * M - i)
    log_g = np.append(0.0, np.cumsum(ratios.sum(axis=1)))
    # A ratio has two logarithms of numbers up to N M; a row adds M of them, and then row by row is added.
    place = np.arange(top + 1, dtype=np.float64)
    each = M * (M + 10) * math.log(N * M + 2)
    error = UNIT * place * (each + np.maximum.accumulate(np.abs(log_g)))
    return log_g, error


def _log_sum(logs: Floats, error: float) -> float:
    """Bound ln of the sum of e^x from above, if each x is within `error` of the one given; minus infinity for none."""
    if not len(logs):
        return -math.inf
    top = float(logs.max())
    if math.isinf(top):
        return top
    total = top + math.log(float(np.exp(logs - top).sum()))
    return total + error + (len(logs) + 16 + 8 * abs(total)) * UNIT


__all__ = ["SPEC", "SplitAndMix", "SumModulo", "make"]

_SMALL_WORDS = 8
_SMALL_MODULUS = 256
_MOST_BITS = 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitAndMix:
    """Code plus noise, modulo 2^bits, as `shares` numbers that add up to it.

    >>> share = NoiseShare(rate=Fraction(1), parts=1000)
    >>> device = SplitAndMix(domain=Integers(lower=0, upper=1), noise=share, bits=12, shares=3)
    >>> tape = np.array([[5, 7, 2**64 - 1, 0, 0, 0]], dtype=np.uint64)
    >>> device.encode(np.array([1]), tape).payload  # 5 + 7 + 4085 = 1 modulo 4096
    array([   5,    7, 4085], dtype=uint64)
    """

    domain: Integers | Reals
    noise: NoiseShare
    bits: int
    shares: int
    epsilon0: ClassVar[float] = math.inf
    proof: ClassVar[str] = (
        "discrete Laplace noise of the honest users' shares, and a bound on the components "
        "of a random graph for what split and mix reveals beyond the sum "
        "(after Balle, Bell, Gascon, Nissim 2020), evaluated numerically"
    )

    def __post_init__(self) -> None:
        whole("shares", self.shares, at_least=2)
        whole("bits", self.bits, at_least=1, at_most=_MOST_BITS)
        if self.bits > self.word_bits:
            raise ParameterError("word_bits", self.word_bits, f"must be >= {self.bits}, log2 of q")

    @property
    def word_bits(self) -> int:
        return self.noise.word_bits

    @property
    def words_per_input(self) -> int:
        return self.shares - 1 + WORDS

    @property
    def modulus(self) -> int:
        return 1 << self.bits

    @property
    def cost(self) -> Cost:
        return Cost.fixed(self.bits, messages=self.shares)

    def delta(self, honest: int, epsilon: float) -> float:
        """Bound delta of the noisy sum, plus (1 + e^epsilon) times the distance that the shares leave."""
        if honest < 2:
            return 1.0  # the shares of one user alone add up to what they want to hide
        # A larger epsilon than the noise was made for adds nothing, and would count the distance more.
        used = min(epsilon, float(self.noise.rate * reach(self.domain)))
        distance = log2_distance(n=honest, m=self.shares, q=self.modulus)
        return secure_sum_delta(delta0=self.sum_delta(honest, used), epsilon=used, log2_tv=distance)

    def sum_delta(self, honest: int, epsilon: float) -> float:
        """Bound delta of the noisy sum alone, for the noise that is sampled."""
        range_, noise = reach(self.domain), self.noise
        sampled = sampled_delta(epsilon=epsilon, reach=range_, share=noise, honest=honest)
        if self.word_bits > _SMALL_WORDS or self.modulus > _SMALL_MODULUS:
            return sampled
        exact = small_delta(
            epsilon=epsilon, reach=range_, share=noise, honest=honest, modulus=self.modulus
        )
        return min(sampled, exact)

    def encode(self, inputs: Codes, words: Words) -> Messages:
        n, uniform = len(inputs), self.shares - 1
        # One row for each share: long contiguous loops are fast.
        sent = np.empty((self.shares, n), dtype=np.uint64)
        mask = np.uint64(self.modulus - 1)
        np.bitwise_and(words[:, :uniform].T, mask, out=sent[:uniform])
        last = sent[uniform]
        last[:] = inputs  # all sums wrap around modulo 2^64, hence modulo 2^bits
        rare, noise = self.noise.draw(words[:, uniform:])
        last[rare] += noise.astype(np.uint64)
        for share in sent[:uniform]:
            last -= share
        last &= mask
        users = np.arange(n, dtype=np.min_scalar_type(n))
        owner = np.broadcast_to(users, sent.shape).reshape(-1)
        return Messages(payload=sent.reshape(-1), owner=owner, users=n)

    def pmf(self, x: int) -> Law:
        """Return the law of what is sent up to its order, which is uniformly random given the multiset."""
        q, total = self.modulus, [Fraction(0)] * self.modulus
        for d, mass in self.noise.law().items():
            total[(x + d) % q] += mass
        law: Law = {}
        for sent in combinations_with_replacement(range(q), self.shares):
            orders = math.factorial(self.shares)
            for count in Counter(sent).values():
                orders //= math.factorial(count)
            law[sent] = total[sum(sent) % q] * orders / q ** (self.shares - 1)
        return law

    def deal(self, inputs: Counts, source: WordSource) -> Tally:
        """Deal the noise alone: shares cancel in the sum, which leaves the codes and everybody's noise."""
        users = int(inputs.sum())
        return _tally(add_codes(inputs) + self.noise.deal(users, source), self.bits, users)


def _tally(total: int, bits: int, users: int) -> Tally:
    """Add up to one number, the sum modulo 2^bits, in the topmost bits of 64: so tallies add and wrap around."""
    placed = (total % (1 << bits)) << (64 - bits)
    return Tally(counts=np.array([placed], dtype=np.uint64).view(np.int64), users=users)


@dataclass(frozen=True, slots=True, kw_only=True)
class SumModulo:
    r"""Adds all messages modulo q, and reads the result as a number from -tail on.

    The tally is not a histogram of messages but one number, their sum modulo q = 2^bits, times 2^(64 - bits):
    as 64-bit integers wrap around, tallies add like any others. The noise of u users has the variance
    (u / parts) 2 a / (1 - a)^2, whatever the data are; the estimate is off by a multiple of q if
    the noise exceeds `tail`, which was made unlikely when q was chosen.
    """

    device: SplitAndMix
    task: str
    tail: int

    def __post_init__(self) -> None:
        whole("tail", self.tail, at_least=0)

    def influence(self) -> Fraction:
        """Return a message's share of what a report can do: move the sum anywhere among all q, in people."""
        return Fraction(self.device.modulus, reach(self.device.domain) * self.device.shares)

    def tally(self, shuffled: Shuffled) -> Tally:
        payload = shuffled.payload
        check_messages(payload, self.device.modulus)
        if len(payload) != shuffled.users * self.device.shares:
            raise DataError(
                f"{len(payload)} messages of {shuffled.users} users, who send "
                f"{self.device.shares} each: without all of them the sum means nothing"
            )
        total = int(np.add.reduce(payload.astype(np.uint64, copy=False), dtype=np.uint64))
        return _tally(total, self.device.bits, shuffled.users)

    def estimate(self, tally: Tally) -> Estimate:
        n, domain, q = tally.people(), self.device.domain, self.device.modulus
        if n * reach(domain) + 2 * self.tail >= q:
            raise DataError(f"the sum of {n} users may exceed the modulus: it was made for fewer")
        total = int(tally.counts.view(np.uint64)[0]) >> (64 - self.device.bits)
        if total >= q - self.tail:
            total -= q
        noise = self.device.noise
        error = SharedNoiseError(
            rate=noise.rate,
            shape=Fraction(n, noise.parts),
            step=float(step(domain, self.task, n)),
            rounded=count_rounded(domain, n),
            bias=bound_bias(domain, self.task, n),
        )
        return answer(domain, self.task, Fraction(total), n, error)

    def weights(self, message: Message) -> tuple[Fraction, ...]:
        raise UnsupportedError(
            "a single share is uniform: only the sum of all of them has a meaning"
        )

    def variance(self, inputs: Counts) -> float:
        n, noise = int(inputs.sum()), self.device.noise
        of_codes = n / noise.parts * DiscreteLaplace(rate=noise.rate).variance
        return of_codes * float(step(self.device.domain, self.task, n)) ** 2


@shuffle(
    name="split_and_mix",
    task="sum",
    title="Split and mix",
    reference="Balle, Bell, Gascon, Nissim 2020",
)
def make(
    crowd: Crowd,
    promise: Promise,
    *,
    lower: float,
    upper: float,
    steps: int | None = None,
    task: str = "sum",
    calibration: Calibration = Calibration.EXACT,
    wrap: float = 1e-12,
    word_bits: int = 64,
) -> Parts:
    """Make a sum (or a mean) of integers lower .. upper, or of reals on a grid of `steps` steps.

    `wrap` bounds the probability that the noise exceeds the room left for it modulo q.

    >>> from shuffledp import SeededWords, run
    >>> ages = make(n=30_000, epsilon=1.0, delta=1e-6, lower=0, upper=120)
    >>> ages.cost.messages_max, ages.cost.bits_per_message
    (7, 22)
    >>> answer = run(ages, [20, 40, 60] * 10_000, SeededWords(1))
    >>> round(answer.stderr), abs(answer.value - 1_200_000) < 1_000
    (179, True)
    """
    domain, task = read_scale(lower, upper, steps, task)
    fraction_of_one("wrap", wrap)
    noise = _share_noise(crowd, promise, reach(domain), word_bits)
    shape = Fraction(crowd.n, crowd.trusted)
    tail = SharedNoise(rate=noise.rate, shape=shape).radius(Fraction(wrap))
    bits = (crowd.n * reach(domain) + 2 * tail).bit_length()
    bare = SplitAndMix(domain=domain, noise=noise, bits=bits, shares=2)
    spent = bare.sum_delta(crowd.trusted, promise.epsilon)
    find = find_shares if calibration is Calibration.EXACT else published_shares
    shares = find(n=crowd.trusted, q=bare.modulus, distance=_afford(promise, spent))
    device = replace(bare, shares=shares)
    analyzer = SumModulo(device=device, task=task, tail=tail)
    return Parts(
        device,
        analyzer,
        task=task,
        deal=device.deal,
        influence=analyzer.influence,
    )


def _share_noise(crowd: Crowd, promise: Promise, range_: int, word_bits: int) -> NoiseShare:
    if crowd.trusted < 2:
        raise UnsupportedError(
            f"n={crowd.n} users with honest={crowd.honest!r}: at least two must be honest"
        )
    rate = Fraction(promise.epsilon) / range_
    if rate < SLOWEST:
        raise UnsupportedError(
            f"epsilon={promise.epsilon!r} with {range_} steps needs noise beyond this sampler: "
            "steps / epsilon must be at most 2^22"
        )
    return NoiseShare(rate=rate, parts=crowd.trusted, word_bits=word_bits)


def _afford(promise: Promise, spent: float) -> float:
    """Return the total variation distance that what is left of delta pays for."""
    growth = math.exp(min(promise.epsilon, 700.0))
    distance = (promise.delta - spent) / (1 + growth) * (1 - 1e-9)
    if distance <= 0:
        raise UnsupportedError(
            f"delta={promise.delta!r} is below the precision of this sampler of the noise"
        )
    return distance


SPEC = register(make, hints=Hints(look=Look.FIRST))
