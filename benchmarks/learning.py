"""How many people learn a distribution to total variation alpha, model by model.

Not a matter of speed: the ratio is the number of people that the shuffle model needs to that of the central one.
"""

from timing import Row, show

import shuffledp as sdp
from shuffledp.inference.complexity import SampleComplexity

QUESTION = {"k": 100, "alpha": 0.1, "epsilon": 1.0, "delta": 1e-6}
AT_MOST = 1.3
OTHERS: tuple[tuple[str, dict[str, object]], ...] = (
    ("none", {"model": "none"}),
    ("shuffle, at most 8 messages", {"max_messages": 8}),
    ("shuffle, dummies", {"protocol": "dummies_histogram"}),
    ("shuffle, one message: krr", {"protocol": "krr"}),
    ("shuffle, one message: hadamard", {"protocol": "hadamard"}),
    ("local, hadamard", {"model": "local", "protocol": "hadamard"}),
    ("local, krr", {"model": "local", "protocol": "krr"}),
)


def rows() -> list[Row]:
    central = sdp.sample_complexity("learn", **QUESTION, model="central")
    shuffle = sdp.sample_complexity("learn", **QUESTION)
    table = [_row("shuffle", shuffle, central, AT_MOST)]
    for name, options in OTHERS:
        found = sdp.sample_complexity("learn", **QUESTION, **options)
        table.append(_row(name, found, central, None))
    return table


def _row(name: str, found: SampleComplexity, central: SampleComplexity, limit: float | None) -> Row:
    ratio = found.n / central.n
    return Row(
        what=f"people to learn k=100 to 0.1, epsilon=1: {name}",
        baseline=f"central: {central.n:,}",
        ours=f"{found.n:,} ({found.protocol})",
        ratio=f"{ratio:.3g}x",
        wanted="-" if limit is None else f"<= {limit:g}x",
        met=None if limit is None else ratio <= limit,
    )


if __name__ == "__main__":
    show(rows(), "Learning a distribution")
