"""The error that frequency oracles are tuned for."""

from shuffledp.protocols._frequency import FrequencyOracle

__all__ = ["light_variance"]


def light_variance(oracle: FrequencyOracle) -> float:
    """Variance, per user, of the estimate of a category that nobody holds: q (1 - q) / (p - q)^2.

    >>> from shuffledp.protocols.krr import KRR
    >>> light_variance(KRR(k=2, epsilon0=1.0, word_bits=4))  # p = 11/16
    1.5277777777777777
    """
    p, q = oracle.p, oracle.q
    return float(q * (1 - q) / (p - q) ** 2)
