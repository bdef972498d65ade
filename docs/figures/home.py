"""The picture of the documentation's home: `python docs/figures/home.py`.

Writes docs/img/trust.svg: one histogram of a million made-up people in three models, with seeded noise. Needs
Matplotlib.
"""

from pathlib import Path

import shuffledp as sdp

IMAGE = Path(__file__).resolve().parent.parent / "img" / "trust.svg"
N, EPSILON, DELTA, SEED = 1_000_000, 1.0, 1e-8, 1


def draw(path: Path = IMAGE) -> Path:
    people, rng = sdp.samples.commuters(N), sdp.SeededWords(SEED)
    k = people.domain.k
    curator = sdp.mechanisms.geometric.make(k=k, sensitivity=2, epsilon=EPSILON)
    shuffled = sdp.histogram(k=k, n=N, epsilon=EPSILON, delta=DELTA)
    alone = sdp.protocols.krr.make_local(k=k, epsilon=EPSILON)
    return sdp.show.compare_errors(
        people.counts,
        {
            "central: trust a curator": curator.release(people.counts, rng),
            "shuffle: trust a shuffler": sdp.run(shuffled, people.codes, rng),
            "local: trust nobody": sdp.run(alone, people.codes, rng),
        },
        path,
        labels=people.domain.labels,
        title="A shuffler is nearly as accurate as a curator, and sees no raw value",
        subtitle=f"How {N:,} made-up people get to work, epsilon = {EPSILON:g} for everybody. Grey: the truth; "
        "colour: how far off each estimate may be,\nand by how much it is.",
    )


if __name__ == "__main__":
    draw()
