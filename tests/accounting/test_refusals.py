"""Where theorems and tables end: the last question that is answered, and the first one that is refused."""

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import protocols
from shuffledp.accounting import (
    amplify,
    base,
    binary,
    blanket,
    clones,
    closed_forms,
    compose,
    correlated,
    exact,
    explain,
    moved_message,
    noisy_count,
    pure_total,
)
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.protocol import Promise

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
KRR = protocols.krr.KRR(k=3, epsilon0=1.0)
ROUND = amplify.profile(epsilon0=1.0, n=100, honest=1)
FLOOD = correlated.NegativeBinomialFlood(r=12.0, p=0.9)


def form(name, epsilon0=1.0, n=10_000, delta=1e-6):
    return getattr(closed_forms, name)(epsilon0=epsilon0, n=n, delta=delta)


def largest_epsilon0(n, delta, inside):
    """The condition of the theorem of 2021."""
    return math.log(n / (16 * math.log(inside / delta)))


def reach_one():
    """The epsilon0 up to which the result of Cheu's theorem is at most 1, at n = 10,000."""
    low, high = 1.0, 4.0
    for _ in range(60):
        middle = (low + high) / 2
        share = 2 * math.exp(-middle) / (1 + math.exp(-middle))
        L = math.log(4 / 1e-6)
        value = (
            math.sqrt(64 * L / (share * 10_000))
            if share <= 1 / 3
            else math.tanh(middle / 2) * math.sqrt(432 * L / 10_000)
        )
        low, high = (middle, high) if value <= 1 else (low, middle)
    return low


INSIDE = {
    **{
        f"{name}, {n}": lambda name=name, n=n, inside=inside: form(
            name, epsilon0=largest_epsilon0(n, 1e-6, inside) * (1 - 1e-12), n=n
        )
        for n in (10_000, 10**6)
        for name, inside in (
            ("feldman_2021", 2.0),
            ("feldman_2021_script", 4.0),
            ("doona", 2.0),
            ("doona_large", 2.0),
            ("doona_large_simple", 2.0),
        )
    },
    "doona_small": lambda: form("doona_small", epsilon0=1.0),
    "doona_large from 1": lambda: form("doona_large", epsilon0=1.0),
    "doona_large_simple from 1": lambda: form("doona_large_simple", epsilon0=1.0),
    "erlingsson, people": lambda: form("erlingsson_2019", epsilon0=0.25, n=1000),
    "erlingsson, epsilon0": lambda: form("erlingsson_2019", epsilon0=math.nextafter(0.5, 0)),
    "erlingsson, delta": lambda: form(
        "erlingsson_2019", epsilon0=0.25, delta=math.nextafter(0.01, 0)
    ),
    "cheu, people": lambda: form("cheu_2019", epsilon0=0.1, n=213),
    "cheu, result": lambda: form("cheu_2019", epsilon0=reach_one() - 1e-9),
    "hoeffding": lambda: form("balle_2019_hoeffding", epsilon0=200.0),
    "bennett": lambda: form("balle_2019_bennett", epsilon0=200.0),
    "work of the oracle": lambda: exact.shuffled_delta([{(0,): HALF, (1,): HALF}] * 2, 2, 1),
    "ratio of the oracle": lambda: exact.local_delta([{(0,): HALF, (1,): HALF}] * 2, 1),
    "local epsilon0": lambda: amplify.find_epsilon0(700.0, None),
    "smallest delta": lambda: ROUND.best(1e-300),
    "delta of nothing": lambda: ROUND.best(0.0),
    "adaptive with a total variation": lambda: amplify.profile(
        epsilon0=1.0, n=10, adaptive=True, total_variation=0.1
    ),
    "check-in of everybody": lambda: amplify.profile(epsilon0=1.0, n=10, total_variation=0.1),
    "delta0 up to delta": lambda: amplify.calibrate(n=10, epsilon=1.0, delta=1e-3, delta0=1e-3),
    "lower bound, epsilon0": lambda: amplify.amplify_lower(
        n=10, delta=1e-3, randomizer=protocols.krr.KRR(k=3, epsilon0=200.0)
    ),
    "approximate, delta": lambda: clones.ApproximateClones(epsilon0=1.0, delta0=1e-3, n=9).epsilon(
        1e-3
    ),
    "people of clones": lambda: clones.clones_2023(epsilon0=1.0, n=10**12).n,
    "people of bits": lambda: binary.BinaryResponse(n=2**52, flip=HALF - Fraction(1, 10**9)).n,
    "flip": lambda: binary.BinaryResponse(n=1, flip=Fraction(1, 10**40)).n,
    "masses of a blanket": lambda: blanket.Blanket(mass=(1 + 9e-13,), first=(1.0,), second=(1.0,)),
    "a law of a blanket": lambda: blanket.Blanket(mass=(1.0,), first=(1.0,), second=(1 + 9e-10,)),
    "composed delta": lambda: compose.compose([ROUND], delta=1e-100),
    "composed Renyi": lambda: compose.compose_renyi([ROUND] * 2, delta=1e-280),
    "order": lambda: compose.bound_renyi(np.array([0.0, 1.0]), np.array([0.1]), 601.0),
    "test": lambda: compose.CurveTable(grid=np.array([0.0, 1.0]), deltas=np.array([0.1])).trade_off(
        1
    ),
    "published flood": lambda: correlated._publish(Promise(epsilon=1.0, delta=0.4), 0.5, 1.0),
    "share": lambda: correlated.ThinnedNoise(epsilon_star=1.0, share=1.0, flood=FLOOD).share,
    "nobody is hit": lambda: moved_message.dummies_after(
        n=10**6, rho=HALF, pair=Fraction(1, 10), place=9
    ),
    "every dummy hits": lambda: moved_message.dummies(n=5, rho=HALF, pair=Fraction(1)).delta(1.0),
    "tiny gap of a law": lambda: noisy_count.smoothness({0: 0.5, 1: 0.5 - 9e-10}, 1.0),
    "level": lambda: base.find_level(
        lambda x: math.exp(-x), 1e-3, guess=1.0, largest=6.91, refusal="too much"
    ),
    "two shares": lambda: pure_total.MirroredTotal(shares=(1, 1)).loss(0, 0),
    "one round": lambda: compose.compose([ROUND], delta=0.5),
}
OUTSIDE = {
    **{
        f"{name}, {n}": (
            UnsupportedError,
            rf"{name} needs epsilon0 <= ln\(n / \(16 ln\({inside:g}/delta\)\)\) = ",
            lambda name=name, n=n, inside=inside: form(
                name, epsilon0=largest_epsilon0(n, 1e-6, inside) * (1 + 1e-12), n=n
            ),
        )
        for n in (10_000, 10**6)
        for name, inside in (
            ("feldman_2021", 2.0),
            ("feldman_2021_script", 4.0),
            ("doona", 2.0),
            ("doona_large", 2.0),
            ("doona_large_simple", 2.0),
        )
    },
    "doona_small": (UnsupportedError, "<= 1", lambda: form("doona_small", epsilon0=1 + 1e-12)),
    "doona_large": (UnsupportedError, ">= 1", lambda: form("doona_large", epsilon0=1 - 1e-12)),
    "erlingsson, people": (
        UnsupportedError,
        ">= 1000, got 999",
        lambda: form("erlingsson_2019", epsilon0=0.25, n=999),
    ),
    "erlingsson, epsilon0": (
        UnsupportedError,
        "epsilon0 < 1/2, got 0.5",
        lambda: form("erlingsson_2019", epsilon0=0.5),
    ),
    "erlingsson, delta": (
        UnsupportedError,
        "delta < 1/100, got 0.01",
        lambda: form("erlingsson_2019", epsilon0=0.25, delta=0.01),
    ),
    "erlingsson, no epsilon0": (
        ParameterError,
        "epsilon0",
        lambda: form("erlingsson_2019", epsilon0=-0.25),
    ),
    "cheu, people": (
        UnsupportedError,
        r"n >= 14 ln\(4/delta\) = 212.8, got 212",
        lambda: form("cheu_2019", epsilon0=0.1, n=212),
    ),
    "cheu, result": (
        UnsupportedError,
        "a result of at most 1, got 1",
        lambda: form("cheu_2019", epsilon0=reach_one() + 1e-9),
    ),
    "cheu, no delta": (ParameterError, "delta", lambda: form("cheu_2019", delta=1.5)),
    "hoeffding": (
        UnsupportedError,
        "epsilon0 <= 200",
        lambda: form("balle_2019_hoeffding", epsilon0=200.1),
    ),
    "hoeffding, no n": (ParameterError, "n", lambda: form("balle_2019_hoeffding", n=0)),
    "two of both": (
        ParameterError,
        "not both",
        lambda: closed_forms.BoundComparison(n=10, epsilon0=1.0, randomizer=KRR),
    ),
    "none of both": (ParameterError, "not both", lambda: closed_forms.BoundComparison(n=10)),
    "negative masses": (
        ParameterError,
        "sum to exactly 1",
        lambda: exact.local_delta([{(0,): Fraction(3, 2), (1,): -HALF}] * 2, 2),
    ),
    "masses below 1": (
        ParameterError,
        "sum to exactly 1",
        lambda: exact.local_delta([{(0,): QUARTER, (1,): HALF}] * 2, 2),
    ),
    "one law": (ParameterError, "number of laws", lambda: exact.local_ratio([{(0,): Fraction(1)}])),
    "ratio below 1": (
        ParameterError,
        "e.epsilon exactly",
        lambda: exact.local_delta([{(0,): HALF, (1,): HALF}] * 2, Fraction(99, 100)),
    ),
    "ratio of a float": (
        ParameterError,
        "e.epsilon exactly",
        lambda: exact.local_delta([{(0,): HALF, (1,): HALF}] * 2, 1.5),
    ),
    "work of the oracle": (
        UnsupportedError,
        "more than 2e.07",
        lambda: exact.shuffled_delta([{(0,): HALF, (1,): HALF}] * 2, 2000, 2),
    ),
    "no epsilon is enough": (
        UnsupportedError,
        r"no epsilon reaches delta=0\.1 with this noise",
        lambda: base.invert(lambda _: 0.2, 0.1),
    ),
    "no level is enough": (
        UnsupportedError,
        "too much",
        lambda: base.find_level(
            lambda x: math.exp(-x), 1e-3, guess=1.0, largest=6.9, refusal="too much"
        ),
    ),
    "no epsilon of a flood": (
        UnsupportedError,
        "with this flood",
        lambda: correlated._invert(lambda _: 0.2, 0.1, guess=1.0),
    ),
    "local epsilon0": (ParameterError, "<= 700", lambda: amplify.find_epsilon0(700.1, None)),
    "smallest delta": (ParameterError, "at least 1e-300", lambda: ROUND.best(9e-301)),
    **{
        f"{given} and {others}": (
            ParameterError,
            f"{given}.*{next(iter(others))}",
            lambda given=given, value=value, others=others: amplify.profile(
                n=10, **({"epsilon0": 1.0} | {given: value} | others)
            ),
        )
        for given, value, others in (
            ("adaptive", True, {"delta0": 0.1}),
            ("adaptive", True, {"check_in": 0.5}),
            ("adaptive", True, {"randomizer": KRR, "epsilon0": None}),
            ("check_in", 0.5, {"delta0": 0.1}),
            ("check_in", 0.5, {"total_variation": 0.1}),
            ("delta0", 0.1, {"total_variation": 0.1}),
            ("delta0", 0.1, {"randomizer": KRR, "epsilon0": None}),
        )
    },
    "check-in of nobody": (
        ParameterError,
        "check_in",
        lambda: amplify.profile(epsilon0=1.0, n=10, check_in=0.0),
    ),
    "no such bound": (
        ParameterError,
        "must be one that applies here: 'clones 2021', 'clones 2023'$",
        lambda: amplify.profile(epsilon0=1.0, n=10, bound="binary"),
    ),
    "delta0 above delta": (
        ParameterError,
        "delta0=0.0011 must be <= delta = 0.001",
        lambda: amplify.calibrate(n=10, epsilon=1.0, delta=1e-3, delta0=1.1e-3),
    ),
    "calibrated, delta0 and a randomizer": (
        ParameterError,
        "delta0.*randomizer",
        lambda: amplify.calibrate(n=10, epsilon=1.0, delta=1e-3, delta0=1e-4, randomizer=KRR),
    ),
    "lower bound at 0": (
        ParameterError,
        "must be > 0 for a lower bound",
        lambda: amplify.amplify_lower(n=10, delta=0.0, epsilon0=1.0),
    ),
    "lower bound at delta0": (
        ParameterError,
        "must be > delta0 for a lower bound",
        lambda: amplify.amplify_lower(n=10, delta=1e-3, delta0=1e-3, epsilon0=1.0),
    ),
    "lower bound, delta0 and a randomizer": (
        ParameterError,
        "delta0.*randomizer",
        lambda: amplify.amplify_lower(n=10, delta=1e-3, delta0=1e-4, randomizer=KRR),
    ),
    "lower bound, epsilon0": (
        UnsupportedError,
        "above 200",
        lambda: amplify.amplify_lower(
            n=10, delta=1e-3, randomizer=protocols.krr.KRR(k=3, epsilon0=200.1)
        ),
    ),
    "people for delta = 0": (
        UnsupportedError,
        "nothing beyond epsilon0",
        lambda: amplify.smallest_n(epsilon0=1.0, epsilon=0.5, delta=0.0),
    ),
    "approximate, delta": (
        UnsupportedError,
        "is below delta0",
        lambda: clones.ApproximateClones(epsilon0=1.0, delta0=1e-3, n=9).epsilon(0.999e-3),
    ),
    "people of clones": (
        UnsupportedError,
        "more than the 1e.12 users",
        lambda: clones.clones_2023(epsilon0=1.0, n=10**12 + 1),
    ),
    "people of bits": (
        ParameterError,
        "n=4503599627370497 must be <= 4503599627370496",
        lambda: binary.BinaryResponse(n=2**52 + 1, flip=HALF - Fraction(1, 10**9)),
    ),
    "flip": (
        ParameterError,
        "1e-40",
        lambda: binary.BinaryResponse(n=1, flip=Fraction(1, 10**40) * Fraction(9, 10)),
    ),
    "fair flip": (ParameterError, "< 1/2", lambda: binary.BinaryResponse(n=1, flip=HALF)),
    "masses of a blanket": (
        ParameterError,
        "at most 1",
        lambda: blanket.Blanket(mass=(1 + 2e-12,), first=(1.0,), second=(1.0,)),
    ),
    "a law of a blanket": (
        ParameterError,
        "second.*must be a law",
        lambda: blanket.Blanket(mass=(1.0,), first=(1.0,), second=(1 + 2e-9,)),
    ),
    "total variation": (
        ParameterError,
        "tanh",
        lambda: blanket.generic_blanket(epsilon0=1.0, total_variation=0.46212),
    ),
    "one leading blanket": (
        ParameterError,
        "several of the same masses",
        lambda: blanket.LeadingBlanket(
            blankets=(blanket.generic_blanket(epsilon0=1.0),), n=9, epsilon0=1.0
        ),
    ),
    "other masses": (
        ParameterError,
        "several of the same masses",
        lambda: blanket.LeadingBlanket(
            blankets=tuple(blanket.generic_blanket(epsilon0=each) for each in (1.0, 2.0)),
            n=9,
            epsilon0=1.0,
        ),
    ),
    "composed delta": (
        UnsupportedError,
        "is below 1e-100",
        lambda: compose.compose([ROUND], delta=0.9e-100),
    ),
    "composed Renyi": (
        UnsupportedError,
        "too small for 2 rounds",
        lambda: compose.compose_renyi([ROUND] * 2, delta=7.9e-290),
    ),
    "no rounds": (ParameterError, "at least one", lambda: compose.compose([], delta=0.1)),
    "no rounds of Renyi": (
        ParameterError,
        "at least one",
        lambda: compose.compose_renyi([], delta=0.1),
    ),
    "order of 1": (
        ParameterError,
        "alpha=1.* must be > 1",
        lambda: ROUND.renyi(1.0),
    ),
    "test with a negative error": (ParameterError, ">= 0 and <= 1", lambda: ROUND.trade_off(-1e-9)),
    "test with an error above 1": (ParameterError, ">= 0 and <= 1", lambda: ROUND.trade_off(1.01)),
    "published flood, epsilon": (
        UnsupportedError,
        "use calibration='exact'",
        lambda: correlated._publish(Promise(epsilon=1.0, delta=1e-6), 0.9, 1.001),
    ),
    "published flood, delta": (
        UnsupportedError,
        "use calibration='exact'",
        lambda: correlated._publish(Promise(epsilon=1.0, delta=0.5), 0.9, 1.0),
    ),
    "published flood, gap": (
        UnsupportedError,
        "use calibration='exact'",
        lambda: correlated._publish(Promise(epsilon=1.0, delta=1e-6), 0.499, 1.0),
    ),
    "share": (
        ParameterError,
        "<= 1",
        lambda: correlated.ThinnedNoise(epsilon_star=1.0, share=1.01, flood=FLOOD),
    ),
    "long thinned noise": (
        UnsupportedError,
        "too small for the exact sum",
        lambda: correlated.ThinnedNoise(epsilon_star=1e-3, share=0.5, flood=FLOOD).delta(1.0),
    ),
    "longer thinned noise": (
        UnsupportedError,
        "too small for the exact sum",
        lambda: correlated.ThinnedNoise(epsilon_star=1e-5, share=0.5, flood=FLOOD).delta(1.0),
    ),
    "star": (
        ParameterError,
        "must be > 0 and < epsilon = 1.0",
        lambda: correlated.flood_level(epsilon=1.0, epsilon_star=1.0, delta=1e-6),
    ),
    "no bins are left": (
        ParameterError,
        "must leave bins",
        lambda: moved_message.dummies_after(n=10**6, rho=HALF, pair=Fraction(1, 10), place=10),
    ),
    "too few tries": (
        UnsupportedError,
        "3 tries are too few for 5 pairs of bins",
        lambda: moved_message.dummies_after(n=3, rho=Fraction(1), pair=Fraction(1, 10), place=4),
    ),
    "gap of a law": (
        ParameterError,
        "sum to 1",
        lambda: noisy_count.smoothness({0: 0.5, 1: 0.5 - 1.1e-9}, 1.0),
    ),
    "negative mass": (
        ParameterError,
        "no negative mass",
        lambda: noisy_count.smoothness({0: 1.5, 1: -0.5}, 1.0),
    ),
    "gamma": (
        UnsupportedError,
        "3 honest users are too few",
        lambda: noisy_count.binomial_level(n=3, epsilon=1.0, delta=1e-6),
    ),
    "one share": (ParameterError, "two or more", lambda: pure_total.MirroredTotal(shares=(1,))),
    "share of nothing": (
        ParameterError,
        "integers >= 1",
        lambda: pure_total.MirroredTotal(shares=(1, 0)),
    ),
}


@pytest.mark.parametrize("name", INSIDE)
def test_answered(name):
    INSIDE[name]()


@pytest.mark.parametrize("name", OUTSIDE)
def test_refused(name):
    kind, message, ask = OUTSIDE[name]
    assert issubclass(kind, ShuffledpError)
    with pytest.raises(kind, match=message):
        ask()


class TestWhatARandomizerIs:
    """Binary randomized response is recognised by its law, and nothing else is taken for it."""

    def names(self, randomizer):
        return [bound.name for bound in amplify.profile(randomizer=randomizer, n=50).bounds]

    def test_two_outputs_that_change_places(self):
        class Coin(protocols.krr.KRR):
            def blankets(self):
                return ()

        assert "binary" in self.names(Coin(k=2, epsilon0=1.0))
        assert amplify._flip(Coin(k=2, epsilon0=1.0), ()) == Coin(k=2, epsilon0=1.0).pmf(0)[(1,)]
        assert "binary" not in self.names(Coin(k=3, epsilon0=1.0))

    @pytest.mark.parametrize(
        "laws",
        [
            [{(0,): Fraction(3, 4), (1,): QUARTER}, {(0,): Fraction(3, 4), (1,): QUARTER}],
            [{(0,): Fraction(3, 4), (1,): QUARTER}, {(0,): Fraction(1, 3), (1,): Fraction(2, 3)}],
            [{(0,): HALF, (1,): QUARTER, (2,): QUARTER}] * 2,
        ],
    )
    def test_other_laws(self, laws):
        class Other(protocols.krr.KRR):
            def pmf(self, x):
                return laws[x]

        assert amplify._flip(Other(k=2, epsilon0=1.0), ()) is None


def test_the_number_for_people_who_are_not_counted():
    text = explain.explain(protocols.krr.make_local(k=3, epsilon=1.0))
    assert "for 1,000,000 people" in text
    assert "a factor of 2.72" in text
