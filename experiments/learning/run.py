"""Learning a distribution: shuffled users are nearly as good as a curator

Each of n people holds one sample of an unknown law over k categories. How many does it take to know the law
to within total variation distance alpha? Without privacy k/alpha^2, with a trusted curator k/(alpha epsilon)
more. In the local model it is k^2/(alpha^2 epsilon^2): quadratic in k. A blog post on hiding among the clones makes a neat observation: take the best local
protocol, choose its epsilon0 for the shuffle model, and the quadratic term turns into k sqrt(log(1/delta))/(alpha epsilon). Just by
shuffling, one is back at the curator's rate. With several messages per user even the logarithm disappears.

We find the smallest n by evaluating the real protocols on the uniform law, which is the hardest.
"""

from shuffledp.inference.complexity import sample_complexity
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.planner.growth import exponent as fitted_exponent
from shuffledp.show.style import BLUE, GREEN, GREY, ORANGE, VERMILION, panels

ORDER = 60
ALPHA, EPSILON, DELTA = 0.1, 1.0, 1e-6
CURVES = (
    ("local", "local", None, 2.0, VERMILION),
    ("shuffle, one message", "shuffle", "hadamard", 1.0, ORANGE),
    ("shuffle, several messages", "shuffle", None, 1.0, BLUE),
    ("central", "central", None, 1.0, GREEN),
    ("no privacy", "none", None, 1.0, GREY),
)


def find_needed(model: str, protocol, *, k: int, alpha: float, runs: int | None):
    privacy = {}
    if model != "none":
        privacy["epsilon"] = EPSILON
    if model == "shuffle":
        privacy["delta"] = DELTA
    if protocol:
        privacy["protocol"] = protocol
    return sample_complexity("learn", k=k, alpha=alpha, model=model, runs=runs, **privacy)


def run(context: Context) -> Result:
    rows, runs = [], context.pick(quick=100, full=None)
    distances = (0.2, ALPHA, 0.05)
    for label, model, protocol, _, _ in CURVES:
        sizes = context.pick(quick=(25, 100), full=(25, 100, 400))
        points = [(k, ALPHA) for k in sizes] + [(100, a) for a in distances if a != ALPHA]
        for k, alpha in points:
            found = find_needed(model, protocol, k=k, alpha=alpha, runs=runs)
            rows.append(
                {
                    "model": label,
                    "protocol": found.protocol,
                    "k": k,
                    "alpha": alpha,
                    "n": found.n,
                    "theory": found.theory.value,
                    "formula": found.theory.formula,
                }
            )
    return Result(
        verdicts=(*growth(rows), *comparisons(rows)),
        figures=(draw(rows),),
        rows=tuple(rows),
        parameters={
            "epsilon": EPSILON,
            "delta": DELTA,
            "alpha": distances,
            "k": sorted({r["k"] for r in rows}),
        },
    )


def select(rows, label: str, *, alpha: float | None = None, k: int | None = None):
    """The rows of a curve at this alpha, or at this k, in the order of the other."""
    mine = [
        row
        for row in rows
        if row["model"] == label and alpha in (None, row["alpha"]) and k in (None, row["k"])
    ]
    return sorted(mine, key=lambda row: (row["k"], row["alpha"]))


def slope(rows, key: str) -> float:
    return fitted_exponent([r[key] for r in rows], [r["n"] for r in rows])


def growth(rows):
    for label, _, _, exponent, _ in CURVES:
        measured = slope(select(rows, label, alpha=ALPHA), "k")
        yield Verdict(
            claim=f"{label}: n grows like k^{exponent:g}",
            measured=f"exponent of k {measured:.2f}",
            agrees=abs(measured - exponent) < 0.07,
        )


def comparisons(rows) -> tuple[Verdict, ...]:
    at = {label: select(rows, label, alpha=ALPHA, k=100)[0]["n"] for label, *_ in CURVES}
    one = select(rows, "shuffle, one message")
    constants = [row["n"] / row["theory"] for row in one]
    in_alpha = {
        label: slope(select(rows, label, k=100), "alpha")
        for label in ("local", "shuffle, one message")
    }
    ratio = at["shuffle, several messages"] / at["central"]
    return (
        Verdict(
            claim="Shuffling a local protocol is all it takes for k/alpha^2 + k sqrt(log(1/delta))/(alpha epsilon)",
            measured=f"n is {min(constants):.2f} to {max(constants):.2f} times that order over all k and alpha; "
            f"k = 100: {at['shuffle, one message']:,} people instead of {at['local']:,} in the local model",
            agrees=max(constants) / min(constants) < 2
            and at["shuffle, one message"] < at["local"] / 50,
        ),
        Verdict(
            claim="So the exponent of alpha lies between -1 and -2, where the local one is -2",
            measured=f"{in_alpha['shuffle, one message']:.2f} (shuffle), {in_alpha['local']:.2f} (local), alpha from 0.05 to 0.2",
            agrees=-2.02 < in_alpha["shuffle, one message"] < -1
            and abs(in_alpha["local"] + 2) < 0.05,
        ),
        Verdict(
            claim="With several messages the shuffle model needs at most 1.3 times the curator's people (k = 100, alpha = 0.1)",
            measured=f"{at['shuffle, several messages']:,} and {at['central']:,}: {ratio:.2f} times",
            agrees=ratio <= 1.3,
        ),
    )


def draw(rows) -> Drawn:
    figure, (left, right) = panels(
        [f"alpha = {ALPHA:g}", "k = 100"],
        x="categories k",
        y=["people needed", ""],
        scales=("log", "log"),
        width=5.0,
        height=4.4,
    )
    right.set_xlabel("distance alpha")
    for label, _, _, exponent, colour in CURVES:
        for panel, mine, key in (
            (left, select(rows, label, alpha=ALPHA), "k"),
            (right, select(rows, label, k=100), "alpha"),
        ):
            panel.plot(
                [r[key] for r in mine],
                [r["n"] for r in mine],
                "o-",
                color=colour,
                lw=1.6,
                ms=5,
                label=f"{label}: k^{exponent:g}",
            )
    for panel, key in ((left, "k"), (right, "alpha")):
        ticks = sorted({row[key] for row in rows})
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.xaxis.minorticks_off()
    left.legend(frameon=False, fontsize=8.5)
    return Drawn(
        name="people",
        caption="The smallest number of people with an expected distance of at most alpha; epsilon = 1, delta = 1e-6.",
        figure=figure,
    )
