"""Rows that a database reduces by itself become the same people, bit by bit, as rows that Python reads."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from file_support import write
from shuffledp.engine import OnInvalid, People, Reduce, open_column, reducing
from shuffledp.engine.reducing import Reduction, reduce_here

WHOLE = [2**63 - 1, -(2**63), 2**62, 2**53 + 1, -(2**53) - 1, 2**40 + 1, 3, 0, -7]
REAL = [math.inf, -math.inf, 5e-324, -0.0, 1e300, 2.0**53 + 2, 0.1, 2.5, 1 / 3, math.nan]
TYPED = {
    pa.int64(): WHOLE,
    pa.int32(): [2**31 - 1, -(2**31), 5, 0],
    pa.uint32(): [2**32 - 1, 0, 9],
    pa.float64(): REAL,
    pa.float32(): [each for each in REAL if each != 1e300],
    pa.bool_(): [True, False],
}
HOURS = sdp.Reals(lower=0.0, upper=8.0, steps=8)
# Fixed-point numbers of units below 2^-52, of exactly that, of 1, and beyond.
ENDS = (2.0**-12, 2.0**-11, 2.0**41, 2.0**43)
ASKED = (
    *((how, sdp.Integers(lower=0, upper=50)) for how in (Reduce.SUM, Reduce.MIN, Reduce.ROWS)),
    (Reduce.MEAN, sdp.Integers(lower=-(2**53), upper=2**53)),
    *((how, HOURS) for how in (Reduce.SUM, Reduce.MEAN, Reduce.MAX)),
    *((Reduce.SUM, sdp.Reals(lower=0.0, upper=end, steps=8)) for end in ENDS),
)
TOLD = ((Reduce.ANY, sdp.Bits()), (Reduce.ALL, sdp.Bits()))


KM = sdp.Integers(lower=0, upper=50)


def people_of(where, how, domain, policy, **named):
    """The people of a file, or what is refused, as text."""
    column = open_column(where, "v", people=People.read("who", **named))
    asked = {"how": how, "domain": domain, "policy": OnInvalid.read(policy), "key": "key"}
    try:
        found = reduce_here(Reduction(column=column, **asked))
    except sdp.DataError as error:
        return str(error).replace(str(where), "")
    array = found.column.array
    bits = [each.hex() if isinstance(each, float) else each for each in array.to_pylist()]
    return str(array.type), bits, found.rows, found.taken, found.counts.tolist()


def compare(where, monkeypatch, asked, policy, **named):
    """How many reductions the database did by itself, all of them equal to Python's."""
    write_query, queries = reducing.write_direct, []

    def watch(*given):
        queries.append(write_query(*given))
        return queries[-1]

    with monkeypatch.context() as patched:
        patched.setattr(reducing, "write_direct", watch)
        found = [people_of(where, *each, policy, **named) for each in asked]
        patched.setattr(reducing, "write_direct", lambda *_: None)
        for each, one in zip(asked, found, strict=True):
            assert one == people_of(where, *each, policy, **named), each
    return sum(each is not None for each in queries)


def write_rows(where, kind, known):
    rng = np.random.default_rng(5)
    rows = [known[place] for place in rng.integers(len(known), size=300)]
    rows += [known[0]] * 3 + [known[1]] * 3  # beyond 64 bits, all of one sign
    who = [*rng.integers(150, size=300).tolist(), *[900] * 3, *[901] * 3]
    return write({"who": who, "v": pa.array(rows, kind)}, where / "t.parquet")


@pytest.mark.parametrize("kind", TYPED, ids=str)
def test_values_at_the_ends_of_their_types(tmp_path, monkeypatch, kind):
    """What is missing is left out by both, and refused in the same words."""
    asked = TOLD if kind == pa.bool_() else ASKED
    where = write_rows(tmp_path, kind, [*TYPED[kind], None])
    # A whole number of a real one is for Python: 2.5 is none.
    wanted = len(asked) - 2 * (kind in (pa.float64(), pa.float32()))
    assert compare(where, monkeypatch, asked, "drop") == wanted
    assert compare(where, monkeypatch, asked[-1:], "error") == 1
    assert "is " in people_of(where, *asked[-1], "error")


def test_nulls_and_numbers_that_are_none_count_as_nothing(tmp_path):
    where = write_rows(tmp_path, pa.int64(), [4, None])
    _, values, rows, taken, counts = people_of(where, Reduce.MEAN, KM, "drop")
    assert {*values} == {(4.0).hex(), None}
    assert rows == 306 > taken == sum(counts)


def plan(data, how=Reduce.SUM, domain=KM, policy="drop", missing=(), person="who", **more):
    """The query of the database, if it does the work by itself."""
    opened = {name: more.pop(name) for name in ("where", "also") if name in more}
    named = {name: more.pop(name) for name in ("of", "max_rows") if name in more}
    column = open_column(data, "v", people=People.read(person, **named), **opened)
    column = replace(column, **{name: more.pop(name) for name in ("moments",) if name in more})
    asked = replace(OnInvalid.read(policy), missing=missing)
    reduction = Reduction(column=column, how=how, domain=domain, policy=asked, key="key", **more)
    return reducing.write_direct(reduction, reducing.list_whole(column))


def test_whatever_else_decides_about_a_value_is_left_to_python(tmp_path):
    """Filters, groups, dates as numbers, numbers that mean nothing, answers about rows, names and other formats."""
    table = {"who": [1, 1, 2], "v": [3, 4, 5], "name": ["a", "b", "a"], "yes": [True, False, True]}
    typed = write(table, tmp_path / "t.parquet")
    assert plan(typed) is not None
    assert plan(typed, missing=("NA", "", "inf", "nan")) is not None
    assert plan(typed, missing=("NA", "-1")) is None
    assert plan(typed, where="v > 3") is None
    assert (
        plan(typed, by="name", groups=sdp.Categories(k=2, names=("a", "b")), also=("name",)) is None
    )
    assert plan(typed, moments="days") is None
    assert plan(typed, of="rows", max_rows=2) is None
    assert plan(typed, person="name") is None
    assert plan(typed, person=("who", "name")) is None
    assert plan(typed, how=Reduce.FIRST) is None
    assert plan(typed, how=Reduce.ANY, domain=sdp.Bits()) is None  # 3 is no truth value by its type
    assert plan(typed, how=Reduce.ANY, domain=sdp.Categories(k=9)) is None
    assert plan(write(table, tmp_path / "t.csv")) is None
    assert plan(write(table, tmp_path / "t.arrow")) is None
    real = write({**table, "v": [0.5, 1.5, 2.5]}, tmp_path / "real.parquet")
    assert plan(real) is None
    assert plan(real, domain=HOURS) is not None
    assert plan(real, how=Reduce.ROWS) is not None
    text = write({**table, "v": ["3", "4", "5"]}, tmp_path / "text.parquet")
    assert plan(text, domain=HOURS) is None
    assert plan(text, how=Reduce.ROWS) is not None  # whatever the values are
    assert plan([typed, real], domain=HOURS) is not None
    assert plan([typed, text], domain=HOURS) is None
    assert plan([typed, tmp_path / "t.csv"]) is None


def test_people_of_two_columns_and_of_two_files_are_the_same_people(tmp_path, monkeypatch):
    """In order of their names; the types of a column may differ between files."""
    one = {"who": [2, 1, 2], "home": [1, 9, 1], "v": pa.array([3, 4, 5], pa.int32())}
    two = {"who": [1, 2, 1], "home": [9, 3, 8], "v": pa.array([2**40, 7, None], pa.int64())}
    files = [write(each, tmp_path / f"{name}.parquet") for name, each in (("a", one), ("b", two))]
    for person, sums in ((("who", "home"), [None, 4 + 2**40, 8, 7]), (("who",), [4 + 2**40, 15])):
        column = open_column(files, "v", people=People.read(person))
        given = {"domain": KM, "policy": OnInvalid.read("drop"), "key": "key"}
        reduction = Reduction(column=column, how=Reduce.SUM, **given)
        assert reducing.write_direct(reduction, reducing.list_whole(column)) is not None
        found = reduce_here(reduction)
        assert found.column.array.to_pylist() == sums
        assert (found.rows, found.taken) == (6, 5)
        with monkeypatch.context() as patched:
            patched.setattr(reducing, "write_direct", lambda *_: None)
            assert sorted(map(str, reduce_here(reduction).column.array.to_pylist())) == sorted(
                map(str, sums)
            )


def test_rows_of_nobody_and_missing_values_are_read_again_to_be_named(tmp_path):
    """Only what is dropped anyway may be missing; without rows there is nothing to look at."""

    def clean(values, who, policy):
        where = write(
            {"who": pa.array(who, pa.int64()), "v": pa.array(values, pa.float64())},
            tmp_path / "t.parquet",
        )
        column = open_column(where, "v", people=People.read("who"))
        reduction = Reduction(
            column=column, how=Reduce.SUM, domain=HOURS, policy=OnInvalid.read(policy), key="key"
        )
        query = reducing.write_direct(reduction, (True,))
        with reducing.connect(1) as connection:
            found = connection.sql(query).arrow()
            found = found.read_all() if isinstance(found, pa.RecordBatchReader) else found
            rows = reducing.count_rows(connection, reduction)
        assert rows == len(values)
        return reducing.is_clean(reduction, found, rows)

    assert clean([1.0], [1], "error")
    assert clean([1.0, None, math.nan], [1, 1, 2], "null=drop,nan=drop")
    assert not clean([1.0, None], [1, 1], "error")
    assert not clean([1.0, None], [1, 1], "nan=drop")
    assert not clean([1.0, math.nan], [1, 1], "null=drop")
    assert clean([1.0, 2.0], [1, 1], "null=drop")
    assert not clean([1.0, 2.0], [1, None], "null=drop,nan=drop")
    assert not clean([], [], "null=drop,nan=drop")
