"""What every question is before anybody is asked: its domain at the edges of the rules, its scales, arguments, remarks."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import Bins, Cells
from shuffledp.tasks import TASKS, Distribution, Questions, Uniformity, task_for, task_named
from shuffledp.tasks.numbers import bound_rank_error, count_halvings
from shuffledp.tasks.totals import choose_steps, exact_sum

MOST = 1 << 22
EXACT = 2**53
WHOLE = (
    "The column has real numbers. If they are whole, as integers with gaps are in pandas, convert it to "
    "integers (Int64): then each number is a cell of its own."
)


def column(*, fractional=False, text=False, boolean=False, found=("ant", "bee")):
    return SimpleNamespace(
        name="pet", fractional=fractional, text=text, boolean=boolean, categories=lambda: found
    )


TYPED, REAL, TEXT = column(), column(fractional=True), column(text=True, fractional=True)


def declare(name, column=None, **options):
    return task_named(name).declare(options, column)


def reals(lower, upper, steps=4):
    return sdp.Reals(lower=lower, upper=upper, steps=steps)


def integers(lower, upper):
    return sdp.Integers(lower=lower, upper=upper)


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize(
    ("column", "options", "domain", "chosen"),
    [
        (None, {}, integers(0, 1), False),
        (None, {"lower": 0, "upper": MOST - 1}, integers(0, MOST - 1), False),
        (None, {"lower": 0, "upper": MOST}, reals(0, MOST), True),
        (None, {"lower": EXACT - 1, "upper": EXACT}, integers(EXACT - 1, EXACT), False),
        (None, {"lower": -EXACT, "upper": 1 - EXACT}, integers(-EXACT, 1 - EXACT), False),
        (None, {"lower": 0, "upper": 9.0}, reals(0, 9), True),
        (None, {"lower": 0.0, "upper": 9}, reals(0, 9), True),
        (None, {"lower": 0.5, "upper": 9}, reals(0.5, 9), True),
        (TYPED, {"lower": 0.0, "upper": 9.0}, integers(0, 9), False),
        (TYPED, {"lower": 0.0, "upper": 9.5}, reals(0, 9.5), True),
        (TYPED, {"lower": -0.5, "upper": 9.0}, reals(-0.5, 9), True),
        (REAL, {"lower": 0, "upper": 9}, reals(0, 9), True),
        (TEXT, {"lower": 0, "upper": 9}, integers(0, 9), False),
        (TEXT, {"lower": 0, "upper": 9.0}, reals(0, 9), True),
        (TEXT, {"lower": 0, "upper": 9, "steps": 7}, reals(0, 9, 7), False),
        (column(boolean=True), {}, integers(0, 1), False),
        (column(boolean=True), {"upper": 3}, integers(0, 3), False),
    ],
)
def test_numbers_that_are_added_up(name, column, options, domain, chosen):
    found = declare(name, column, **options)
    assert found.task.domain == domain
    assert (found.task.chosen, found.notes, found.not_private) == (chosen, (), ())
    fitted = found.task.fit(10**6, 1.0)
    assert fitted.domain == (reals(domain.lower, domain.upper, 4096) if chosen else domain), (
        "only a grid that nobody asked for is chosen"
    )
    width = float(domain.upper) - float(domain.lower)
    told = (
        f"Values are rounded at random, without bias, to a public grid of 4,096 steps of {width / 4096:.6g}; "
        "`steps` chooses another."
    )
    assert fitted.remarks() == ((told,) if chosen else ())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lower": 3, "upper": 3}, "upper=3 must be > lower=3"),
        ({"lower": 3.0, "upper": 2.5}, r"upper=2.5 must be > lower=3$"),
        ({"lower": 1e300, "upper": math.nextafter(1e300, 2e300)},
         r"must be farther from lower=1\d*: floating-point numbers there are too far apart"),
        ({"lower": 0.0, "upper": 1.0, "steps": 0}, "steps=0"),
        ({"lower": "x"}, "lower='x' must be a number"),
    ],
)  # fmt: skip
def test_ends_that_are_none(options, said):
    with pytest.raises(sdp.ParameterError, match=said):
        declare("mean", **options)
    with pytest.raises(sdp.UnsupportedError, match="a sum needs both `lower` and `upper`"):
        declare("sum", TYPED, lower=0)


@pytest.mark.parametrize(
    ("n", "epsilon", "steps"),
    [(1, 0.001, 4), (2, 1.0, 4), (3, 1.0, 8), (16, 1.0, 16), (16, 1.5, 16), (17, 1.6, 32),
     (10**12, 0.1, 1 << 18), (10**14, 1.0, 1 << 21)],
)  # fmt: skip
def test_a_grid_is_a_power_of_two_above_what_is_wanted(n, epsilon, steps):
    assert choose_steps(n, epsilon) == steps
    assert steps == 4 or steps == 1 << 21 or steps / 2 < 2.5 * epsilon * math.sqrt(n) <= steps


DISTRIBUTED = ("quantiles", "cdf", "range", "variance", "std")
POINTS = {"quantiles": {"at": (0.5,)}, "cdf": {"at": (1.0,)}, "range": {"at": (1.0, 2.0)}}


@pytest.mark.parametrize("name", DISTRIBUTED)
@pytest.mark.parametrize(
    ("column", "options", "cells", "chosen", "notes"),
    [
        (None, {"lower": 0, "upper": "most"}, None, False, ()),
        (None, {"lower": 0, "upper": "more"}, "most", False, ()),
        (None, {"lower": 0.0, "upper": 9}, 4096, True, ()),
        (None, {"lower": 0, "upper": 9, "steps": 5}, 5, False, ()),
        (TYPED, {"lower": 0.0, "upper": 9.0}, None, False, ()),
        (TYPED, {"lower": 0.0, "upper": 9.5}, 4096, True, ()),
        (TYPED, {"lower": 0.5, "upper": 9.0}, 4096, True, ()),
        (REAL, {"lower": 0, "upper": 9}, 4096, True, (WHOLE,)),
        (REAL, {"lower": 0, "upper": 9.5}, 4096, True, ()),
        (REAL, {"lower": 0.5, "upper": 9}, 4096, True, ()),
        (TEXT, {"lower": 0, "upper": 9}, None, False, ()),
        (TEXT, {"lower": 0.0, "upper": 9}, 4096, True, ()),
    ],
)
def test_numbers_in_cells(name, column, options, cells, chosen, notes):
    most = 1 << 12 if name in ("variance", "std") else 1 << 16
    upper = {"most": most - 1, "more": most}.get(options["upper"], options["upper"])
    found = declare(name, column, **POINTS.get(name, {}), **options | {"upper": upper})
    wanted = {"lower": options["lower"], "upper": upper}
    if cells is None:
        assert found.task.domain == integers(int(wanted["lower"]), int(upper))
        assert found.task.remarks() == ()
    else:
        size = most if cells == "most" else cells
        assert found.task.domain == Cells(cells=size, **wanted)
        width = (upper - options["lower"]) / size
        assert found.task.remarks() == (
            f"Values were put into {size:,} public cells of {width:.6g} each; `steps` chooses another number.",
        )
    assert (found.task.chosen, found.notes) == (chosen, notes)
    assert found.task.at == POINTS.get(name, {}).get("at", ())
    if not chosen:
        assert found.task.fit(10**6, 1.0) is found.task


@pytest.mark.parametrize(
    ("lower", "upper", "n", "cells"),
    [
        (0.0, 0.5, 500, 32),
        (0.0, 1.0, 64 * 64, 64),
        (0.0, 1.0, 64 * 90, 64),
        (0.0, 1.0, 64 * 92, 128),
        (0.0, 1.0, 10**9, 4096),
        (0.0, 40.0, 64 * 40, 40),
        (0.0, 40.0, 64 * 120, 160),
        (0.0, 40.5, 64 * 64, 64),
        (0.5, 40.5, 64 * 64, 64),
        (0.0, 65.0, 64 * 64, 64),
        (0.0, 240.0, 64 * 240, 240),
    ],
)
def test_cells_for_their_number_have_whole_numbers_on_their_edges(lower, upper, n, cells):
    """A person in 64 for each cell, from 32 to 4,096; twice the people or half the epsilon is the same."""
    for times in (1, 2):
        task = declare("std", lower=float(lower), upper=upper).task.fit(times * n, 1.0 / times)
        assert task.domain == Cells(lower=lower, upper=upper, cells=cells)


def test_too_many_cells_are_refused_with_what_they_would_cost():
    fine = declare("std", lower=0, upper=1, steps=MOST).task
    assert fine.fit(100, 1.0) is fine
    for epsilon, sent in ((1.0, "2,516,583"), (2.0, "2,516,583"), (0.5, "10,066,332")):
        said = f"4,194,305 cells are too many: with a shuffler everybody of 100 would send about {sent} messages; there may"
        with pytest.raises(sdp.UnsupportedError, match=said):
            declare("std", lower=0, upper=1, steps=MOST + 1).task.fit(100, epsilon)


def wide(name, *, cells=False, **more):
    lower, upper = (-2.0, 6.0) if cells else (-2, 6)
    steps = {"steps": 4} if cells else {}
    return declare(name, lower=lower, upper=upper, **steps, **more).task


MEASURES = [
    # task, sensitivity, relate, scale (all at n = 10)
    (declare("count").task, 1, 10.0, 1),
    (declare("histogram", k=3).task, 2, 10.0, 1),
    (declare("bins", edges=[0, 1, 2]).task, 2, 10.0, 1),
    (wide("sum"), 8, 80.0, 1),
    (wide("mean"), 0.8, 8.0, 10),
    (wide("sum", cells=True), 8, 80.0, 1),
    (wide("mean", cells=True), 0.8, 8.0, 10),
    (wide("quantiles"), 8, 10.0, 1),
    (wide("range", at=[0, 1]), 1, 10.0, 1),
    (wide("cdf", at=[0, 1, 2]), 0.3, 1.0, 10),
    (wide("variance"), 6.4, 64.0, 1),
    (wide("variance", cells=True), 6.4, 10.0, 1),
    (wide("std"), 8 / math.sqrt(10), 8.0, 1),
    (wide("std", cells=True), 8 / math.sqrt(10), 10.0, 1),
    (declare("words", bits=8).task, 2, 10.0, 1),
    (declare("distribution", k=3).task, 0.2, 1.0, 10),
    (declare("uniformity", k=3).task, 0.1, 10.0, 1),
]


@pytest.mark.parametrize("row", MEASURES, ids=lambda row: row[0].name)
def test_how_far_one_person_moves_it_and_what_an_error_is_relative_to(row):
    task, sensitivity, relate, scale = row
    found = task.sensitivity(10)
    assert found == pytest.approx(sensitivity, rel=1e-11)
    assert Fraction(found) >= Fraction(str(sensitivity)) or task.name == "std"
    assert found >= sensitivity
    assert task.relate(10) == pytest.approx(relate)
    assert task.scale(10) == scale


@pytest.mark.parametrize(
    ("task", "given"),
    [
        (declare("count").task, {"lower": 0, "upper": 1, "steps": None, "task": "sum"}),
        (wide("sum"), {"lower": -2, "upper": 6, "steps": None, "task": "sum"}),
        (wide("mean", cells=True), {"lower": -2, "upper": 6, "steps": 4, "task": "mean"}),
        (task_named("sum")(domain=sdp.Bits()), {"lower": 0, "upper": 1, "steps": None, "task": "sum"}),
        (wide("median"), {"lower": -2, "upper": 6, "steps": None, "task": "quantiles", "at": [0.5]}),
        (wide("cdf", cells=True, at=[1]), {"lower": -2, "upper": 6, "steps": 4, "task": "cdf", "at": [1.0]}),
        (wide("std", cells=True), {"lower": -2, "upper": 6, "steps": 4, "task": "std", "at": None}),
        (task_named("median")(domain=integers(0, 9)), {"lower": 0, "upper": 9, "steps": None, "task": "quantiles", "at": [0.5]}),
        (declare("bins", edges=[0, 1, 2]).task, {"k": 2}),
        (declare("uniformity", k=3, alpha=0.25).task, {"k": 3}),
        (declare("words", bits=8).task, {"bits": 8}),
        (declare("words", alphabet="letters", max_length=5).task, {"alphabet": "letters", "max_length": 5}),
    ],
)  # fmt: skip
def test_what_the_makers_of_protocols_are_told(task, given):
    assert task.arguments() == given


@pytest.mark.parametrize(
    ("name", "column", "options", "said"),
    [
        ("histogram", None, {"lower": 0, "upper": 10**7}, "upper=10000000 must leave at most 10,000,000 bins"),
        ("histogram", None, {"lower": 0.5, "upper": 3}, "is of integers: give whole numbers"),
        ("histogram", None, {"lower": 0, "upper": 3.5}, "is of integers: give whole numbers"),
        ("histogram", None, {"categories": ["a", " ", "b"]}, r"categories=' ' is empty \(number 2\)"),
        ("histogram", None, {"categories": ["a", "b", "a"]}, "categories='a' is listed twice"),
        ("histogram", None, {"categories": ["a"]}, "categories='a' must be at least two"),
        ("histogram", None, {"upper": 3}, "lower and upper belong together"),
        ("histogram", None, {"categories": ["a", "b"], "lower": 0, "upper": 3},
         "give categories, or lower and upper, not both"),
        ("histogram", None, {"categories_from_data": True}, "a histogram needs its categories from public knowledge"),
        ("histogram", column(found=("ant",)), {"categories_from_data": True},
         "column 'pet' has only one value: there is nothing to count"),
        ("range", None, {"lower": 0, "upper": 3}, "a range needs its two ends: `at`"),
        ("words", None, {"bits": 8, "max_length": 3}, "for integers: leave out alphabet and max_length"),
        ("words", None, {"max_length": 3}, "words need an `alphabet` and a `max_length`, or `bits` for integers"),
        ("words", None, {"alphabet": "letters"}, "words need an `alphabet`"),
        ("count", None, {"k": 3, "lower": 1}, "a count takes no k and no lower"),
    ],
)  # fmt: skip
def test_what_is_refused_says_why(name, column, options, said):
    with pytest.raises(sdp.ShuffledpError, match=said):
        declare(name, column, **options)


def test_up_to_ten_million_bins_and_what_the_data_tell():
    assert declare("histogram", lower=1, upper=10**7).task.domain.size == 10**7
    found = declare("histogram", column(), categories_from_data=True)
    assert found.task.domain == sdp.Categories(k=2, names=("ant", "bee"))
    assert found.not_private == (
        "the list of the 2 categories was read from the data: that each of them occurs is not protected",
    )
    kept = declare("histogram", TYPED, categories=["a", "b"], categories_from_data=False)
    assert kept.not_private == ()
    uniform = declare("uniformity", column(), categories_from_data=True)
    assert uniform.not_private == found.not_private
    assert uniform.task.alpha == 0.0


def test_categories_of_a_file(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeff a \nb,c\n\n\n".encode())
    assert declare("histogram", categories_file=path).task.domain.names == ("a", "b,c")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(sdp.DataError, match=r"names\.txt is not text in UTF-8"):
        declare("histogram", categories_file=path)
    said = r"categories_file .*none\.txt cannot be read: No such file or directory"
    with pytest.raises(sdp.DataError, match=said):
        declare("histogram", categories_file=tmp_path / "none.txt")


def test_yes_is_a_value():
    found = declare("count", true_value="AA")
    assert found.task.domain == sdp.Bits(true_value="AA")
    assert found.notes == ("Yes is the value 'AA'; every other value is no.",)
    assert declare("count").notes == ()


class TestTruthAndLoss:
    def test_quantiles_are_values_that_people_have(self):
        task = wide("quantiles", at=[0.25, 0.26, 0.5, 0.999])
        assert task.truth([6, -2, 0, 1]).tolist() == [-2, 0, 0, 6]
        assert wide("quantiles", at=[0.001]).truth([3, 1]).tolist() == [1]
        assert wide("quantiles", at=[0.1, 0.3]).truth(
            [0, 1, 2, 3, 4, 5, 6, -1, -2, 0]
        ).tolist() == [-2, 0]

    def test_ranges_and_shares_include_their_ends(self):
        values = [0, 1, 2, 3, 3]
        assert [wide("range", at=at).truth(values) for at in ((1, 3), (1, 2), (4, 6))] == [4, 2, 0]
        assert task_named("range")(domain=integers(0, 3)).truth(values) == 5
        assert wide("cdf", at=[-2, 1, 3, 2]).truth(values).tolist() == [0, 0.4, 1.0, 0.6]

    def test_sums_of_what_was_given(self):
        assert exact_sum(reals(0.0, 1.0, 1), [0.1] * 10) == (1.0, 10)
        with pytest.raises(sdp.DataError, match="position 1"):
            exact_sum(integers(0, 1), [0, 2])

    def test_shares_and_distances(self):
        shares = Distribution(domain=sdp.Categories(k=3))
        assert shares.truth([0, 2, 2, 2]).tolist() == [0.25, 0, 0.75]
        assert shares.loss([1.0, 0, 0], [0, 0.5, 0.5]) == 1.0
        with pytest.raises(sdp.MismatchError, match="the estimate must have one number"):
            shares.loss([1.0], [0, 0.5, 0.5])
        uniform = Uniformity(domain=sdp.Categories(k=4))
        assert uniform.truth([0, 1, 2, 3]) == 0.0
        assert uniform.truth([0, 0, 0, 0]) == 0.75
        assert uniform.truth([0, 0, 1, 1, 2]) == pytest.approx((0.15 + 0.15 + 0.05 + 0.25) / 2)

    @pytest.mark.parametrize(
        ("alpha", "verdict", "distance", "wrong"),
        [
            (0.25, 1.0, 0.24, 0), (0.25, 1.0, 0.25, 1), (0.25, 1.0, 0.9, 1), (0.25, 0.0, 0.0, 1),
            (0.25, 0.0, 0.1, 0), (0.25, 1.0, 0.0, 0), (0.0, 1.0, 0.0, 0), (0.0, 1.0, 1e-9, 1),
            (0.0, 0.0, 1e-9, 0),
        ],
    )  # fmt: skip
    def test_a_verdict_is_wrong_from_alpha_on(self, alpha, verdict, distance, wrong):
        assert Uniformity(domain=sdp.Bits(), alpha=alpha).loss(verdict, distance) == wrong

    def test_verdicts_are_yes_or_no(self):
        task = Uniformity(domain=sdp.Bits())
        for verdict in (0.5, np.ones(1), 2.0):
            with pytest.raises(sdp.MismatchError, match="the verdict must be 1"):
                task.loss(verdict, 0.0)
        with pytest.raises(
            sdp.MismatchError, match=r"the truth must be one number, but has shape \(2,\)"
        ):
            task.loss(1.0, np.zeros(2))
        for alpha in (-0.1, 1.0):
            with pytest.raises(sdp.ParameterError, match="alpha"):
                Uniformity(domain=sdp.Bits(), alpha=alpha)

    def test_values_of_a_person(self):
        task = TASKS["histogram"]
        assert task(domain=sdp.Bits(), values=3).sensitivity(9) == 6
        assert task(domain=sdp.Bits(), values=2, apart=True).values == 2
        assert not task(domain=sdp.Bits()).apart
        assert task(domain=sdp.Bits(), values=3).values == 3, "several of one kind"
        with pytest.raises(sdp.ParameterError, match="values=3 must be at most the number of bins"):
            task(domain=sdp.Bits(), values=3, apart=True)
        with pytest.raises(sdp.ParameterError, match="values=0"):
            task(domain=sdp.Bits(), values=0)

    def test_surveys(self):
        half = sdp.Reals(lower=0.5, upper=1.5, steps=2)
        parts = (task_named("sum")(domain=half), task_named("count")(domain=sdp.Bits()))
        both = Questions(domain=sdp.Answers(parts=(half, sdp.Bits())), parts=parts)
        assert both.truth(([0.5, 1.5], [True, False])).tolist() == [2.0, 1.0]
        assert both.sensitivity(10) == 2
        assert both.loss(np.array([1.0, 2.0]), np.array([1.0, 4.0])) == 2.0
        assert both.arguments() == {}

    def test_words(self):
        words = declare("words", alphabet="letters", max_length=3).task
        assert words.truth(["cat", "dog", "cat"]).tolist() == [2, 1]
        nothing = sdp.Estimate(value=np.zeros(0), error=None, limits=(0.0, 3.0), labels=())
        assert words.align(nothing, ["cat"]).tolist() == []
        found = sdp.Estimate(
            value=np.zeros(2), error=None, limits=(0.0, 3.0), labels=("cat", "cow")
        )
        assert words.align(found, ["cat", "dog", "cat"]).tolist() == [2, 0]
        assert words.loss(np.zeros(0), np.zeros(0)) == 0.0
        assert words.loss(np.array([3.0, 1.0]), np.array([1.0, 1.0])) == 2.0
        with pytest.raises(sdp.ParameterError, match="must be Texts or Keys"):
            TASKS["words"](domain=sdp.Bits())


def test_halvings():
    assert [count_halvings(size) for size in (1, 2, 3, 4, 5, 1024, 1025)] == [1, 1, 2, 2, 3, 10, 11]
    wanted = math.sqrt(math.log(2 * 3 / 0.1) / (2 * 50)) / math.tanh(0.5)
    assert bound_rank_error(50, 3, 1.0, 0.1) == pytest.approx(wanted)


def test_rounds_of_a_bisection():
    """Each stage asks its share of the people once; no more stages than people, and no more than all ranks.

    A part of a rank is a rank.
    """
    given = {"delta": 1e-6, "epsilon": 1.0, "models": "shuffle"}
    task = declare("median", lower=0, upper=9).task
    (said,) = (
        each for each in sdp.plan(task, n=9_000, **given).remarks if each.startswith("In rounds")
    )
    from shuffledp.accounting.amplify import calibrate

    local = calibrate(n=9_000, epsilon=1.0, delta=1e-6, honest=0.9)
    ranks = 9_000 * bound_rank_error(2_250, 4, local, 0.05)
    assert said == (
        "In rounds, one yes or no from everybody: sdp.inference.bisect_quantile comes within "
        f"{math.ceil(ranks):,} ranks with probability 95%."
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("avg", r": did you mean mean\?"), ("average", r": did you mean mean\?"), ("sd", r": did you mean std\?"),
        ("heavy_hitters", r": did you mean words\?"), ("learn", r": did you mean sdp\.learn"), ("histogran", r": did you mean histogram\?"),
        ("total", r": did you mean sum\?"), ("modus", "bins, words$"), ("uniformty", "bins, words$"),
    ],
)  # fmt: skip
def test_a_misspelt_name_has_a_hint(name, said):
    with pytest.raises(sdp.ParameterError, match=said):
        task_named(name)


def test_the_task_of_a_protocol_has_its_points():
    tree = sdp.protocols.tree.make(
        n=1000, lower=0, upper=9, task="quantiles", at=[0.2, 0.9], epsilon=1.0, delta=1e-4
    )
    assert task_for(tree) == task_named("quantiles")(domain=integers(0, 9), at=(0.2, 0.9))
    assert task_for(sdp.protocols.rr.make_local(epsilon=1.0)) == task_named("count")(
        domain=sdp.Bits()
    )


def test_bins_are_asked_by_their_edges():
    task = declare("bins", edges="0,18,65").task
    assert task.domain == Bins(edges=(0.0, 18.0, 65.0))
    assert task.truth([0, 17.9, 18, 65]).tolist() == [2, 2]
