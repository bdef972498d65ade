"""Exact dealing with secure words against NumPy's floating-point samplers, and against a word per person."""

import numpy as np
from timing import Row, best, faster, quantity, show

from shuffledp import SecureWords
from shuffledp.numerics.dealing import binomial, deal, deal_uniform

P = 0xB504F333F9DE6485  # p = 0.7071..., all 64 bits of it matter
CHUNK = 1 << 15  # words of keystream at a time
ROUNDS = 5


def rows() -> list[Row]:
    rng, secure = np.random.default_rng(1), SecureWords()
    found: list[Row] = []
    for m, limit in ((10**8, 7.0), (10**9, 60.0), (10**12, None)):
        timed = min(m, 10**8)  # and the words of more people take proportionally longer
        candidates = {
            "ours": lambda i, m=m: binomial(m, P + i, 64, secure),
            "numpy": lambda _, m=m: rng.binomial(m, P / 2**64),
            "words": lambda _, timed=timed: _read(timed, secure),
        }
        took = best(candidates, ROUNDS)
        took["words"] *= m / timed
        found += _rows(f"Bin(10^{len(str(m)) - 1}, p)", took, limit, "binomial")
    candidates = {
        "ours": lambda i: deal_uniform(10**8 - i, 1024, 64, secure),
        "numpy": lambda _: rng.multinomial(10**8, np.full(1024, 1 / 1024)),
        "words": lambda _: _read(10**8, secure),
    }
    found += _rows(
        "10^8 people over 1,024 equal cells", best(candidates, ROUNDS), 50.0, "multinomial"
    )
    candidates = {
        "ours": lambda i: _deal_krr(SHARE + i, secure),
        "numpy": lambda _: _simulate_krr(rng),
        "words": lambda _: _read(1024 * 10**5, secure),
    }
    found += _rows(
        "k-RR's tally, 1,024 codes of 10^5 people", best(candidates, ROUNDS), None, "samplers"
    )
    return found


def _read(words: int, source: SecureWords) -> None:
    for _ in range(words // CHUNK):
        source.words(CHUNK)


SHARE = int(2**64 / (np.e + 1023))
PEOPLE = np.full(1024, 10**5)


def _deal_krr(share: int, source: SecureWords) -> np.ndarray:
    truth, lies = deal(PEOPLE, [[2**64 - 1024 * share]], 64, source, common=[share] * 1024)
    return truth[:, 0] + lies


def _simulate_krr(rng: np.random.Generator) -> np.ndarray:
    truth = rng.binomial(PEOPLE, 1 - 1024 * SHARE / 2**64)
    return truth + rng.multinomial(int((PEOPLE - truth).sum()), np.full(1024, 1 / 1024))


def _rows(what: str, took: dict[str, float], limit: float | None, numpy: str) -> list[Row]:
    ours = took["ours"]
    rows = [
        faster(what, baseline=took["numpy"], ours=ours, named=f"NumPy's {numpy}"),
        faster(what, baseline=took["words"], ours=ours, named="a secure word per person, unused"),
    ]
    if limit is not None:
        rows.append(quantity(what, baseline="-", ours=1e3 * ours, unit="ms", at_most=limit))
    return rows


if __name__ == "__main__":
    show(rows(), "Dealing")
