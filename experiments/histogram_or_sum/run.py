"""Are histograms easier than sums? Each bin is; a sum that is read off them is not

One of the notes asks: is there a major difference between a mean of a histogram and a regular mean? As histograms are
bucketed, they must be easier. It depends on what is asked of them. The noise of a bin need only hide that one person is in
it, so a bin errs by a few people, whatever the values are. The noise of a sum must hide the largest value. But who
adds up the bins, each times its value, adds up their noise as well: for the values 0 to U that is the noise of a bin times
sqrt(0^2 + ... + U^2), about U^(3/2) / sqrt(3), where a sum asked directly errs in proportion to U.

Here 10,000 people have values from 0 to 10, and epsilon is 1, with a shuffler and with a curator.
"""

import math

import numpy as np

import shuffledp as sdp
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.planner.growth import exponent
from shuffledp.show.style import BLUE, GREEN, ORANGE, VERMILION, panels

ORDER = 45
N, EPSILON, DELTA = 10_000, 1.0, 1e-6
RANGES = (1, 3, 10, 30, 100)
STANDARD = 10


def read_off(variance_of_bin: float, upper: int) -> float:
    """The error of the sum that is computed from the bins 0 .. upper, whose noise is independent."""
    return math.sqrt(variance_of_bin * sum(value**2 for value in range(upper + 1)))


def make(upper: int):
    """A histogram and a sum behind a shuffler, for the same promise."""
    promise = {"n": N, "epsilon": EPSILON, "delta": DELTA, "honest": 1.0}
    bins = sdp.protocols.correlated_histogram.make(k=upper + 1, **promise)
    total = sdp.protocols.split_and_mix.make(lower=0, upper=upper, **promise)
    return bins, total


def point(upper: int) -> dict[str, float]:
    bins, total = make(upper)
    inputs = np.zeros(upper + 1, dtype=np.int64)
    inputs[0] = N
    each = float(np.asarray(bins.analyzer.variance(inputs))[0])
    curator = sdp.mechanisms.geometric.make(epsilon=EPSILON, sensitivity=2, k=upper + 1).variance()
    direct = sdp.mechanisms.geometric.make(epsilon=EPSILON, sensitivity=upper).variance()
    return {
        "upper": upper,
        "bin": math.sqrt(each),
        "read_off": read_off(each, upper),
        "direct": math.sqrt(float(np.asarray(total.analyzer.variance(inputs)))),
        "curator_read_off": read_off(curator, upper),
        "curator_direct": math.sqrt(direct),
    }


def measure(context: Context, runs: int) -> tuple[float, float]:
    """Root mean squared errors of both ways, over simulated collections of the same people."""
    bins, total = make(STANDARD)
    people = context.generator("people").multinomial(N, np.full(STANDARD + 1, 1 / (STANDARD + 1)))
    values = np.arange(STANDARD + 1)
    truth = int(people @ values)
    words = context.words("noise")
    errors = np.array(
        [
            (
                float(values @ np.asarray(sdp.run_counts(bins, people, words).value)) - truth,
                float(sdp.run_counts(total, people, words).value) - truth,
            )
            for _ in range(runs)
        ]
    )
    first, second = np.sqrt(np.mean(errors**2, axis=0))
    return float(first), float(second)


def run(context: Context) -> Result:
    runs = context.pick(quick=200, full=2_000)
    rows = [point(upper) for upper in RANGES]
    measured = measure(context, runs)
    return Result(
        verdicts=verdicts(rows, measured, runs),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={"n": N, "epsilon": EPSILON, "delta": DELTA, "upper": RANGES, "runs": runs},
    )


def verdicts(rows, measured, runs) -> tuple[Verdict, ...]:
    standard = next(row for row in rows if row["upper"] == STANDARD)
    stated = (standard["read_off"], standard["direct"])
    off = max(abs(a / b - 1) for a, b in zip(measured, stated, strict=True))
    large = [row for row in rows if row["upper"] >= STANDARD]
    slopes = [
        exponent([row["upper"] for row in large], [row[name] for row in large])
        for name in ("read_off", "direct")
    ]
    bins = [row["bin"] for row in rows]
    return (
        Verdict(
            claim="A histogram is easier than a sum: as bins are buckets, they must be",
            measured=f"values 0 to {STANDARD}: a bin errs by {standard['bin']:.1f} people, but the sum that is read off the bins by "
            f"{stated[0]:.1f}, and asked directly by {stated[1]:.1f}",
            agrees=stated[0] <= stated[1],
            why="Each bin is easier: its noise hides one person, and not the largest value. Their sum is harder: the noise of "
            "every bin is multiplied by its value and added up.",
        ),
        Verdict(
            claim="Both errors are what simulated collections have",
            measured=f"{measured[0]:.1f} and {measured[1]:.1f} in {runs:,} runs; at most {off:.1%} from the stated ones",
            # An RMSE of `runs` errors varies by 1/sqrt(2 runs), of Laplace noise by a little more.
            agrees=off < 8 / math.sqrt(2 * runs),
        ),
        Verdict(
            claim="The error of a bin does not depend on how large the values are",
            measured=f"between {min(bins):.2f} and {max(bins):.2f} for values up to {RANGES[0]} and up to {RANGES[-1]}",
            agrees=max(bins) / min(bins) < 1.05,
        ),
        Verdict(
            claim="Read off the bins the error of a sum grows like U^(3/2), asked directly like U",
            measured=f"exponents {slopes[0]:.2f} and {slopes[1]:.2f} from U = {STANDARD} on",
            agrees=abs(slopes[0] - 1.5) < 0.1 and abs(slopes[1] - 1) < 0.05,
        ),
        Verdict(
            claim="A trusted curator has the same choice",
            measured=f"values 0 to {STANDARD}: {standard['curator_read_off']:.1f} and {standard['curator_direct']:.1f}",
            agrees=standard["curator_read_off"] > 3 * standard["curator_direct"],
        ),
    )


def draw(rows) -> Drawn:
    figure, (axes,) = panels(
        ["10,000 people with values 0 to U, epsilon = 1"],
        x="largest value U",
        y="error (RMSE)",
        scales=("log", "log"),
        width=7.0,
    )
    lines = (
        ("read_off", VERMILION, "-", "sum read off the bins, shuffler"),
        ("curator_read_off", ORANGE, "--", "sum read off the bins, curator"),
        ("direct", BLUE, "-", "sum asked directly, shuffler"),
        ("bin", GREEN, "-", "one bin, shuffler"),
    )
    for name, colour, style, label in lines:
        axes.plot(
            [row["upper"] for row in rows],
            [row[name] for row in rows],
            style,
            marker="o",
            ms=4,
            color=colour,
            lw=1.6,
            label=label,
        )
    axes.legend(frameon=False, fontsize=8)
    return Drawn(
        name="errors",
        caption="A bin errs by as many people whatever the values are. The sum of the bins, each times its value, errs more "
        "than the sum that is asked for.",
        figure=figure,
    )
