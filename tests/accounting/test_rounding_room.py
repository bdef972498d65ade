"""The room for rounding: how much certified bounds give away, in units in the last place, as their proofs count them.

No input shows that a bound has too little room: rounding errors are mostly far below what they may be. So the unit is
made larger (a machine that rounds to 30 binary places could): the bounds must move outwards, by at least as many units
as the proofs need. A term with the wrong sign, or left out, gives less. If a proof changes, so does its line here.
"""

import math
from fractions import Fraction

import numpy as np
import pytest

from shuffledp import protocols
from shuffledp.accounting import (
    amplify,
    binary,
    blanket,
    clones,
    compose,
    correlated,
    moved_message,
    noisy_count,
    positive_part,
    pure_total,
)
from shuffledp.core.protocol import Promise
from shuffledp.numerics import masses, rounding
from shuffledp.numerics.intervals import counts, sample
from shuffledp.protocols import levels, several_values, split_and_mix
from shuffledp.protocols.shared import joint

TRUE_UNIT, UNIT = rounding.UNIT, 2.0**-30
MODULES = [
    binary,
    blanket,
    clones,
    compose,
    correlated,
    moved_message,
    moved_message,
    noisy_count,
    positive_part,
    pure_total,
    masses,
    masses,
    counts,
    sample,
    levels,
    several_values,
    joint,
    split_and_mix,
]
GENERIC = blanket.generic_blanket(epsilon0=1.0)
THREE = (np.array([0.2, 0.5, 0.3]), np.array([0.9, -0.1, -0.6]))
QUARTER = Fraction(1, 4)
FLOOD = correlated.NegativeBinomialFlood(r=12.0, p=0.9)


CORRELATED = correlated.CorrelatedNoise(epsilon_star=0.7, flood=FLOOD)
CURVE, OTHER = (amplify.profile(epsilon0=1.0, n=n, honest=1) for n in (1_000, 700))
TABLE = compose.CurveTable(grid=np.array([0.0, 0.5, 1.0]), deltas=np.array([0.2, 0.05]))
LEVELS = levels.Levels(k=4, people={0.5: 4, 2.0: 6}).hide_level(2.0)
HISTOGRAM = protocols.dummies_histogram.make(n=1_000, k=4, epsilon=0.5, delta=1e-6, honest=1.0)
MOVED = several_values.MovedValue(inner=HISTOGRAM, values=2, place=1)
JOINT = joint.Joint(parts=(HISTOGRAM.accountant,) * 2, promise=Promise(epsilon=1.0, delta=1e-6))

OTHERS = blanket.two_level_blanket(
    ratio=Fraction(3), one=Fraction(1, 8), both=Fraction(1, 12), neither=QUARTER
)
BARE = blanket.Blanket(mass=(0.4, 0.3), first=(0.5, 2.0), second=(2.0, 0.5), bare=((0.2, 0.05),))


def tilt(side):
    """The same tilt of three values among 300 people, seen from either side."""
    return positive_part._Tilt.at(0.21, *THREE, 300, side)


def end(found, place):
    return float(np.asarray(found[place]).ravel()[0])


CASES = {
    "binary upper": (binary, lambda: binary.BinaryResponse(n=101, flip=QUARTER).delta(0.3)),
    "binary lower": (binary, lambda: binary.BinaryResponse(n=101, flip=QUARTER).delta_lower(0.3)),
    "binary many": (binary, lambda: binary.BinaryResponse(n=10_001, flip=QUARTER).delta(0.05)),
    "blanket": (blanket, lambda: GENERIC.delta(0.1, 1_001)),
    "blanket with parts": (positive_part, lambda: GENERIC.delta(0.1, 1_001)),
    "blanket few": (positive_part, lambda: GENERIC.delta(0.3, 21)),
    "blanket excess": (blanket, lambda: blanket._round_excess(GENERIC, 0.5)),
    "binomial excess near": (
        blanket,
        lambda: end([blanket._bound_excess(np.array([31.5]), np.array([100.0]), 0.3)], 0),
    ),
    "binomial excess below": (
        blanket,
        lambda: end([blanket._bound_excess(np.array([21.5]), np.array([100.0]), 0.3)], 0),
    ),
    "binomial excess above": (
        blanket,
        lambda: end([blanket._bound_excess(np.array([45.5]), np.array([100.0]), 0.3)], 0),
    ),
    "binomial excess all": (
        blanket,
        lambda: end([blanket._bound_excess(np.array([-3.5]), np.array([100.0]), 0.3)], 0),
    ),
    "clones": (clones, lambda: clones.clones_2023(epsilon0=1.0, n=1_001).delta(0.1)),
    "clones few": (clones, lambda: clones.clones_2023(epsilon0=1.0, n=21).delta(0.3)),
    "clones many": (clones, lambda: clones.clones_2023(epsilon0=1.0, n=10**6).delta(0.003)),
    "clones lower": (clones, lambda: clones.clones_2023(epsilon0=1.0, n=1_001).delta_lower(0.1)),
    "independent bins": (
        moved_message,
        lambda: moved_message.IndependentBins(n=300, gamma=Fraction(1, 3)).delta(0.5),
    ),
    "dummies": (
        moved_message,
        lambda: moved_message.dummies(n=999, rho=Fraction(9, 2), pair=Fraction(2, 100)).delta(1.0),
    ),
    "growth": (moved_message, lambda: moved_message._growth(0.5)),
    "positive part by list": (positive_part, lambda: positive_part.mean_positive_part(*THREE, 5)),
    "positive part": (positive_part, lambda: positive_part.mean_positive_part(*THREE, 301)),
    "positive part of many": (
        positive_part,
        lambda: positive_part.mean_positive_part(THREE[0], THREE[1] + 0.04, 20_001),
    ),
    "positive part of few": (
        positive_part,
        lambda: positive_part.mean_positive_part(THREE[0], THREE[1] + 0.04, 41),
    ),
    "normal excess": (positive_part, lambda: positive_part._bound_excess(0.7)[1]),
    "normal excess, far": (positive_part, lambda: positive_part._bound_excess(7.0)[1]),
    "power": (
        positive_part,
        lambda: end(positive_part.log_power(*np.full((3, 1), [[-0.01], [0.02], [0.0]]), 99), 2),
    ),
    "positive part from below": (
        positive_part,
        lambda: positive_part.mean_positive_part_lower(*THREE, 301),
    ),
    "pure total": (pure_total, lambda: pure_total.MirroredTotal(shares=(1, 12, 2, 1)).loss(3, 4)),
    "correlated": (
        correlated,
        lambda: correlated.CorrelatedNoise(epsilon_star=0.7, flood=FLOOD).delta(0.8),
    ),
    "thinned": (
        correlated,
        lambda: correlated.ThinnedNoise(epsilon_star=0.7, share=0.8, flood=FLOOD).delta(0.8),
    ),
    "flood": (correlated, lambda: FLOOD.window(50).error),
    "poisson mass": (
        masses,
        lambda: end(masses.bound_poisson_mass(np.array([12.0]), 9.5), 1),
    ),
    "poisson mass from below": (
        masses,
        lambda: end(masses.bound_poisson_mass(np.array([12.0]), 9.5), 0),
    ),
    "mass": (masses, lambda: end(masses.bound_mass(np.array([40.0]), 100.0, 0.3), 1)),
    "mass from below": (
        masses,
        lambda: end(masses.bound_mass(np.array([40.0]), 100.0, 0.3), 0),
    ),
    "mass of none": (masses, lambda: end(masses.bound_mass(np.array([0.0]), 10.0, 0.3), 1)),
    "mills ratio": (
        masses,
        lambda: end(masses.bound_mills_above(np.array([40.0]), np.array([100.0]), 0.3), 1),
    ),
    "mills ratio from below": (
        masses,
        lambda: end(masses.bound_mills_above(np.array([40.0]), np.array([100.0]), 0.3), 0),
    ),
    "at most": (
        masses,
        lambda: end(masses.bound_at_most(np.array([25.0]), np.array([100.0]), 0.3), 1),
    ),
    "at most from below": (
        masses,
        lambda: end(masses.bound_at_most(np.array([25.0]), np.array([100.0]), 0.3), 0),
    ),
    "at most, beyond": (
        masses,
        lambda: end(masses.bound_at_most(np.array([35.0]), np.array([100.0]), 0.3), 1),
    ),
    "at most, beyond, from below": (
        masses,
        lambda: end(masses.bound_at_most(np.array([35.0]), np.array([100.0]), 0.3), 0),
    ),
    "log distance": (split_and_mix, lambda: split_and_mix.log2_distance(n=101, m=5, q=64)),
    "log distance of many": (
        split_and_mix,
        lambda: split_and_mix.log2_distance(n=10**6, m=7, q=2**35),
    ),
    "several values": (several_values, lambda: several_values.grow_delta(1e-6, 3, 0.5)),
    "moved value": (several_values, lambda: MOVED.delta(1_000, 0.5)),
    "hidden level": (levels, lambda: LEVELS.delta(0.2)),
    "composed": (
        compose,
        lambda: compose.compose_delta([CURVE] * 3, epsilon=0.4, near=1e-4, points=64),
    ),
    "composed of two kinds": (
        compose,
        lambda: compose.compose_delta([CURVE, OTHER] * 2, epsilon=0.5, near=1e-4, points=64),
    ),
    "composed of many": (
        compose,
        lambda: compose.compose_delta([CURVE] * 30, epsilon=1.0, near=1e-6, points=64),
    ),
    "composed, plainly": (
        compose,
        lambda: compose.compose_delta([CURVE] * 3, epsilon=0.0, near=1e-4, points=64),
    ),
    "composed distance": (compose, lambda: compose._sum_up((CURVE, CURVE), 1e-6, 64)[0]),
    "trade-off": (compose, lambda: TABLE.trade_off(0.2)),
    "trade-off, flat": (compose, lambda: TABLE.trade_off(0.6)),
    "gaussian": (compose, lambda: float(compose._gaussian_delta_below(np.array([0.5]), 0.7)[0])),
    "sample mean": (
        sample,
        lambda: end(sample.bound_sampling(0.3, 0.6, 100, 1000, 0.05, (0.0, 2.0)), 1),
    ),
    "sample mean from below": (
        sample,
        lambda: end(sample.bound_sampling(0.3, 0.6, 100, 1000, 0.05, (0.0, 2.0)), 0),
    ),
    "sample": (sample, lambda: end(sample.bound_sampling(0.3, 0.6, 100, 1000, 0.05), 1)),
    "divergence": (sample, lambda: end([sample._diverge(np.array([0.2]), np.array([0.3]))], 0)),
    "sum of tails": (
        sample,
        lambda: end([sample._sum_tail(np.array([20.0]), np.array([300.0]), 100, 1000)], 0),
    ),
    "series": (masses, lambda: masses.sum_falling_series(0.5, lambda i: 0.5 + 0 * i, 0.7)),
    "gaining": (correlated, lambda: CORRELATED.bound_gaining(0.3)),
    "losing": (correlated, lambda: CORRELATED.bound_losing(0.3)),
    "pair": (correlated, lambda: correlated.CorrelatedPair(noise=CORRELATED).delta(1.0)),
    "parts": (joint, lambda: JOINT.open(1_000, points=64)(0.5)),
    "normal mills": (masses, lambda: end(masses.bound_normal_mills(np.array([0.7])), 1)),
    "normal mills, far": (
        masses,
        lambda: end(masses.bound_normal_mills(np.array([9.0])), 1),
    ),
    "normal mills, negative": (
        masses,
        lambda: end(masses.bound_normal_mills(np.array([-0.7])), 1),
    ),
    "poisson": (
        moved_message,
        lambda: moved_message.TwoBins(total=moved_message.PoissonTotal(mean=5e6)).delta(0.002),
    ),
    "mass near the mean": (
        masses,
        lambda: end(masses.bound_mass(np.array([31.0]), 100.0, 0.3), 1),
    ),
    "mass near the mean of many": (
        masses,
        lambda: end(masses.bound_mass(np.array([700_100.0]), 10.0**6, 0.7), 0),
    ),
    "mass of fair coins": (
        masses,
        lambda: end(masses.bound_mass(np.array([47.0]), 100.0, 0.5), 1),
    ),
    "mass of all": (masses, lambda: end(masses.bound_mass(np.array([10.0]), 10.0, 0.7), 0)),
    "mass of a fraction": (
        masses,
        lambda: end(masses.bound_mass(np.array([31.0]), 100.0, Fraction(1, 3)), 1),
    ),
    "mills ratio below": (
        masses,
        lambda: end(masses.bound_mills(np.array([25.0]), np.array([100.0]), 0.3), 1),
    ),
    "mills ratio in many steps": (
        masses,
        lambda: end(masses.bound_mills(np.array([299_000.0]), np.array([1e6]), 0.3), 0),
    ),
    "mills ratio of many failures": (
        masses,
        lambda: end(masses.bound_mills(np.array([60.0]), np.array([100.0]), 0.7), 1),
    ),
    "poisson mass near the mean": (
        masses,
        lambda: end(masses.bound_poisson_mass(np.array([401.0]), 400.3), 1),
    ),
    "poisson mass of none": (
        masses,
        lambda: end(masses.bound_poisson_mass(np.array([0.0]), 9.5), 0),
    ),
    "normal mills, lower": (
        masses,
        lambda: end(masses.bound_normal_mills(np.array([0.7])), 0),
    ),
    "normal mills, far, lower": (
        masses,
        lambda: end(masses.bound_normal_mills(np.array([9.0])), 0),
    ),
    "normal mills, far below": (
        masses,
        lambda: end(masses.bound_normal_mills(np.array([-5.0])), 0),
    ),
    "series that falls slowly": (
        masses,
        lambda: masses.sum_falling_series(0.5, lambda i: 0.999 + 0 * i, 0.0),
    ),
    "known others": (blanket, lambda: blanket._delta_lower(OTHERS, 0.2, 30)),
    "known others, normal": (positive_part, lambda: blanket._delta_lower(OTHERS, 0.0003, 10**8)),
    "gains": (blanket, lambda: float(GENERIC.bound_rounding(0.5) @ np.array([1.0, 10.0, 100.0]))),
    "bare": (blanket, lambda: BARE.delta(0.5, 30)),
    "sum of two values": (
        blanket,
        lambda: blanket._sum_two_values(50, 0.6, 0.3, 2.0, -1.0, -0.5),
    ),
    "leading blanket": (
        blanket,
        lambda: blanket.LeadingBlanket(
            blankets=(GENERIC, GENERIC.swap()), n=1_001, epsilon0=1.0
        ).delta(0.1),
    ),
    "clones, lower, few": (
        clones,
        lambda: clones.clones_2023(epsilon0=1.0, n=21).delta_lower(0.3),
    ),
    "clones, large epsilon0": (
        clones,
        lambda: clones.clones_2023(epsilon0=6.0, n=10**4).delta(0.3),
    ),
    "approximate clones": (
        clones,
        lambda: clones.ApproximateClones(epsilon0=1.0, delta0=1e-5, n=1_000)._of(1_000, 0.2),
    ),
    "sum by parts": (
        clones,
        lambda: float(
            clones._sum_by_parts(np.array([3.0, 2.0, 1.0]), np.array([0.0, 0.3, 0.5]), 1)
        ),
    ),
    "sum by parts, lower": (
        clones,
        lambda: float(
            clones._sum_by_parts(np.array([3.0, 2.0, 1.0]), np.array([0.0, 0.3, 0.5]), -1)
        ),
    ),
    "independent bins, few": (
        moved_message,
        lambda: moved_message.IndependentBins(n=9, gamma=Fraction(1, 3)).delta(0.5),
    ),
    "independent bins, cheap": (
        moved_message,
        lambda: end(
            [
                moved_message.IndependentBins(n=300, gamma=Fraction(1, 3))._bound_inner(
                    np.array([60.0]), 0.6
                )
            ],
            0,
        ),
    ),
    "independent bins, dear": (
        moved_message,
        lambda: end(
            [
                moved_message.IndependentBins(n=300, gamma=Fraction(1, 3))._bound_inner(
                    np.array([110.0]), 0.6
                )
            ],
            0,
        ),
    ),
    "fair inner": (
        moved_message,
        lambda: float(moved_message._fair_inner(np.array([40.0]), 0.5)[0]),
    ),
    "geometric sums": (
        moved_message,
        lambda: float(moved_message._sum_powers(np.array([0.9]), np.array([7.0]))[0]),
    ),
    "geometric series": (
        moved_message,
        lambda: float(moved_message._sum_powers(np.array([0.9]), np.array([np.inf]))[0]),
    ),
    "tails of cells": (
        moved_message,
        lambda: float(
            moved_message.BinomialTotal(n=100, p=QUARTER).subtract_tails(
                np.array([0.0, 20.0, 30.0])
            )[1]
        ),
    ),
    "sum of binomials": (
        moved_message,
        lambda: float(
            moved_message.SumOfBinomials(
                first=moved_message.BinomialTotal(n=30, p=QUARTER),
                second=moved_message.BinomialTotal(n=20, p=QUARTER),
            ).floor(np.zeros(1))[1][12]
        ),
    ),
    "normal excess, lower": (positive_part, lambda: positive_part._bound_excess(0.7)[0]),
    "normal excess, far, lower": (positive_part, lambda: positive_part._bound_excess(7.0)[0]),
    "ways": (positive_part, lambda: float(positive_part._list_ways((0.2, 0.3), 3)[1][2])),
    "tilt from above": (positive_part, lambda: float(tilt(1).log_mgf)),
    "tilt from below": (positive_part, lambda: float(tilt(-1).wrong_log)),
    "wrong masses": (positive_part, lambda: float(tilt(-1).wrong.sum())),
    "wrong deviation": (positive_part, lambda: float(tilt(-1).wrong_sd)),
    "offset": (positive_part, lambda: float(tilt(1).offset)),
    "distance from normal": (positive_part, lambda: float(tilt(1).distance)),
    "scaled": (positive_part, lambda: float(positive_part._scale(tilt(1), np.asarray(0.3), 1))),
    "scaled from below": (
        positive_part,
        lambda: float(positive_part._scale(tilt(-1), np.asarray(0.3), -1)),
    ),
    "normal sum": (positive_part, lambda: sum(positive_part._bound_by_normal(tilt(1)))),
    "few in pure total": (
        pure_total,
        lambda: pure_total.MirroredTotal(shares=(5, 12, 9, 5)).loss(2, 3),
    ),
    "places of a loss": (
        compose,
        lambda: float(compose._find_loss(CURVE, 0.05, 0.5).masses[12]),
    ),
    "mirrored places of a loss": (
        compose,
        lambda: float(compose._find_loss(CURVE, 0.05, 0.5).masses[8]),
    ),
    "tilted loss": (
        compose,
        lambda: float(compose._tilt_law(compose._find_loss(CURVE, 0.05, 0.5), 0.7)[0][12]),
    ),
    "transform": (
        compose,
        lambda: compose._transform(np.array([0.2, 0.5, 0.3]), 101, np.arange(3))[2],
    ),
    "endless": (
        compose,
        lambda: compose._sum_losses({CURVE: 3}, {CURVE: 0.2}, 0.01, 1e-4).endless,
    ),
    "scale of a sum": (
        compose,
        lambda: compose._sum_losses({CURVE: 3}, {CURVE: 0.2}, 0.01, 1e-4).log_scale,
    ),
    "error of a sum": (
        compose,
        lambda: float(compose._sum_losses({CURVE: 3}, {CURVE: 0.2}, 0.01, 1e-4).error[1]),
    ),
    "flip from above": (binary, lambda: binary.FlipPoint.above(QUARTER, 0.3).log_gain),
    "flip from below": (binary, lambda: binary.FlipPoint.below(QUARTER, 0.3).log_gain),
    "flip point from above": (binary, lambda: binary.FlipPoint.above(QUARTER, 0.3).x),
    "flip point from below": (binary, lambda: binary.FlipPoint.below(QUARTER, 0.3).x),
    "factor": (noisy_count, lambda: noisy_count._factor(1.5)),
    "kept share of a fraction": (correlated, lambda: correlated._below(Fraction(5, 7))),
    "pair, late": (correlated, lambda: correlated.CorrelatedPair(noise=CORRELATED).delta(1.6)),
    "as delta": (binary, lambda: binary._as_delta(-3.0)),
    "diagonals": (
        correlated,
        lambda: correlated.ThinnedNoise(epsilon_star=0.7, share=0.8, flood=FLOOD).find_diagonals()[
            1
        ],
    ),
    "scale of a flood": (correlated, lambda: FLOOD.window(50).scale_error),
    "sample without replacement": (
        sample,
        lambda: end([sample._bound_mean(np.array([0.3]), 100, 1000, 0.01)], 0),
    ),
    "kept share": (sample, lambda: end(sample.bound_sampling(0.3, 0.6, 100, 1000, 0.05), 0)),
    "phases": (counts, lambda: counts.SupportLaw(n=10**9, p=0.7, q=0.2)._circle(1e5, 1e4).error),
}

ROOM = {
    "binary upper": 14921.227,
    "binary lower": -14921.214,
    "binary many": 249920.49,
    "blanket": 1481.928,
    "blanket with parts": 9661.5316,
    "blanket few": 1410.1019,
    "blanket excess": 699.26242,
    "binomial excess near": -61.392953,
    "binomial excess below": -28.696484,
    "binomial excess above": -309.38314,
    "binomial excess all": -4,
    "clones": 4911.1712,
    "clones few": 4636.396,
    "clones many": 149518.2,
    "clones lower": -859.06738,
    "independent bins": 1060.1016,
    "dummies": 1779.4632,
    "growth": -8.0000001,
    "positive part by list": 473.26852,
    "positive part": 5122.3536,
    "positive part of many": 45727.965,
    "positive part of few": 16000.422,
    "normal excess": 322.29295,
    "normal excess, far": 512,
    "power": 112.70567,
    "positive part from below": -27239.034,
    "pure total": 3398.7307,
    "correlated": 217381.77,
    "thinned": 233359.14,
    "flood": 894,
    "poisson mass": 147.24598,
    "poisson mass from below": -147.24596,
    "mass": 969.24863,
    "mass from below": -969.24776,
    "mass of none": 73.067994,
    "mills ratio": 399.03279,
    "mills ratio from below": -399.03278,
    "at most": 831.55999,
    "at most from below": -831.55953,
    "at most, beyond": 145.56573,
    "at most, beyond, from below": -145.56583,
    "log distance": 4571.4553,
    "log distance of many": 6985.6735,
    "several values": 64,
    "moved value": 23.039111,
    "hidden level": 30.532494,
    "composed": 145177.71,
    "composed of two kinds": 231205.3,
    "composed of many": 288609.45,
    "composed, plainly": 91913.377,
    "composed distance": 4.0000001,
    "trade-off": -431.74998,
    "trade-off, flat": -818.84253,
    "gaussian": -6.8944604,
    "sample mean": 21.05628,
    "sample mean from below": -304.77108,
    "sample": 5.7803468,
    "divergence": -688.2146,
    "sum of tails": 757147.23,
    "series": 2188.3077,
    "gaining": 16,
    "losing": 65079.653,
    "pair": 65079.653,
    "parts": 33.565198,
    "normal mills": 217.23495,
    "normal mills, far": 204,
    "normal mills, negative": 72.064159,
    "poisson": 3657.9511,
    "mass near the mean": 141.48978,
    "mass near the mean of many": -1437.3039,
    "mass of fair coins": 134.28662,
    "mass of all": -73.067989,
    "mass of a fraction": 162.46758,
    "mills ratio below": 472.52969,
    "mills ratio in many steps": -1603.0655,
    "mills ratio of many failures": 399.03279,
    "poisson mass near the mean": 79.963927,
    "poisson mass of none": -167.99999,
    "normal mills, lower": -217.23495,
    "normal mills, far, lower": -204.0,
    "normal mills, far below": -428.49989,
    "series that falls slowly": 260231.97,
    "known others": -1999.8966,
    "known others, normal": -24933199.0,
    "gains": 9153.4875,
    "bare": 110.537084,
    "sum of two values": -290.87132,
    "leading blanket": 6804999.1,
    "clones, lower, few": -169.99719,
    "clones, large epsilon0": 5703.9179,
    "approximate clones": 1017.8014,
    "sum by parts": 11.0,
    "sum by parts, lower": -11.0,
    "independent bins, few": 152.62194,
    "independent bins, cheap": 306.81075,
    "independent bins, dear": 3593.6486,
    "fair inner": 228.56782,
    "geometric sums": 1067.4952,
    "geometric series": 167.58598,
    "tails of cells": 1.9999999,
    "sum of binomials": 70.0,
    "normal excess, lower": -322.29295,
    "normal excess, far, lower": -512.0,
    "ways": 176.00001,
    "tilt from above": 2032.7805,
    "tilt from below": 3.4502198,
    "wrong masses": 68.035581,
    "wrong deviation": 31.458167,
    "offset": 2221.4212,
    "distance from normal": 304.01758,
    "scaled": 2676.7317,
    "scaled from below": -1072.234,
    "normal sum": 4127.6596,
    "few in pure total": 21849.841,
    "places of a loss": 142.73925,
    "mirrored places of a loss": 159.13925,
    "tilted loss": 39.148428,
    "transform": 183.09734,
    "endless": 1219.1017,
    "scale of a sum": 534.22109,
    "error of a sum": 5302.8233,
    "flip from above": 25.552683,
    "flip from below": -25.552683,
    "as delta": 16.0,
    "diagonals": 9915.2857,
    "scale of a flood": 8.0,
    "sample without replacement": 2.5950295,
    "kept share": -18.43318,
    "flip point from above": -0.99999988,
    "flip point from below": 0.99999988,
    "factor": -0.99999978,
    "kept share of a fraction": -0.99999981,
    "pair, late": 195862.84,
    "phases": 8993249100000000.0,
}
"""In units: upwards, or downwards if it is negative."""


def forget():
    for module in MODULES:
        for each in vars(module).values():
            if callable(getattr(each, "cache_clear", None)):
                each.cache_clear()


def step(x, towards):
    """The neighbour of a number where the unit is larger."""
    return x + np.copysign((UNIT - TRUE_UNIT) * np.abs(x), towards - x)


def measure(patched, module, look):
    """By how many units the bound moves, relatively (those of 0, absolutely)."""
    found = []
    for unit in (TRUE_UNIT, UNIT):
        forget()
        patched.setattr(module, "UNIT", unit, raising=False)
        with patched.context() as neighbours:
            if unit != TRUE_UNIT:
                neighbours.setattr(math, "nextafter", step)
                neighbours.setattr(np, "nextafter", step)
            found.append(float(look()))
    forget()
    return (
        (found[1] - found[0]) / (UNIT - TRUE_UNIT) / (abs(found[0]) if abs(found[0]) > 1e-9 else 1)
    )


@pytest.mark.parametrize("name", CASES)
def test_certified_bounds_leave_room_for_rounding(monkeypatch, name):
    module, look = CASES[name]
    assert measure(monkeypatch, module, look) == pytest.approx(ROOM[name], rel=1e-5, abs=0.01)
