"""How many people a test of uniformity takes, model by model, and how that grows with k.

Not a matter of speed: ratios are to the number without privacy, and exponents are slopes of log n on log k.
"""

import math

from timing import Row, show

import shuffledp as sdp
from shuffledp.inference.complexity import SampleComplexity
from shuffledp.inference.testers import METHODS

PRIVACY = {"epsilon": 1.0, "delta": 1e-6, "honest": 1.0}
WITHIN = 0.1
GROWTH: tuple[tuple[str, float, tuple[int, ...], dict[str, object]], ...] = (
    ("no privacy", 1 / 2, (64, 256, 1024, 4096), {"alpha": 0.25, "model": "none"}),
    ("central, one number", 1 / 2, (64, 256, 1024, 4096), {"alpha": 0.25, "model": "central"}),
    (
        "shuffle, private coin, direct",
        3 / 4,
        (256, 1024, 4096),
        {"alpha": 0.25, "method": "direct"},
    ),
    (
        "shuffle, private coin, correlated",
        3 / 4,
        (64, 256, 1024),
        {"alpha": 0.25, "method": "correlated"},
    ),
    (
        "shuffle, private coin, amplified",
        3 / 4,
        (256, 1024, 4096),
        {"alpha": 0.25, "method": "amplified"},
    ),
    (
        "shuffle, public coin, direct",
        2 / 3,
        (1024, 4096, 16384, 65536),
        {"alpha": 0.25, "coin": "public", "method": "direct"},
    ),
    (
        "shuffle, public coin, hashed",
        2 / 3,
        (4096, 16384, 65536),
        {"alpha": 0.25, "coin": "public", "method": "hashed"},
    ),
    ("local, private coin", 3 / 2, (64, 256, 1024), {"alpha": 0.25, "model": "local"}),
    (
        "local, public coin",
        1.0,
        (64, 256, 1024, 4096),
        {"alpha": 0.25, "model": "local", "coin": "public"},
    ),
)


def rows() -> list[Row]:
    free = _needed(256, {"alpha": 0.1, "model": "none"})
    table = [
        _row(f"{model}, {coin} coin, {method}", found, free)
        for (model, coin), names in METHODS.items()
        for method in names
        if (found := _needed(256, {"alpha": 0.1, "model": model, "coin": coin, "method": method}))
    ]
    return table + [_growth(*one) for one in GROWTH]


def _needed(k: int, options: dict[str, object]) -> SampleComplexity:
    return sdp.sample_complexity("uniformity_test", k, **PRIVACY, **options)  # type: ignore[arg-type]


def _row(name: str, found: SampleComplexity, free: SampleComplexity) -> Row:
    return Row(
        what=f"people to test k=256 at 0.1, epsilon=1: {name}",
        baseline=f"no privacy: {free.n:,}",
        ours=f"{found.n:,}",
        ratio=f"{found.n / free.n:.3g}x",
    )


def _growth(name: str, exponent: float, ks: tuple[int, ...], options: dict[str, object]) -> Row:
    ns = [_needed(k, options).n for k in ks]
    slope = _slope([math.log(k) for k in ks], [math.log(n) for n in ns])
    return Row(
        what=f"growth in k = {ks[0]} .. {ks[-1]}: {name}",
        baseline=f"theory: k^{exponent:.3g}",
        ours=f"k^{slope:.3f} (n = {', '.join(f'{n:,}' for n in ns)})",
        wanted=f"within {WITHIN:g}",
        met=abs(slope - exponent) <= WITHIN,
    )


def _slope(x: list[float], y: list[float]) -> float:
    """Of the least-squares line."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    rise = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return rise / sum((a - mean_x) ** 2 for a in x)


if __name__ == "__main__":
    show(rows(), "Testing uniformity")
