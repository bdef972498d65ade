"""What is said of filters, of values that are refused, and of policies for them."""

import math

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp import Bins, Cells
from shuffledp.core.domain import PLACE_BITS
from shuffledp.core.texts import Keys, Texts
from shuffledp.engine import (
    Filter,
    OnInvalid,
)
from shuffledp.engine.codes import Coder

TABLE = {"x": ["1", "2", "3", ""], "y": ["a", "b", "NA", "a"]}


def choose(text, missing=None):
    table = {name: pa.array(values) for name, values in TABLE.items()}
    return np.flatnonzero(Filter.read(text, missing).choose(table.__getitem__)).tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x >", "ends too early"),
        ("x > 1 and", "ends too early"),
        ("x in (1, 2", "ends too early"),
        ("x in (1 2)", "cannot be read at '2)'"),
        ("x in 1", "cannot be read at '1'"),
        ("x IN 1", "cannot be read at '1'"),
        ("x is not 3", "cannot be read at '3'"),
        ("x not 3", "cannot be read at '3'"),
        ("x not", "ends too early"),
        ("x between 1 or 2", "cannot be read at 'or 2'"),
        ("air time > 3", "cannot be read at 'time > 3' (a column name with blanks goes in double quotes: \"air time\")"),
        ("x > 1 x", "cannot be read at 'x'"),
        ("3 x", "cannot be read at 'x'"),
        ("3 > 4", "cannot be read at '4'"),
        ("3 >", "ends too early"),
        ("x > )", "cannot be read at ')'"),
        ("x ? 3", "cannot be read at '? 3'"),
        ("x > 3..", "cannot be read at '3..'"),
        ("x like y", "cannot be read at 'y'"),
        ("x like 3", "needs a text in quotes after like"),
        ("(x > 1", "ends too early"),
        ("not", "ends too early"),
        ("and", "cannot be read at 'and'"),
        ("x = null", "cannot be read at 'null'"),
        ("   ", "must be a comparison such as 'distance > 1000'"),
    ],
)  # fmt: skip
def test_where_a_filter_cannot_be_read(text, said):
    with pytest.raises(sdp.ParameterError) as refused:
        Filter.read(text)
    assert str(refused.value) == f"where={text!r} {said}"


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("x > +1", [1, 2]), ("x > -1.5e0", [0, 1, 2]), ("x >= .2e1", [1, 2]), ("x = 3.", [2]), ("NOT x = 2", [0, 2]),
        ("x BETWEEN 2 AND 3", [1, 2]), ("x not between 2 and 3", [0]), ("x in (1,3)", [0, 2]), ("x not in (1,3)", [1]),
        ('"x" = 1', [0]), ("`x` = 1", [0]), ("y = \"a\"", [0, 3]), ("x = 1 or x = 2 and y = 'z'", [0]),
        ("(x = 1 or x = 2) and y = 'b'", [1]), ("not (x = 1 or y is null)", [1]), ("x is null", [3]), ("x is not null", [0, 1, 2]),
        ("y is null", [2]), ("y != 'a'", [1]), ("y <> 'a'", [1]), ("y > 'a'", [1]), ("2 = x", [1]), ("'a' = y", [0, 3]),
        ("2 <= x", [1, 2]), ("2 < x", [2]), ("y like 'a%'", [0, 3]), ("y not like 'a%'", [1]), ("x == 2", [1]),
        ("x = `y`", []), ("x != y", [0, 1]), ("x = x", [0, 1, 2]), ("x > '1'", [1, 2]), ("x < '10'", [0, 1, 2]),
    ],
)  # fmt: skip
def test_whom_a_filter_takes(text, taken):
    assert choose(text) == taken


def test_what_a_filter_is():
    found = Filter.read("  b > 1 and `a c` = 'x' or b = a.d ")
    assert (found.text, str(found)) == ("b > 1 and `a c` = 'x' or b = a.d",) * 2
    assert found.columns == ("b", "a c", "a.d")
    assert (
        found.expose()
        == f"n is the exact number of people with {found.text}: no noise protects who they are"
    )
    assert (found.public, found.private) == (False, False)
    public = Filter.read(found, public=True)
    assert (public.public, public.expose(), Filter.read(public).public) == (True, None, True)
    assert Filter.read(found).missing == found.missing
    assert Filter.read(found, "-9, x").missing == ("-9", "x")
    assert choose("y is null", ["a"]) == [0, 3]
    assert choose("x = 2", ["2"]) == []
    with pytest.raises(sdp.ParameterError, match="has too many parentheses"):
        Filter.read("(" * 50_000 + "x = 1" + ")" * 50_000)
    assert Filter.read("`it``s` = 1").columns == ("it`s",)
    assert Filter.read('"say ""hi""" = 1').columns == ('say "hi"',)


AGES = sdp.Integers(lower=0, upper=9)
REALS = sdp.Reals(lower=0.0, upper=9.0, steps=9)
DAYS = sdp.Categories(k=2, names=("2024-01-01", "2024-01-02"))
TOWNS = sdp.Categories(k=3, names=("Bern", "CH", "Ulm"))


@pytest.mark.parametrize(
    ("domain", "value", "hint"),
    [
        (AGES, "1,234", " (write thousands without commas; for files, `strip` ',' removes them, and `decimal` ',' declares decimal commas)"),
        (REALS, "1,5", " (decimals have a point; `decimal` declares commas)"),
        (REALS, "12/31/2024", " (dates are written 2024-12-31; for files, `dates` declares other orders: ymd 2024/12/31, dmy 31.12.2024, mdy 12/31/2024)"),
        (REALS, "$4.50", " (write numbers without units and spaces, as 1234.5; for files, `strip` '$' removes them)"),
        (REALS, "12 %", " (write numbers without units and spaces, as 1234.5; for files, `strip` '%' removes them)"),
        (REALS, "2024-12-31", " (it is a date: ends may be dates, such as 2024-12-31)"),
        (REALS, "(4.50)", " (write negative numbers as -1234.5)"),
        (REALS, "4.50-", " (write negative numbers as -1234.5)"),
        (REALS, "18-24", " (write numbers as 1234.5)"),
        (REALS, "part-1.csv.gz", " (a list of strings is a column of values; several files are Path objects, or Files)"),
        (REALS, "A4", ""),
        (REALS, "four", ""),
        (DAYS, "2024-01-01 10:00:00", " (it has a time of day: `bins` counts moments between `edges`)"),
        (DAYS, "2024-01-03", ""),
        (DAYS, "soon", ""),
        (TOWNS, "Bern, CH", " (a name that has a comma needs quotes: '\"Bern, CH\"')"),
        (TOWNS, "Bern, DE", ""),
        (sdp.Categories(k=2, names=("a", "b")), "2024-01-01 10:00:00", ""),
        (sdp.Bits(), "Ja", " (true_value says which one is yes)"),
    ],
)  # fmt: skip
def test_what_may_be_meant_by_a_value(domain, value, hint):
    with pytest.raises(sdp.DataError) as refused:
        Coder(domain=domain, on_invalid="error").codes(pa.array([value]))
    said = str(refused.value)
    known = hint or "; to go on"
    assert known in said
    hints = (
        " (write thousands",
        " (decimals",
        " (dates",
        " (write numbers",
        " (write negative",
        " (a list of strings",
        " (a name that has",
        " (it is a date",
        " (it has a time",
        " (true_value",
    )
    assert sum(each in said for each in hints) == bool(hint)


@pytest.mark.parametrize(
    ("domain", "policy", "value", "end"),
    [
        (AGES, "error", None, "is missing; to go on: on_invalid null=drop"),
        (AGES, "error", 12, "is outside the domain 0 .. 9; to go on: on_invalid out_of_range=clamp"),
        (AGES, "null=drop", 12, "to go on: on_invalid null=drop,out_of_range=clamp"),
        (AGES, "clamp", "x", "; to go on: on_invalid out_of_range=clamp,unknown=drop"),
        (DAYS, "error", "x", "is none of the categories; to go on: declare it or a category 'other' (on_invalid "
         "unknown=other), or leave such people out (on_invalid unknown=drop)"),
        (DAYS, "null=drop", "x", "'other' (on_invalid null=drop,unknown=other), or leave such people out (on_invalid "
         "null=drop,unknown=drop)"),
        (sdp.Categories(k=2, names=("a", "other")), "error", "x",
         "is none of the categories; to go on: on_invalid unknown=drop or unknown=other"),
        (sdp.Categories(k=2, names=("a", "other")), "error", None, "is missing; to go on: on_invalid null=drop or null=other"),
        (sdp.Bits(), "error", "2", "is neither true nor false (true_value says which one is yes)"),
        (Cells(lower=0.0, upper=9.0, cells=3), "error", 10.5,
         "is outside the domain 0.0 .. 9.0; to go on: on_invalid out_of_range=clamp"),
        (Bins(edges=(0, 1, 2)), "error", "x", "is not a number; to go on: on_invalid unknown=drop"),
        (REALS, "error", math.nan, "is not a number; to go on: on_invalid nan=drop"),
    ],
)  # fmt: skip
def test_how_to_go_on(domain, policy, value, end):
    with pytest.raises(sdp.DataError) as refused:
        Coder(domain=domain, on_invalid=policy).codes(pa.array([value]))
    assert str(refused.value).endswith(end)


def test_policies_for_several_columns():
    policy = OnInvalid.read("other,clamp,nan=drop")
    texts = Texts(alphabet="letters", max_length=3)
    for domain, kept in (
        (AGES, "out_of_range=clamp,nan=drop"), (sdp.Categories(k=2, names=("a", "other")), "null=other,unknown=other,nan=drop"),
        (DAYS, "nan=drop"), (sdp.Bits(), "nan=drop"), (texts, "out_of_range=clamp,nan=drop"), (Keys(bits=8), "out_of_range=clamp,nan=drop"),
    ):  # fmt: skip
        assert str(Coder.for_part(domain, policy).on_invalid) == kept
    assert (policy.drops, policy.recodes) == (True, True)
    assert (OnInvalid.ERROR.drops, OnInvalid.ERROR.recodes) == (False, False)
    assert (OnInvalid.CLAMP.recodes, OnInvalid.OTHER.recodes, OnInvalid.DROP.recodes) == (
        True,
        True,
        False,
    )
    assert OnInvalid.read("drop", "-9").missing == ("-9",)
    assert OnInvalid.read(policy) is policy
    for given, said in (
        ("null=clamp", "null='clamp' is for out_of_range only"),
        ("nan=other", "nan='other' is for null and unknown only"),
    ):
        with pytest.raises(sdp.ParameterError, match=said):
            OnInvalid.read(given)
    assert Coder(domain=REALS, on_invalid="error").largest == 1 << PLACE_BITS
    assert Coder(domain=AGES, on_invalid="error").largest == 9


def test_infinity_is_itself_and_a_text_is_no_time():
    table = {
        "x": pa.array([math.inf, -math.inf, math.inf, 1.0]),
        "y": pa.array([math.inf, -math.inf, 3.0, math.inf]),
    }
    found = {mark: np.flatnonzero(Filter.read(f"x {mark} y").choose(table.__getitem__)).tolist() for mark in ("=", "<", ">", ">=")}  # fmt: skip
    assert found == {"=": [0, 1], "<": [3], ">": [2], ">=": [0, 1, 2]}
    times = pa.array([0, 1], pa.time64("us"))
    with pytest.raises(sdp.DataError, match=r"'x' holds time64\[us\], and 'cat' is no such value"):
        Filter.read("x = 'cat'").choose({"x": times}.__getitem__)
