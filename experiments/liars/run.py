"""What liars do to the answer, and a median that they cannot ruin

Liars hardly harm the privacy of others, but they may ruin the answer. How far a liar can move it is a number of the protocol:
messages per report times the influence of a message. Here every protocol's number is compared with its most harmful messages,
and a sum by secret shares, which a single liar turns into anything, with the median of the sums of random groups.
"""

import numpy as np

import shuffledp as sdp
from shuffledp.core.analyzer import Tally
from shuffledp.core.randomizer import Messages, forget, randomize
from shuffledp.inference.reduction import split_into_groups
from shuffledp.inference.robust import worst_bias
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, GREY, VERMILION, panels

ORDER = 82
EPSILON, DELTA, N, K = 1.0, 1e-6, 9_000, 4
GROUPS, LIARS = 9, (0, 1, 4)


def single():
    """Protocols of one message, local and shuffled."""
    p = sdp.protocols
    crowd = {"n": N, "epsilon": EPSILON, "delta": DELTA}
    return {
        "bit, local": p.rr.make_local(epsilon=EPSILON),
        "bit, shuffled": p.rr.make(**crowd),
        "categories, local": p.krr.make_local(k=K, epsilon=EPSILON),
        "categories, shuffled": p.krr.make(**crowd, k=K),
        "subsets, local": p.subset_selection.make_local(k=K, epsilon=EPSILON),
        "unary, local": p.optimized_unary.make_local(k=3, epsilon=EPSILON),
    }


def worst_message(protocol) -> float:
    """The largest difference of any message from what an honest one says on average."""
    device, analyzer = protocol.randomizer, protocol.analyzer
    laws = [device.pmf(x) for x in range(device.domain.size)]
    weigh = {y: np.array([float(w) for w in analyzer.weights(y)]) for law in laws for (y,) in law}
    honest = [sum(float(q) * weigh[y] for (y,), q in law.items()) for law in laws]
    return max(float(np.abs(w - mean).max()) for w in weigh.values() for mean in honest)


def shares(protocol, values, liars: int, words, generator) -> float:
    """A sum by secret shares; those of the liars are random numbers."""
    sent = randomize(protocol.randomizer, values, words)
    payload = np.array(sent.payload)
    payload[:liars] = generator.integers(0, protocol.randomizer.modulus, liars)
    messages = Messages(payload=payload, owner=sent.owner, users=sent.users)
    return float(protocol.analyzer.estimate(protocol.analyzer.tally(forget(messages))).value)


def sums(context: Context, liars: int, trial: int) -> tuple[float, float]:
    """The errors of one sum of all and of the median of groups, per person."""
    words, generator = context.words(f"{liars} {trial}"), context.generator(f"lies {liars} {trial}")
    values = (np.arange(N) % 3 == 0).astype(np.int64)
    crowd = {"epsilon": EPSILON, "delta": DELTA, "lower": 0, "upper": 1}
    whole = sdp.protocols.split_and_mix.make(n=N, **crowd)
    alone = shares(whole, values, liars, words, generator) / N
    part = sdp.protocols.split_and_mix.make(n=N // GROUPS, **crowd)
    # The worst for the median: every liar in a group of her own.
    found = [
        shares(part, values[members], int(group < liars), words, generator) / len(members)
        for group, members in enumerate(split_into_groups(N, GROUPS, words))
    ]
    return abs(alone - 1 / 3), abs(float(np.median(found)) - 1 / 3)


def attack_tree(context: Context, liars: int) -> tuple[float, float]:
    """How far liars move a rank if all of them send the one node that moves it most, and the stated bound."""
    made = sdp.protocols.tree.make(n=N, lower=0, upper=99, epsilon=EPSILON, delta=DELTA)
    honest = np.full(100, (N - liars) // 100)
    tally = made.randomizer.deal(honest, context.words("tree"))
    sent = liars * made.cost.messages_max

    def ranks(node: int | None):
        lies = np.zeros_like(tally.counts)
        if node is not None:
            lies[node] = sent
        return np.cumsum(made.analyzer.fit(Tally(counts=tally.counts + lies, users=N)).values)

    plain = ranks(None)
    moved = max(np.abs(ranks(node) - plain).max() for node in range(made.randomizer.nodes))
    return float(moved), worst_bias(made, liars)


def run(context: Context) -> Result:
    bounds = {name: (worst_bias(made, 1), worst_message(made)) for name, made in single().items()}
    trials = context.pick(quick=5, full=50)
    errors = {liars: np.array([sums(context, liars, t) for t in range(trials)]) for liars in LIARS}
    typical = {liars: np.median(errors[liars], axis=0) for liars in LIARS}
    moved, stated = attack_tree(context, N // 100)
    return Result(
        verdicts=(
            Verdict(
                claim="no message moves an answer by more than its stated influence, and some by more than half of it",
                measured=", ".join(
                    f"{name}: {worst:.2f} of {bound:.2f}" for name, (bound, worst) in bounds.items()
                ),
                agrees=all(0.5 * bound < worst <= bound for bound, worst in bounds.values()),
            ),
            Verdict(
                claim="nor does a report about a tree: one person in a hundred, who sends the worst node in every message",
                measured=f"moves a rank by {moved:.0f} of {stated:.0f} people",
                agrees=0.3 * stated < moved <= stated,
            ),
            Verdict(
                claim="one liar ruins a sum by secret shares",
                measured=f"error per person {typical[1][0]:.3g} with one liar, {typical[0][0]:.2g} without",
                agrees=bool(typical[1][0] > 20 * typical[0][0]),
            ),
            Verdict(
                claim=f"the median of {GROUPS} groups survives {(GROUPS - 1) // 2} liars",
                measured=f"error per person {typical[4][1]:.2g} with four liars, {typical[0][1]:.2g} without",
                agrees=bool(errors[4][:, 1].max() < 0.05),
            ),
        ),
        figures=(draw(bounds, typical),),
        rows=tuple(
            {"protocol": name, "stated": bound, "worst": worst}
            for name, (bound, worst) in bounds.items()
        ),
        parameters={"n": N, "epsilon": EPSILON, "delta": DELTA, "groups": GROUPS, "trials": trials},
    )


def draw(bounds, typical) -> Drawn:
    figure, (left, right) = panels(
        ["What one liar moves, in people", "A sum by secret shares"],
        x="",
        y=["people", "error per person"],
    )
    places = np.arange(len(bounds))
    left.bar(
        places,
        [worst for _, worst in bounds.values()],
        color=BLUE,
        width=0.6,
        label="worst message",
    )
    left.plot(
        places, [bound for bound, _ in bounds.values()], "_", ms=22, color=GREY, label="stated"
    )
    left.set_xticks(places, list(bounds), rotation=25, ha="right", fontsize=8)
    right.set_yscale("log")
    right.plot(
        LIARS, [typical[liars][0] for liars in LIARS], "o-", color=VERMILION, label="one sum"
    )
    right.plot(
        LIARS,
        [typical[liars][1] for liars in LIARS],
        "o-",
        color=BLUE,
        label=f"median of {GROUPS} groups",
    )
    right.set_xlabel("liars")
    for axes in (left, right):
        axes.legend(frameon=False)
    return Drawn(name="liars", caption="Bounded influence, and none.", figure=figure)
