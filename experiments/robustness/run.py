"""If ten percent of the people lie: what happens to privacy, and to the answer

In a shuffle protocol everybody contributes to the noise. If a tenth of the users send something else, or
nothing, their noise is missing, and the others are protected by what is left. The literature says that the
guarantee for 0.9 n users remains, a loss of about 5 percent in epsilon for amplified randomized response,
while the answer can be ruined completely. The first half is easy to check for any protocol, since a
guarantee is a function of the number of honest users. But 5 percent is special to protocols where
everybody adds noise anyway: where the noise is calibrated to a delta, a tenth less of it costs a
factor in delta. That is why every protocol here is made for a stated share of honest users, 0.9 by
default.

For the second half, 1,000 of 10,000 people send whatever moves the answer most, within the message
format. How far that is depends on the protocol: randomized response limits everybody to one (amplified) vote,
whereas in secret sharing a single liar turns the sum into a random number.
"""

import math

import numpy as np

import shuffledp as sdp
from shuffledp.core.randomizer import Messages, forget, randomize
from shuffledp.lab.runner import Context, Drawn, Result, Verdict
from shuffledp.show.style import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, panels

ORDER = 80
N, LIARS, EPSILON, DELTA = 10_000, 1_000, 1.0, 1e-6
SHUFFLED = {"n": N, "epsilon": EPSILON, "delta": DELTA}


def makers():
    """The protocols by a short name, made for everybody being honest."""
    p = sdp.protocols
    return {
        "shuffled bit": p.rr.make(**SHUFFLED, honest=1.0),
        "noise messages": p.zsum_sparse.make(**SHUFFLED, honest=1.0),
        "correlated noise": p.correlated_count.make(**SHUFFLED, honest=1.0),
        "split and mix": p.split_and_mix.make(**SHUFFLED, honest=1.0, lower=0, upper=1),
    }


def find_delta(protocol, honest: float) -> float:
    """The delta that is left at the epsilon the protocol was made for."""
    left = protocol.guarantee_if(honest=honest)
    if left.epsilon <= EPSILON:
        return left.delta
    # Amplified protocols keep delta and lose epsilon: read the same curve the other way.
    users = round(N * honest)
    return sdp.profile(randomizer=protocol.randomizer, n=users, honest=1).delta(EPSILON)


def poison(protocol, payload, rng) -> float:
    """The answer when the honest nine tenths hold 3,000 ones and the liars send `payload`."""
    values = np.zeros(N - LIARS, dtype=np.int64)
    values[:3000] = 1
    sent = randomize(protocol.randomizer, values, rng)
    lies = np.asarray(payload, dtype=sent.payload.dtype)
    messages = Messages(
        payload=np.concatenate([sent.payload, lies]),
        owner=np.concatenate([np.asarray(sent.owner), np.full(len(lies), N - LIARS)]),
        users=N,
    )
    return float(protocol.analyzer.estimate(protocol.analyzer.tally(forget(messages))).value)


def attacks(context: Context, made):
    """(attack, protocol, predicted largest shift, measured shift): liars who should have sent zeros."""
    rng = context.words("attacks")
    local = sdp.protocols.rr.make_local(epsilon=EPSILON)
    bits = {"local bit": local, "shuffled bit": made["shuffled bit"]}
    found = []
    for name, protocol in bits.items():
        # A lie of one counts (1 - q)/(1 - 2q).
        vote = float(protocol.analyzer.weights(1)[0])
        shift = poison(protocol, np.ones(LIARS), rng) - 3000
        spread = math.sqrt(protocol.analyzer.variance(np.array([N, 0])))
        found.append((name, LIARS * vote, shift, spread))
    for name, per_liar in (("noise messages", 2), ("correlated noise", 1)):
        protocol = made[name]
        shift = poison(protocol, np.ones(LIARS * per_liar), rng) - 3000
        spread = math.sqrt(protocol.analyzer.variance(np.array([N, 0])))
        gamma = float(protocol.randomizer.gamma) if name == "noise messages" else 0.0
        found.append((name, LIARS * (per_liar - gamma), shift, spread))
    return found


def one_liar(context: Context, protocol, runs: int):
    """Split and mix with one liar who sends uniform shares: the answers."""
    rng = context.words("one liar")
    values = np.zeros(N - 1, dtype=np.int64)
    values[:3000] = 1
    answers = []
    for _ in range(runs):
        sent = randomize(protocol.randomizer, values, rng)
        count = protocol.randomizer.shares
        lies = rng.words(count) & np.uint64(protocol.randomizer.modulus - 1)
        messages = Messages(
            payload=np.concatenate([sent.payload, lies]),
            owner=np.concatenate([np.asarray(sent.owner), np.full(count, N - 1)]),
            users=N,
        )
        tally = protocol.analyzer.tally(forget(messages))
        answers.append(float(protocol.analyzer.estimate(tally).value))
    return np.array(answers)


def run(context: Context) -> Result:
    made = makers()
    shares = [1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
    curves = {name: [find_delta(p, share) for share in shares] for name, p in made.items()}
    epsilons = [made["shuffled bit"].guarantee_if(honest=share).epsilon for share in shares]
    generic = [
        sdp.amplify(epsilon0=1.0, n=N, delta=DELTA, honest=share).epsilon for share in shares
    ]
    lies = attacks(context, made)
    answers = one_liar(context, made["split and mix"], context.pick(quick=20, full=100))
    rows = [
        {"protocol": name, "honest": share, "delta": delta, "epsilon_of_bit": epsilon}
        for name, deltas in curves.items()
        for share, delta, epsilon in zip(shares, deltas, epsilons, strict=True)
    ]
    return Result(
        verdicts=(*privacy(curves, shares, epsilons, generic), *utility(lies, answers)),
        figures=(draw(shares, curves, epsilons, lies),),
        rows=tuple(rows),
        parameters={
            "n": N,
            "liars": LIARS,
            "epsilon": EPSILON,
            "delta": DELTA,
            "honest shares": shares,
        },
    )


def privacy(curves, shares, epsilons, generic) -> tuple[Verdict, ...]:
    at = shares.index(0.9)
    fewer = sdp.amplify(epsilon0=1.0, n=N * 9 // 10, delta=DELTA, honest=1).epsilon
    ready = sdp.protocols.zsum_sparse.make(**SHUFFLED, honest=0.9)
    bit = epsilons[at] / epsilons[0]
    return (
        Verdict(
            claim="With 10% liars the others keep the amplification guarantee for 0.9 n users",
            measured=f"epsilon0 = 1: {generic[at]:.5f} for 0.9 of 10,000 users and {fewer:.5f} for 9,000 users, "
            f"{generic[at] / generic[0] - 1:.1%} more than for all (1/sqrt(0.9) would be 5.4%)",
            agrees=generic[at] == fewer and 1.04 < generic[at] / generic[0] < 1.08,
        ),
        Verdict(
            claim="So little is lost for randomized response at epsilon = 1",
            measured=f"epsilon {epsilons[0]:.3f} becomes {epsilons[at]:.3f}, {bit - 1:.1%} more, at the same delta",
            agrees=1 < bit < 1.1,
        ),
        Verdict(
            claim="But it is not free: at the same epsilon, delta grows",
            measured=", ".join(
                f"{name}: {deltas[at] / deltas[0]:.3g} times" for name, deltas in curves.items()
            ),
            agrees=all(deltas[at] > deltas[0] for deltas in curves.values()),
        ),
        Verdict(
            claim="A protocol made for 0.9 honest users keeps its promise with 10% liars",
            measured=f"noise messages made this way: delta {ready.guarantee_if(honest=0.9).delta:.3g} <= {DELTA:g}",
            agrees=ready.guarantee_if(honest=0.9).delta <= DELTA,
        ),
    )


def utility(lies, answers) -> tuple[Verdict, ...]:
    off = max(abs(shift - predicted) / spread for _, predicted, shift, spread in lies)
    shifts = {name: shift for name, _, shift, _ in lies}
    far = np.abs(answers - 3000)
    return (
        Verdict(
            claim="1,000 liars move the answer by exactly the weight of their messages",
            measured=", ".join(f"{name}: {shift:+,.0f}" for name, shift in shifts.items())
            + f" (predicted within {off:.1f} standard deviations)",
            agrees=off < 5,
        ),
        Verdict(
            claim="Liars can completely jeopardize the answer",
            measured=f"randomized bits: 10% liars move the mean by {shifts['shuffled bit'] / N:.3f} (shuffled) and "
            f"{shifts['local bit'] / N:.3f} (local); split and mix: one liar alone moves the sum by {np.median(far):,.0f} (median of {len(far)})",
            agrees=min(shifts.values()) >= N / 2 and np.median(far) >= N / 2,
            why="It depends on the protocol. Where everybody sends one of two messages, a liar has one vote, weighted "
            "by at most (e^epsilon0)/(e^epsilon0 - 1), as in any poll. Where messages are secret shares, or their "
            "number is not checked, a single liar can do what the sentence says.",
        ),
    )


def draw(shares, curves, epsilons, lies) -> Drawn:
    figure, (left, middle, right) = panels(
        ["delta at epsilon = 1", "epsilon at delta = 1e-6", "1,000 liars of 10,000"],
        x="share of users who are honest",
        y=["delta that is left", "epsilon of the shuffled bit", ""],
        width=3.7,
        height=3.8,
    )
    for (name, deltas), colour in zip(
        curves.items(), (BLUE, VERMILION, GREEN, PURPLE), strict=True
    ):
        left.plot(shares, deltas, "o-", color=colour, lw=1.6, ms=3.5, label=name)
    left.set_yscale("log")
    left.legend(frameon=False, fontsize=8)
    middle.plot(shares, epsilons, "o-", color=BLUE, lw=1.6, ms=3.5, label="exact")
    middle.plot(
        shares, [1 / math.sqrt(s) for s in shares], "--", color=GREY, lw=1.2, label="1/sqrt(share)"
    )
    middle.legend(frameon=False, fontsize=8)
    for panel in (left, middle):
        panel.invert_xaxis()
    names = [name for name, *_ in lies]
    right.barh(names, [shift for _, _, shift, _ in lies], color=ORANGE, height=0.55)
    right.axvline(LIARS, color=GREY, lw=1.2, ls="--")
    right.set_xlabel("shift of the count (dashed: one vote each)")
    right.invert_yaxis()
    return Drawn(
        name="liars",
        caption="Left and middle: what is left of the guarantee if fewer people are honest than it was made for. "
        "Right: how far a tenth of the people can move the count within the message format.",
        figure=figure,
    )
