"""Where the models part: five statements, executed

Is the shuffle model anything new? With pure privacy and one message per user it is not: such a protocol is a
local protocol in disguise. With two messages it is: a user may send x and 1 - x, which reveals
everything before shuffling and nothing after it. Nor is it enough to look at each user's messages shuffled by
themselves: the randomizer R^gap gives values away even then, while those of many users shuffled together have
a finite epsilon, which we compute exactly.

The last two statements are steps of the proof that counting with noise messages is private: the binomial law
is smooth (far smoother than the lemma says), and tanh(epsilon/2) >= epsilon/sqrt(5), where one may wonder
why not sqrt(4).
"""

from itertools import zip_longest

from shuffledp.audit import separations
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, GREEN, GREY, VERMILION, panels

ORDER = 100


def run(context: Context) -> Result:
    trials = context.pick(quick=40, full=400)
    largest = 20
    statements = [
        separations.pure_single_message_is_local(trials=trials),
        separations.mirrored_pair(),
        separations.gap_is_finite(largest_n=largest),
        separations.binomial_is_smooth(),
        separations.square_root_step(),
    ]
    _, _, gap, smooth, root = statements
    return Result(
        verdicts=(
            *(
                Verdict(claim=each.claim, measured=each.measured, agrees=each.agrees)
                for each in statements
            ),
            compare_fractions(gap),
        ),
        figures=(draw(gap, smooth, root),),
        rows=tuple(rows(gap)),
        parameters={"random randomizers": trials, "largest n of R^gap": largest},
    )


def compare_fractions(gap) -> Verdict:
    """The values that were known before, as fractions."""
    known = {2: "5/2", 3: "125/64", 4: "8/5", 12: "8/5", 20: "8/5"}
    found = {n: str(ratio) for n, ratio in zip(gap.columns["n"], gap.columns["ratio"], strict=True)}
    return Verdict(
        claim="R^gap: e^epsilon is 5/2 for two users, 125/64 for three, and 8/5 from four on",
        measured=", ".join(f"n = {n}: {found[n]}" for n in known),
        agrees=all(found[n] == ratio for n, ratio in known.items()),
    )


def rows(statement):
    """Its columns as rows."""
    for values in zip_longest(*statement.columns.values()):
        yield {name: str(value) for name, value in zip(statement.columns, values, strict=True)}


def draw(gap, smooth, root) -> Drawn:
    figure, (left, middle, right) = panels(
        ["R^gap, shuffled", "The smoothness lemma", "Why the root of five"],
        x="users n",
        y=["epsilon, exactly", "delta", "alpha - epsilon/sqrt(c)"],
        width=3.7,
    )
    n = gap.columns["n"]
    left.plot(n, gap.columns["epsilon"], "o-", color=BLUE, lw=1.6, ms=4.5, label="epsilon")
    left.plot(
        n,
        [float(v) for v in gap.columns["total variation"]],
        "o-",
        color=GREEN,
        lw=1.6,
        ms=4.5,
        label="total variation",
    )
    left.set_ylim(0, 1)
    left.legend(frameon=False)
    labels = [
        f"n = {size:,}\n$\\gamma$ = {float(gamma):g}\n$\\alpha$ = {float(alpha):g}"
        for size, gamma, alpha in zip(
            *(smooth.columns[c] for c in ("n", "gamma", "alpha")), strict=True
        )
    ]
    places = range(len(labels))
    middle.bar(
        [p - 0.2 for p in places],
        smooth.columns["lemma delta"],
        0.4,
        color=VERMILION,
        label="lemma",
    )
    middle.bar(
        [p + 0.2 for p in places], smooth.columns["exact delta"], 0.4, color=BLUE, label="exact"
    )
    middle.set(yscale="log", ylim=(None, 1e6))
    middle.set_xticks(list(places), labels, fontsize=7)
    middle.set_xlabel("")
    middle.legend(frameon=False)
    for c, colour in ((5, BLUE), (4, VERMILION)):
        right.plot(
            root.columns["epsilon"],
            root.columns[f"alpha - epsilon/sqrt({c})"],
            color=colour,
            lw=1.8,
            label=f"c = {c}",
        )
    right.axhline(0, color=GREY, lw=1)
    right.set_xlabel("epsilon")
    right.legend(frameon=False)
    return Drawn(
        name="separations",
        caption="Left: the exact epsilon of shuffled R^gap, infinite for one user. Middle: the delta of the smoothness lemma and the "
        "exact one. Right: alpha = tanh(epsilon/2) is above epsilon/sqrt(5) up to 1, and always below epsilon/2.",
        figure=figure,
    )
