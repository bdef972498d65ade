"""Optimized unary encoding: the one is kept by a fair coin, and few zeros become ones.

Among all choices of p and q for unary encodings this one has the smallest variance for categories
that few users have; its accuracy does not depend on k, its messages have k bits.
Reference: Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for frequency
estimation" (there OUE).
"""

from shuffledp.core.protocol import HONEST, ShuffleProtocol, Spec
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols._frequency import FrequencyAnalyzer
from shuffledp.protocols._local import local_protocol, shuffled_protocol
from shuffledp.protocols._unary import WORD_BITS, Unary, too_small

__all__ = ["SPEC", "make", "make_local", "randomizer"]


def randomizer(*, k: int, epsilon0: float, word_bits: int = WORD_BITS) -> Unary:
    r"""The optimized unary randomizer.

    p = 1/2 exactly, and q, ideally 1 / (e^epsilon0 + 1), is rounded up to a multiple of
    2^-word_bits, which is the private direction. For a category that c of n users have

        variance = 4 (n - c) q (1 - q) / (1 - 2 q)^2 + c / (1 - 2 q)^2,
        ideally 4 n e^epsilon0 / (e^epsilon0 - 1)^2 + c

    >>> optimized = randomizer(k=4, epsilon0=2.0, word_bits=8)
    >>> optimized.p, optimized.q
    (Fraction(1, 2), Fraction(31, 256))
    """
    positive("epsilon0", epsilon0)
    words = 1 << whole("word_bits", word_bits, at_least=1, at_most=64)
    zero = int(-(-words // (exp_lower(epsilon0) + 1)))
    if 2 * zero >= words:
        raise too_small(epsilon0, word_bits)
    return Unary(k=k, epsilon0=epsilon0, one=words // 2, zero=zero, word_bits=word_bits)


def make_local(*, k: int, epsilon: float, word_bits: int = WORD_BITS) -> ShuffleProtocol:
    """Optimized unary encoding for histograms over k categories.

    >>> make_local(k=16, epsilon=1.0).cost.bits_per_message
    16
    """
    unary = randomizer(k=k, epsilon0=epsilon, word_bits=word_bits)
    parameters = {"k": k, "epsilon": epsilon, "word_bits": word_bits}
    return local_protocol(
        SPEC, parameters, unary, FrequencyAnalyzer(oracle=unary), bits_per_message=k
    )


def make(
    *,
    n: int,
    k: int,
    epsilon: float,
    delta: float,
    honest: float = HONEST,
    word_bits: int = WORD_BITS,
) -> ShuffleProtocol:
    """Optimized unary encoding, shuffled: the largest epsilon0 that n users allow.

    >>> make(n=10_000, k=16, epsilon=1.0, delta=1e-6).guarantee.epsilon
    1.0
    """
    return shuffled_protocol(
        make_local,
        n=n,
        epsilon=epsilon,
        delta=delta,
        honest=honest,
        k=k,
        word_bits=word_bits,
    )


SPEC = Spec(
    name="optimized_unary",
    title="optimized unary encoding",
    task="histogram",
    reference="Wang, Blocki, Li, Jha 2017",
    make_local=make_local,
    make=make,
)
