"""Split and mix: every share of a million users, against drawing as many raw secure words."""

import numpy as np
from timing import Row, best, faster, show

import shuffledp as sdp
from shuffledp import SecureWords

USERS = 10**6
SHARES = 8
CHUNK = 1 << 17  # words in a chunk: 1 MiB
ROUNDS = 7
AT_LEAST = 0.25  # at most four times as long


def rows() -> list[Row]:
    protocols = [
        sdp.protocols.split_and_mix.make(
            n=USERS, epsilon=1.0 + i / 1000, delta=2e-11, lower=0, upper=10_000, honest=1.0
        )
        for i in range(ROUNDS + 1)
    ]
    shares = {protocol.cost.messages_max for protocol in protocols}
    assert shares == {SHARES}, f"{shares} shares"
    values = np.random.default_rng(1).integers(10_001, size=USERS)
    secure = SecureWords()

    def raw(_: int) -> None:
        for _ in range(USERS * SHARES // CHUNK):
            secure.words(CHUNK)

    took = best({"raw": raw, "ours": lambda i: sdp.run(protocols[i], values)}, ROUNDS)
    return [
        faster(
            f"split and mix, n={USERS:.0e}, {SHARES} shares".replace("e+0", "e"),
            baseline=took["raw"],
            ours=took["ours"],
            at_least=AT_LEAST,
            named=f"{SHARES} raw secure words per user",
            users=USERS,
        )
    ]


if __name__ == "__main__":
    show(rows(), "Shuffled sums")
