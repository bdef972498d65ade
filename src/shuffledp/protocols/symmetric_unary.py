"""Symmetric unary encoding: one bit per category, each flipped with the same probability.

RAPPOR's permanent response for a value in plain unary (no Bloom filter, no instantaneous response).
For small epsilon as good as the optimized encoding; worse for large epsilon.
References: Erlingsson, Pihur, Korolova 2014, "RAPPOR: randomized aggregatable privacy-preserving
ordinal response"; Wang, Blocki, Li, Jha 2017, "Locally differentially private protocols for
frequency estimation" (there SUE).
"""

from fractions import Fraction

from shuffledp.core.protocol import HONEST, ShuffleProtocol, Spec
from shuffledp.core.validate import positive, whole
from shuffledp.numerics.rounding import exp_lower
from shuffledp.protocols._frequency import FrequencyAnalyzer
from shuffledp.protocols._local import local_protocol, shuffled_protocol
from shuffledp.protocols._unary import WORD_BITS, Unary, too_small

__all__ = ["SPEC", "make", "make_local", "randomizer"]


def randomizer(*, k: int, epsilon0: float, word_bits: int = WORD_BITS) -> Unary:
    r"""The symmetric unary randomizer.

    Every bit is flipped with probability q, ideally 1 / (e^(epsilon0 / 2) + 1): two values differ in
    two bits, and each takes half of epsilon0. q is rounded up to a multiple of 2^-word_bits, which
    is the private direction. For every category, whatever its count,

        variance = n q (1 - q) / (1 - 2 q)^2, ideally n e^(epsilon0 / 2) / (e^(epsilon0 / 2) - 1)^2

    >>> symmetric = randomizer(k=4, epsilon0=2.0, word_bits=8)
    >>> symmetric.p, symmetric.q
    (Fraction(187, 256), Fraction(69, 256))
    """
    positive("epsilon0", epsilon0)
    words = 1 << whole("word_bits", word_bits, at_least=1, at_most=64)
    flips = int(-(-words // (exp_lower(Fraction(epsilon0) / 2) + 1)))
    if 2 * flips >= words:
        raise too_small(epsilon0, word_bits)
    return Unary(k=k, epsilon0=epsilon0, one=words - flips, zero=flips, word_bits=word_bits)


def make_local(*, k: int, epsilon: float, word_bits: int = WORD_BITS) -> ShuffleProtocol:
    """Symmetric unary encoding for histograms over k categories.

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
    """Symmetric unary encoding, shuffled: the largest epsilon0 that n users allow.

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
    name="symmetric_unary",
    title="symmetric unary encoding (basic RAPPOR)",
    task="histogram",
    reference="Erlingsson, Pihur, Korolova 2014",
    make_local=make_local,
    make=make,
)
