"""Exact dealing with secure words against NumPy's floating-point samplers, and against the keystream itself."""

import numpy as np
from timing import Row, best, faster, show

from shuffledp import SecureWords
from shuffledp.numerics.dealing import binomial, deal, deal_uniform

P = 0xB504F333F9DE6485  # p = 0.7071..., all 64 bits of it matter
CHUNK = 1 << 15  # words of keystream at a time
ROUNDS = 5


def rows() -> list[Row]:
    rng, secure = np.random.default_rng(1), SecureWords()
    found: list[Row] = []
    for m, limit in ((10**8, 0.007), (10**9, 0.06)):
        took = best(
            {
                "ours": lambda m=m: binomial(m, P, 64, secure),
                "numpy": lambda m=m: rng.binomial(m, P / 2**64),
                "bits": lambda m=m: _read(2 * m, secure),
            },
            ROUNDS,
        )
        found += _rows(f"Bin(10^{len(str(m)) - 1}, p)", took, limit, "binomial", "2 m bits")
    took = best(
        {
            "ours": lambda: deal_uniform(10**8, 1024, 64, secure),
            "numpy": lambda: rng.multinomial(10**8, np.full(1024, 1 / 1024)),
            "bits": lambda: _read(10**9, secure),
        },
        ROUNDS,
    )
    found += _rows("10^8 people over 1,024 equal cells", took, 0.05, "multinomial", "10 m bits")
    took = best(
        {
            "ours": lambda: _deal_krr(secure),
            "numpy": lambda: _simulate_krr(rng),
            "bits": lambda: _read(12 * 10**8, secure),
        },
        ROUNDS,
    )
    found += _rows("k-RR's tally, 1,024 codes of 10^5 people", took, None, "samplers", "12 m bits")
    return found


def _read(bits: int, source: SecureWords) -> None:
    for _ in range(bits // (64 * CHUNK)):
        source.words(CHUNK)


SHARE = int(2**64 / (np.e + 1023))
PEOPLE = np.full(1024, 10**5)


def _deal_krr(source: SecureWords) -> np.ndarray:
    truth, lies = deal(PEOPLE, [[2**64 - 1024 * SHARE]], 64, source, common=[SHARE] * 1024)
    return truth[:, 0] + lies


def _simulate_krr(rng: np.random.Generator) -> np.ndarray:
    truth = rng.binomial(PEOPLE, 1 - 1024 * SHARE / 2**64)
    return truth + rng.multinomial(int((PEOPLE - truth).sum()), np.full(1024, 1 / 1024))


def _rows(
    what: str, took: dict[str, float], limit: float | None, numpy: str, bits: str
) -> list[Row]:
    against = faster(what, baseline=took["numpy"], ours=took["ours"], named=f"NumPy's {numpy}")
    keystream = faster(what, baseline=took["bits"], ours=took["ours"], named=f"keystream of {bits}")
    if limit is None:
        return [against, keystream]
    wanted = f"<= {limit * 1e3:g} ms"
    return [
        against,
        Row(
            what=keystream.what,
            baseline=keystream.baseline,
            ours=keystream.ours,
            ratio=keystream.ratio,
            wanted=wanted,
            met=took["ours"] <= limit,
        ),
    ]


if __name__ == "__main__":
    show(rows(), "Dealing")
