"""Questions by group as they are put, and their answers worked out by hand: grids, labels, limits, errors, remarks."""

import math

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import Bins, Cells
from shuffledp.core.analyzer import NormalError
from shuffledp.numerics.intervals import DiscreteLaplaceError
from shuffledp.numerics.intervals.laplace import DiscreteLaplace
from shuffledp.tasks import Bin, Count, Histogram, Mean, Quantiles, Std, Sum, Variance, task_named
from shuffledp.tasks.groups import (
    Grouped,
    PickedError,
    bound_means,
    bound_sums,
    find_quantiles,
    find_variances,
    leave_out,
    spread_groups,
)

WAYS = sdp.Categories(k=2, names=("car", "bus"))
THREE = sdp.Categories(k=3, names=("a", "b", "c"))


def integers(last, first=0):
    return sdp.Integers(lower=first, upper=last)


def put(name, groups=WAYS, **options):
    return Grouped.of(task_named(name).declare(options).task, groups)


@pytest.mark.parametrize(
    ("name", "options", "values", "coarse"),
    [
        ("count", {}, sdp.Bits(), False),
        ("histogram", {"k": 70}, sdp.Categories(k=70), False),
        ("histogram", {"lower": 1, "upper": 90}, integers(90, 1), False),
        ("bins", {"edges": [0, 1, 2]}, Bins(edges=(0.0, 1.0, 2.0)), False),
        ("sum", {"lower": 0, "upper": 15}, integers(15), False),
        ("sum", {"lower": 0, "upper": 16}, sdp.Reals(lower=0, upper=16, steps=64), False),
        ("mean", {"lower": -3, "upper": 12}, integers(12, -3), False),
        ("mean", {"lower": 0.0, "upper": 2.0}, sdp.Reals(lower=0, upper=2, steps=64), False),
        ("mean", {"lower": 0, "upper": 2, "steps": 2}, sdp.Reals(lower=0, upper=2, steps=64), False),
        ("median", {"lower": 1, "upper": 64}, integers(64, 1), False),
        ("median", {"lower": 0, "upper": 64}, Cells(lower=0, upper=64, cells=64), True),
        ("std", {"lower": 0, "upper": 63}, integers(63), False),
        ("variance", {"lower": 0.0, "upper": 9.0}, Cells(lower=0, upper=9, cells=64), True),
        ("std", {"lower": 0, "upper": 9, "steps": 64}, Cells(lower=0, upper=9, cells=64), False),
        ("std", {"lower": 0, "upper": 9, "steps": 65}, Cells(lower=0, upper=9, cells=64), True),
    ],
)  # fmt: skip
def test_what_is_counted_as_it_is_and_what_on_a_grid(name, options, values, coarse):
    task = put(name, **options)
    assert task.domain.parts == (values, WAYS)
    assert (task.inner, task.coarse) == ("quantiles" if name == "median" else name, coarse)
    assert task.sensitivity(7) == 2
    assert task.arguments() == {"k": task.domain.size}
    assert spread_groups(task) == Histogram(domain=sdp.Categories(k=2 * values.size))


@pytest.mark.parametrize(
    ("n", "epsilon", "steps"),
    [(10, 0.1, 1), (64, 1.0, 2), (2_000, 1.0, 5), (2_000, 2.0, 8), (10**6, 1.0, 40), (10**9, 4.0, 64)],
)  # fmt: skip
def test_the_grid_of_sums_grows_with_the_people_of_a_group(n, epsilon, steps):
    """The nearest whole number to (3 m epsilon^2 / (2 v))^(1/3) with v = 12, from 1 to 64."""
    for name in ("sum", "mean"):
        task = put(name, lower=0.0, upper=8.0).fit(n, epsilon)
        assert task.domain.parts == (sdp.Reals(lower=0.0, upper=8.0, steps=steps), WAYS)
        assert task.step == 8.0 / steps
    assert put("sum", lower=0, upper=9).fit(n, epsilon).domain.parts[0] == integers(9)
    more = put("sum", groups=THREE, lower=0.0, upper=8.0).fit(3 * n // 2, epsilon)
    assert more.domain.parts[0].steps == steps, "it is the people of one group that count"


@pytest.mark.parametrize(
    ("n", "epsilon", "cells"),
    [(20, 1.0, 8), (160, 1.0, 9), (400, 1.0, 17), (400, 2.0, 27), (2_000, 1.0, 50), (10**5, 1.0, 64)],
)  # fmt: skip
def test_the_cells_of_quantiles_grow_faster(n, epsilon, cells):
    """The nearest whole number to (3 (m epsilon)^2 / (2 v))^(1/3), from 8 to 64."""
    for name in ("quantiles", "std"):
        task = put(name, lower=0.0, upper=8.0).fit(n, epsilon)
        assert task.domain.parts == (Cells(lower=0.0, upper=8.0, cells=cells), WAYS)
        assert task.blur == 4.0 / cells
    assert put("std", lower=0, upper=9).fit(n, epsilon).domain.parts[0] == integers(9)
    assert put("std", lower=0, upper=9).blur == 0.0


def test_steps_may_be_chosen():
    reals, cells, whole = (put(name, lower=0.0, upper=6.0) for name in ("sum", "std", "sum"))
    assert reals.round_to(3).domain.parts[0].steps == 3
    assert [cells.round_to(size).domain.parts[0].cells for size in (7, 8, 64, 65)] == [8, 8, 64, 64]
    assert put("sum", lower=0, upper=6).round_to(3).domain.parts[0] == integers(6)
    assert whole.round_to(2).domain.parts[1] == WAYS


def test_the_names_of_answers():
    assert put("count").labels == put("sum", lower=0, upper=3).labels == ("car", "bus")
    assert put("median", lower=0, upper=3).labels == ("car", "bus")
    assert put("quantiles", lower=0, upper=3, at=[0.25, 0.5]).labels == (
        "car, 0.25", "car, 0.5", "bus, 0.25", "bus, 0.5")  # fmt: skip
    assert put("histogram", categories=["x", "y"]).labels == (
        "car, x",
        "car, y",
        "bus, x",
        "bus, y",
    )
    names = ("count", "sum", "mean", "histogram", "bins", "quantiles", "std", "variance")
    options = {"sum": 1, "mean": 1, "quantiles": 1, "std": 1, "variance": 1}
    given = [
        {"lower": 0, "upper": 3} if name in options else {"k": 3} if name == "histogram" else
        {"edges": [0, 1, 2]} if name == "bins" else {} for name in names
    ]  # fmt: skip
    found = [put(name, **each).document_name for name, each in zip(names, given, strict=True)]
    assert found == ["histogram", "sum_by_group", "mean_by_group", *["histogram"] * 5]
    flags = [
        (each.adds, each.sums_up, each.sampled, each.shaped)
        for each in (put(name, **given) for name, given in zip(names, given, strict=True))
    ]
    assert [each[1:] for each in flags] == [
        (False, True, False), (True, False, False), (True, False, False), (False, True, False),
        (False, True, False), (True, False, True), (True, False, True), (True, False, True),
    ]  # fmt: skip


TABLE = np.array([3.0, 4.0, 2.0, 1.0, 0.0, 5.0, 0.0, 0.0])  # of 0 .. 3, in cars and in buses


def estimate(value, *, limits=(0.0, 40.0), stderr=1.0, law=None):
    value = np.asarray(value, dtype=float)
    law = law or NormalError(stderr=np.full(len(value), stderr))
    return sdp.Estimate(value=value, error=law, limits=limits)


def ask(name, value=TABLE, stderr=1.0, **options):
    options = {"lower": 0, "upper": 3} | options
    return put(name, **options).convert(estimate(value, stderr=stderr))


class TestAnswersByHand:
    def test_sums(self):
        found = ask("sum")
        assert found.value.tolist() == [11.0, 5.0]
        assert found.limits == (0.0, 120.0)
        assert found.labels == ("car", "bus")
        np.testing.assert_allclose(found.stderr, math.sqrt((1 + 4 + 9) * 8 / 7))
        below = put("sum", lower=-2, upper=1).convert(estimate(TABLE))
        assert below.value.tolist() == [-9.0, -5.0]
        assert below.limits == (-80.0, 40.0)
        np.testing.assert_allclose(below.stderr, math.sqrt((4 + 1 + 0 + 1) * 8 / 7))
        assert put("sum", lower=2, upper=5).convert(estimate(TABLE)).limits == (0.0, 200.0)
        assert put("sum", lower=-5, upper=-2).convert(estimate(TABLE)).limits == (-200.0, 0.0)

    def test_means(self):
        found = ask("mean")
        assert found.value.tolist() == [1.1, 1.0]
        assert found.limits == (0.0, 3.0)
        away = [(np.arange(4) - mean) ** 2 for mean in (1.1, 1.0)]
        wanted = [
            math.sqrt(each.sum() * 8 / 7) / people
            for each, people in zip(away, (10, 5), strict=True)
        ]
        np.testing.assert_allclose(found.stderr, wanted)
        beyond = ask("mean", [-3.0, 0.0, 0.0, 1.0, 0.0, -4.0, 0.0, 1.0])
        assert beyond.value.tolist() == [3.0, 0.0], "fewer than one person count as one"
        nobody = put("mean", lower=5, upper=8).convert(estimate(np.zeros(8)))
        assert nobody.value.tolist() == [5.0, 5.0], "a mean stays between the ends"

    def test_numbers_that_were_rounded_have_an_error_of_their_own(self):
        for name, people in (("sum", (1, 1)), ("mean", (10, 5))):
            task = put(name, lower=0.0, upper=6.0).round_to(3)
            found = task.convert(estimate(TABLE, stderr=2.0))
            numbers = np.array([0.0, 2.0, 4.0, 6.0])
            means = np.array([[0.0], [0.0]]) if name == "sum" else np.array([[2.2], [2.0]])
            noise = ((numbers - means) ** 2).sum(axis=1) * 4 * 8 / 7
            wanted = np.sqrt(noise + np.array([10, 5]) * 4 / 4) / people
            np.testing.assert_allclose(found.stderr, wanted)
        few = task.convert(estimate(np.zeros(8), stderr=0.0))
        np.testing.assert_allclose(few.stderr, [1.0, 1.0])  # as if there were one person

    def test_counts_and_bins(self):
        yes = put("count").convert(estimate([5.0, 3.0, 6.0, 2.0], stderr=1.5))
        assert yes.value.tolist() == [3.0, 2.0]
        assert np.asarray(yes.stderr).tolist() == [1.5, 1.5]
        assert yes.limits == (0.0, 40.0)
        low, high = estimate([5.0, 3.0, 6.0, 2.0], stderr=1.5).interval(0.9)
        assert [end.tolist() for end in yes.interval(0.9)] == [
            low[[1, 3]].tolist(),
            high[[1, 3]].tolist(),
        ]
        every = put("histogram", k=2).convert(estimate([5.0, 3.0, 6.0, 2.0], stderr=1.5))
        assert every.value.tolist() == [5.0, 3.0, 6.0, 2.0]
        assert every.stderr.tolist() == [1.5] * 4
        assert [end.tolist() for end in every.interval(0.9)] == [low.tolist(), high.tolist()]

    def test_quantiles_and_spreads(self):
        assert ask("quantiles", at=[0.3, 0.7, 0.71]).value.tolist() == [0, 1, 2, 1, 1, 1]
        assert ask("quantiles", at=[0.3]).limits == (0.0, 3.0)
        assert ask("variance").value.tolist() == pytest.approx([0.89, 0.0])
        assert ask("std").value.tolist() == pytest.approx([math.sqrt(0.89), 0.0])
        assert ask("variance").limits == (0.0, 2.25)
        assert ask("std").limits == (0.0, 1.5)
        cells = put("std", lower=0.0, upper=8.0, steps=4)
        assert cells.convert(estimate(TABLE)).limits == (0.0, 4.0), "from edge to edge"
        variance = put("variance", lower=0.0, upper=8.0, steps=4)
        assert variance.convert(estimate(TABLE)).limits == (0.0, 16.0)
        quantiles = put("quantiles", lower=2.0, upper=8.0, steps=4)
        assert quantiles.convert(estimate(TABLE)).limits == (2.0, 8.0)

    def test_errors_of_spreads(self):
        """The noise of the squares around the mean, over the people; of a root, half of that over the root."""
        away = [(np.arange(4) - mean) ** 2 for mean in (1.1, 1.0)]
        noise = np.array([math.sqrt((each**2).sum() * 8 / 7) for each in away]) / [10, 5]
        np.testing.assert_allclose(ask("variance").stderr, noise)
        np.testing.assert_allclose(
            ask("std").stderr, [noise[0] / 2 / math.sqrt(0.89), math.sqrt(noise[1])]
        )
        law = DiscreteLaplaceError(noise=DiscreteLaplace(rate=1), shape=(8,))
        task = put("quantiles", lower=0, upper=3, at=[0.5])
        halves = task.convert(estimate(TABLE, law=law))
        low, high = halves.interval(0.6827)
        np.testing.assert_allclose(halves.stderr, (high - low) / 2)

    def test_the_variance_of_a_group_is_between_none_and_that_of_the_two_ends(self):
        numbers = np.arange(4.0)
        assert find_variances(np.array([[9.0, 0, 0, 9.0]]), numbers) == pytest.approx(2.25)
        assert find_variances(np.array([[9.0, -4, -4, 9.0]]), numbers) == pytest.approx(2.25)
        assert find_variances(np.array([[-9.0, 10, 0, -9.0]]), numbers) == 0.0
        half = find_variances(np.array([[0.25, 0, 0, 0.25]]), numbers + 1)
        assert half == pytest.approx(0.25 * (0.25**2 + 2.75**2)), "half a person counts as one"

    def test_the_quantiles_of_nobody_are_of_one_person(self):
        assert find_quantiles(np.zeros((2, 4)), integers(3), (0.5,)).shape == (2,)


class TestTruth:
    def test_of_numbers_that_are_rounded(self):
        task = put("sum", lower=0.0, upper=6.0, groups=THREE).round_to(3)
        numbers, ways = [1.0, 2.5, 6.0, 0.5], ["a", "c", "a", "c"]
        assert task.truth((numbers, ways)).tolist() == [7.0, 0.0, 3.0]
        means = put("mean", lower=0.0, upper=6.0, groups=THREE).round_to(3)
        assert means.truth([np.array(numbers), ways]).tolist() == [3.5, 0.0, 1.5]
        with pytest.raises(sdp.DataError, match="position 1"):
            task.truth(([1.0, 7.0], ["a", "b"]))
        assert means.truth(([1.0], ["c"])).tolist() == [0.0, 0.0, 1.0]

    def test_of_shapes(self):
        numbers, ways = [1, 3, 2, 5], ["a", "a", "c", "c"]
        spread = put("std", lower=0, upper=9, groups=THREE)
        assert spread.truth((numbers, ways)).tolist() == [1.0, 0.0, 1.5]
        two = put("quantiles", lower=0, upper=9, at=[0.5, 0.9], groups=THREE)
        assert two.truth((numbers, ways)).tolist() == [1, 3, 0, 0, 2, 5]
        assert put("variance", lower=0, upper=9, groups=THREE).truth((numbers, ways)).tolist() == [
            1,
            0,
            2.25,
        ]

    def test_of_pairs(self):
        assert put("count", groups=THREE).truth(([1, 0, 1], ["c", "a", "c"])).tolist() == [0, 0, 2]
        assert put("sum", lower=0, upper=3).truth(([1, 0, 3], ["car", "bus", "car"])).tolist() == [
            4,
            0,
        ]
        assert put("mean", lower=0, upper=3).truth(([1, 0, 3], ["car", "bus", "car"])).tolist() == [
            2,
            0,
        ]
        assert put("count").loss(np.array([1.0, 3.0]), np.array([1.0, 1.0])) == 2.0


REMARKS = {
    "cells": "Values were counted in 4 public cells of 2 each; `steps` chooses fewer.",
    "grid": "Numbers were rounded at random, without bias, to a public grid of 3 steps of 2; the intervals count it in.",
    "mean": "The interval of a mean follows from those of the group's sum and of its number of people, which hold "
    "together: so it is often several times wider than two standard errors.",
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (put("std", lower=0.0, upper=8.0, steps=4), ["cells"]),
        (put("std", lower=0, upper=8), []),
        (put("sum", lower=0.0, upper=6.0).round_to(3), ["grid"]),
        (put("mean", lower=0.0, upper=6.0).round_to(3), ["grid", "mean"]),
        (put("mean", lower=0, upper=6), ["mean"]),
        (put("count"), []),
        (put("bins", edges=[0, 1, 2]), []),
    ],
)
def test_what_is_remarked(task, said):
    assert task.remarks() == tuple(REMARKS[each] for each in said)


@pytest.mark.parametrize(
    ("low", "high", "least", "most", "wanted"),
    [
        (4.0, 6.0, 4.0, 8.0, (1.5, 2.5)),
        (-4.0, 6.0, 4.0, 8.0, (1.0, 2.5)),
        (4.0, 100.0, 4.0, 8.0, (1.5, 9.0)),
        (4.0, 6.0, 0.0, 8.0, (1.5, 9.0)),
        (4.0, 6.0, -1.0, 8.0, (1.5, 9.0)),
        (0.25, 0.5, 0.5, 0.5, (1.25, 2.0)),
        (1e3, 1e3, 1.0, 8.0, (9.0, 9.0)),
        (-5.0, -3.0, 2.0, 8.0, (1.0, 1.0)),
        (0.1, 0.2, 0.1, 0.2, (1.1, 3.0)),
        (0.0, 0.0, 0.0, 8.0, (1.0, 9.0)),
        (-0.5, 0.0, -0.5, 8.0, (1.0, 9.0)),
    ],
)
def test_means_from_sums_and_people(low, high, least, most, wanted):
    """Above the lower end by at least low / most and at most high / least; of nobody, up to the upper end."""
    given = (np.array([each]) for each in (low, high, least, most))
    found = bound_means(*given, (1.0, 9.0))
    assert (found.low[0], found.high[0]) == pytest.approx(wanted)


def test_intervals_of_sums_hold_the_value_and_lean_with_the_noise():
    law = DiscreteLaplaceError(noise=DiscreteLaplace(rate=1), shape=(8,))
    table = TABLE.reshape(2, 4)
    weights = np.array([0.0, 1.0, 2.0, 3.0])
    low, high = bound_sums(law, table, weights, 0.1, step=0.0, most=40.0)
    assert np.all(low < table @ weights)
    assert np.all(table @ weights < high)
    np.testing.assert_allclose(high + low, 2 * table @ weights)
    wider = bound_sums(law, table, weights, 0.1, step=2.0, most=40.0)
    capped = bound_sums(law, table, weights, 0.1, step=2.0, most=0.0)
    assert np.all(wider[0] < capped[0])
    assert np.all(capped[0] < low)
    assert wider[1][0] - wider[0][0] > wider[1][1] - wider[0][1], (
        "ten were rounded here, five there"
    )


class TestLeavingOut:
    WHOLE = sdp.Estimate(
        value=np.arange(6.0), error=NormalError(stderr=np.arange(1.0, 7.0)), limits=(0.0, 12.0),
        labels=("a, x", "a, y", "b, x", "b, y", "none, x", "none, y"))  # fmt: skip

    def test_the_last_groups_are_hidden(self):
        shown = leave_out(self.WHOLE, 3, 1)
        assert shown.value.tolist() == [0, 1, 2, 3]
        assert shown.stderr.tolist() == [1, 2, 3, 4]
        assert shown.labels == ("a, x", "a, y", "b, x", "b, y")
        assert shown.limits == (0.0, 12.0)

    def test_a_group_alone_needs_no_name(self):
        shown = leave_out(self.WHOLE, 3, 2)
        assert shown.value.tolist() == [0, 1]
        assert shown.labels == ("x", "y")
        assert shown.limits == (0.0, 6.0)

    def test_a_number_alone_is_a_number(self):
        shown = leave_out(self.WHOLE, 6, 5)
        assert (shown.value, shown.stderr, shown.labels) == (0.0, 1.0, None)
        assert isinstance(shown.value, float)
        low, high = self.WHOLE.interval(0.9)
        assert shown.interval(0.9) == (low[0], high[0])
        assert PickedError(whole=self.WHOLE, places=2).stderr == 3.0


class TestPictures:
    def test_bars_stand_in_their_groups(self):
        assert Grouped.show(put("histogram", k=2).convert(estimate(np.arange(4.0)))).groups == (
            "car", "car", "bus", "bus")  # fmt: skip
        law = DiscreteLaplaceError(noise=DiscreteLaplace(rate=1), shape=(8,))

        def show(name, **more):
            task = put(name, lower=0, upper=3, **more)
            return Grouped.show(task.convert(estimate(TABLE, law=law)), 0.9)

        assert show("quantiles", at=[0.25, 0.5]).groups == ("car", "car", "bus", "bus")
        assert not any(show(name).groups for name in ("sum", "median"))
        assert Grouped.show(put("count").convert(estimate(np.ones(4)))).whole
        assert not show("mean").whole
        assert not Grouped.show(estimate(np.ones(4))).groups


def test_shapes_are_of_numbers_and_quantiles_need_their_points():
    parts = sdp.Answers(parts=(sdp.Bits(), WAYS))
    with pytest.raises(sdp.ParameterError, match="task='std' must be about numbers, by group"):
        Grouped(domain=parts, inner="std")
    numbers = sdp.Answers(parts=(integers(3), WAYS))
    for inner, at in (("quantiles", ()), ("std", (0.5,)), ("sum", (0.5,))):
        with pytest.raises(sdp.ParameterError, match=r"must be given for quantiles, by group"):
            Grouped(domain=numbers, inner=inner, at=at)
    with pytest.raises(sdp.UnsupportedError, match="groups are declared in a survey: by"):
        Grouped.declare({})
    kinds = (Count, Histogram, Bin, Sum, Mean, Quantiles, Variance, Std)
    assert {each.name for each in kinds} | {"median"} == set(sdp.tasks.GROUPED)


def test_the_noise_of_sums_is_that_of_their_numbers():
    assert put("sum", lower=-2, upper=1).amplify_noise() == pytest.approx(math.sqrt(6))
    assert put("sum", lower=0.0, upper=6.0).round_to(3).amplify_noise() == pytest.approx(
        math.sqrt(56)
    )
    for name, given in (("count", {}), ("median", {"lower": 0, "upper": 9})):
        assert put(name, **given).amplify_noise() == 1.0
