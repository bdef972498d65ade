"""Small parts of the core: every field, both sides of each limit, and whole sentences."""

from datetime import date, datetime
from fractions import Fraction

import numpy as np
import pytest

from shuffledp.core.analyzer import Estimate, NormalError, ScaledError, Tally
from shuffledp.core.display import (
    Curve,
    Number,
    Picture,
    format_rows,
    list_numbers,
    make_picture,
    shorten_label,
    write_dates,
)
from shuffledp.core.domain import Answers, Bins, Bits, Categories, Cells, Reals
from shuffledp.core.errors import DataError, MismatchError, ParameterError, UnsupportedError
from shuffledp.core.randomizer import Messages, shuffle
from shuffledp.core.task import Option, read_moment
from shuffledp.core.texts import Keys
from shuffledp.mechanisms.selection import Exponential
from shuffledp.numerics.intervals.laplace import DiscreteLaplace, DiscreteLaplaceError
from shuffledp.protocols.bundle import BundleDevice
from shuffledp.protocols.krr import KRR
from shuffledp.tasks import task_named

ESTIMATE = Estimate(value=30.0, error=NormalError(stderr=2.0), limits=(0.0, 100.0))


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 1.0), (1.0, 0.5)])
def test_cells_lie_between_two_ends(lower, upper):
    with pytest.raises(ParameterError) as caught:
        Cells(lower=lower, upper=upper, cells=3)
    assert str(caught.value) == f"upper={upper} must be > lower={lower}"


def test_cells_have_middles_and_edges():
    cells = Cells(lower=-1.0, upper=3.0, cells=4)
    assert cells.values(np.arange(4)).tolist() == [-0.5, 0.5, 1.5, 2.5]
    assert cells.edges.tolist() == [-1.0, 0.0, 1.0, 2.0, 3.0]
    assert cells.codes([-1.0, 0.0, 1e-9, 2.0, 3.0]).tolist() == [0, 0, 1, 2, 3]
    assert cells.size == 4
    assert str(cells) == "reals in [-1, 3] in 4 cells"
    with pytest.raises(ParameterError, match=r"^steps=1 must be >= 2$"):
        Cells(lower=-1.0, upper=3.0, cells=1)
    wide = Cells(lower=-8e307, upper=8e307, cells=4)
    assert wide.edges == pytest.approx([-8e307, -4e307, 0.0, 4e307, 8e307])
    assert wide.edges[[0, -1]].tolist() == [-8e307, 8e307]


def test_bins_have_middles_and_edges():
    bins = Bins(edges=(0, 10, 40))
    assert bins.values(np.array([0, 1])).tolist() == [5.0, 25.0]
    assert bins.codes([0.0, 9.9, 10.0, 40.0]).tolist() == [0, 0, 1, 1]
    for edges, said in (
        ((0, 10), "must be at least three: two bins"),
        ((0, 10, 10), "must increase"),
        ((0, 10, 9), "must increase"),
    ):
        with pytest.raises(ParameterError, match=said):
            Bins(edges=edges)


def test_places_of_reals_are_parts_of_the_range():
    grid = Reals(lower=2.0, upper=4.0, steps=1)
    assert grid.places([2.0, 3.0, 4.0]).tolist() == [0, 1 << 40, 1 << 41]
    assert grid.locate(np.array([0, 1 << 39, 1 << 41])).tolist() == [2.0, 2.5, 4.0]


def test_a_scaled_answer_has_scaled_intervals():
    plain = DiscreteLaplaceError(noise=DiscreteLaplace(rate=Fraction(1, 2)), shape=())
    law = ScaledError(error=plain, times=3, over=100)
    for ask in ("interval", "exact_interval"):
        low, high = getattr(law, ask)(0.9, 0.95)
        wanted = getattr(plain, ask)(30.0, 0.95)
        assert (low, high) == pytest.approx((wanted.low * 0.03, wanted.high * 0.03), rel=1e-12)
    assert law.stderr == pytest.approx(plain.stderr * 0.03)


def test_tallies_are_of_nobody_or_more():
    assert Tally(counts=np.zeros(2, np.int64), users=0).users == 0
    with pytest.raises(ParameterError, match=r"^users=-1 must be >= 0$"):
        Tally(counts=np.zeros(2, np.int64), users=-1)
    with pytest.raises(ParameterError, match=r"must have dtype int64$"):
        Tally(counts=np.zeros(2, np.int32), users=0)


def test_what_is_shown_has_a_level_of_95_percent():
    assert make_picture(ESTIMATE).level == 0.95
    assert list_numbers(ESTIMATE) == list_numbers(ESTIMATE, 0.95)
    (shown,) = list_numbers(ESTIMATE)
    assert (shown.label, shown.value, shown.stderr) == ("estimate", 30.0, 2.0)
    assert (shown.low, shown.high) == pytest.approx((26.08007, 33.91993), abs=1e-5)


def test_dates_stand_for_the_points_and_ends_of_a_curve():
    rows = (Number("<= 10", 0.5, 0.01, 0.4, 0.6),)
    curve = Curve(points=(10.0,), ends=(0.0, 31.0))
    dated = write_dates(Picture(rows=rows, level=0.9, curve=curve), "days", values=False)
    assert [f"{point}" for point in dated.curve.points] == ["1970-01-11"]
    assert [f"{end}" for end in dated.curve.ends] == ["1970-01-01", "1970-02-01"]
    assert (dated.rows, dated.level) == (rows, 0.9)
    limited = Picture(rows=(Number("mean", 1.0, 1.0, 0.0, 2.0),), level=0.9, limits=(0.0, 9.0))
    both = write_dates(limited, "days")
    assert [f"{end}" for end in both.limits] == ["1970-01-01", "1970-01-10"]
    assert [f"{each}" for each in both.rows[0][1:]] == [
        "1970-01-02", "1.0", "1970-01-01", "1970-01-03"
    ]  # fmt: skip


class Repeating:
    """Words of which the first keys hold two that are equal."""

    def __init__(self, *keys):
        self.keys = [np.array(each, dtype=np.uint64) for each in keys]

    def words(self, count, bits=64):
        assert (count, bits) == (3, 64)
        return self.keys.pop(0)


@pytest.mark.parametrize("first", [(5, 5, 1), (1, 5, 5), (5, 1, 5)])
def test_equal_keys_are_drawn_again(first):
    source = Repeating(first, (9, 3, 6))
    found = shuffle(Messages.one_each(np.array([10, 20, 30])), source)
    assert found.payload.tolist() == [20, 30, 10]
    assert source.keys == []
    once = Repeating((1, 2, 3), (0, 0, 0))
    assert shuffle(Messages.one_each(np.array([10, 20, 30])), once).payload.tolist() == [10, 20, 30]
    assert len(once.keys) == 1


def test_counts_are_relative_to_everybody():
    for task in (
        task_named("count")(domain=Bits()),
        task_named("histogram")(domain=Categories(k=3)),
    ):
        assert (task.relate(250), task.scale(250)) == (250.0, 1)
    assert task_named("mean").scale(250) == 250


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, {}),
        ({"lower": None}, {}),
        ({"lower": 1, "upper": "2.5"}, {"lower": 1, "upper": 2.5}),
        ({"lower": "1970-01-03", "upper": date(1970, 1, 9)}, {"lower": 2, "upper": 8}),
        ({"lower": 1, "strange": False}, {"lower": 1}),
    ],
)
def test_options_of_a_task(given, read):
    assert task_named("mean").read_options(given) == read


def test_options_that_a_task_does_not_take():
    with pytest.raises(UnsupportedError) as caught:
        task_named("mean").read_options({"strange": 1, "lower": 2, "other": True, "off": False})
    assert str(caught.value) == "a mean takes no strange and no other"
    for wrong in (True, [1], "soon", b"1"):
        with pytest.raises((ParameterError, DataError, UnsupportedError), match="lower"):
            task_named("mean").read_options({"lower": wrong})


def test_moments_are_days_or_seconds():
    assert read_moment("1970-01-03")[0] == 2
    assert read_moment(datetime(1970, 1, 1, 0, 1))[0] == 60
    assert read_moment("soon") is None


def read_option(kind, value):
    return Option(name="x", kind=kind, help="Some option.").read(value)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (bool, "true", True),
        (bool, "TRUE", True),
        (bool, "False", False),
        (bool, False, False),
        (int, "12", 12),
        (int, 12, 12),
        (float, "12", 12),
        (float, "1.5", 1.5),
        (float, 2, 2),
        (float, "1970-01-11", 10),
        (float, "1970-01-01 00:01:30", 90.0),
        (float, "1970-01-01 01:00+01:00", 0.0),
        (float, np.datetime64("1970-01-11"), 10),
        (str, "a b", "a b"),
        (tuple, 'a, "b, c",d', ("a", "b, c", "d")),
        (tuple, "", ("",)),
        (tuple, ["a", "b, c"], ("a", "b, c")),
        (list, "1, 2.5,1970-01-03", (1.0, 2.5, 2.0)),
        (list, 4, (4.0,)),
        (list, [4, "5"], (4.0, 5.0)),
    ],
)
def test_options_are_read_as_their_types(kind, value, read):
    found = read_option(kind, value)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (bool, "yes", "must be true or false"),
        (bool, 1, "must be true or false"),
        (int, "1.5", "must be an integer"),
        (int, True, "must be an integer"),
        (int, 1.0, "must be an integer"),
        (float, True, "must be a number"),
        (float, "soon", "must be a number"),
        (float, "3.1.2024", "must be a number (dates are written 2024-12-31)"),
        (float, np.datetime64("NaT"), "must be a number"),
        (str, 1, "must be text"),
        (list, True, "must be a list of numbers"),
        (list, "1/2/2024", "must be a list of numbers (dates are written 2024-12-31)"),
    ],
)
def test_options_of_another_type_are_refused(kind, value, wanted):
    with pytest.raises(ParameterError) as caught:
        read_option(kind, value)
    assert str(caught.value).endswith(wanted)


def test_answers_are_to_some_questions():
    with pytest.raises(ParameterError, match=r"^parts=\(\) must be at least one domain$"):
        Answers(parts=())
    both = Answers(parts=(Bits(), Categories(k=3, names=("a", "b", "c"))))
    assert both.size == 6
    assert str(both) == f"{Bits()} and {Categories(k=3, names=('a', 'b', 'c'))}"
    pairs = [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
    bits, codes = (np.array(each) for each in zip(*pairs, strict=True))
    assert both.join((bits, codes)).tolist() == [0, 1, 2, 3, 4, 5]
    assert [each.tolist() for each in both.split(np.arange(6))] == [bits.tolist(), codes.tolist()]
    assert [label.split(", ")[1] for label in both.labels] == ["a", "a", "b", "b", "c", "c"]
    with pytest.raises(MismatchError, match=r"^1 columns for 2 questions$"):
        both.columns(([0, 1],))


@pytest.mark.parametrize(
    "make",
    [
        lambda many: Answers(parts=many([Bits(), Categories(k=3)])),
        lambda many: Categories(k=2, names=many(["a", "b"])),
        lambda many: BundleDevice(devices=many([KRR(k=3, epsilon0=1.0), KRR(k=2, epsilon0=1.0)])),
        lambda many: Exponential(epsilon=1.0, sensitivity=1.0, k=2, labels=many(["a", "b"])),
    ],
    ids=["Answers", "Categories", "BundleDevice", "Exponential"],
)
def test_what_is_given_as_a_list_or_read_once_is_kept_as_a_tuple(make):
    wanted = make(tuple)
    assert [make(list), make(iter)] == [wanted] * 2
    assert {hash(make(list)), hash(make(iter))} == {hash(wanted)}


@pytest.mark.parametrize(
    ("domain", "said"),
    [
        (Keys(bits=8), "integers of 8 bits"),
        (Cells(lower=0, upper=1.5, cells=2048), "reals in [0, 1.5] in 2,048 cells"),
        (Answers(parts=(Keys(bits=8), Keys(bits=9))), "integers of 8 bits and integers of 9 bits"),
    ],
)
def test_domains_have_names(domain, said):
    assert str(domain) == said


def test_whole_numbers_within_an_interval():
    """Between two whole numbers there may be none: then those around it."""
    rows = [Number("a", 1200.4, 3.0, 1194.1, 1206.3), Number("b", 7.6, 3.0, 7.2, 7.8)]
    shown = format_rows(rows, whole=True)
    assert [row[1] for row in shown] == ["1,200", "8"]
    assert [row[3] for row in shown] == ["1,195 .. 1,206", "7 .. 8"]
    endless = [Number("c", 5.25, 3.0, float("-inf"), 6.5)]
    assert format_rows(endless, whole=True) == format_rows(endless)


@pytest.mark.parametrize(
    ("label", "width", "shown"),
    [("abcd", 4, "abcd"), ("abcde", 4, "abc\u2026"), ("x" * 40, 40, "x" * 40), ("ab", 1, "\u2026")],
)
def test_labels_are_cut_where_they_do_not_fit(label, width, shown):
    assert shorten_label(label, width) == shown


def test_labels_have_40_characters():
    assert shorten_label("x" * 40) == "x" * 40
    assert shorten_label("x" * 41) == "x" * 39 + "\u2026"
