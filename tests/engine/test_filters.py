"""Whom a question is about: a small language, read by ourselves; DuckDB's SQL is the oracle."""

from datetime import date, datetime

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shuffledp as sdp
from file_support import write
from shuffledp.engine import Filter, take_column
from shuffledp.engine.columns import read_chunks

TABLE = pa.table(
    {
        "distance": [500, 1000, None, 1500, 2000],
        "carrier": ["AA", "UA", "DL", None, "AA"],
        "delay": [1.5, None, -3.0, 0.0, 1e6],
        "cancelled": [True, False, None, False, True],
        "air time": [10, 20, 30, 40, 50],
        "day": [date(2013, 1, 1), date(2013, 6, 1), None, date(2013, 7, 4), date(2014, 1, 1)],
        "moment": [datetime(2013, 1, day, 5) for day in range(1, 6)],
    }
)
TEXTS = [
    "distance > 1000",
    "distance>=1000",
    "distance < 1e3",
    "distance <= 1000.0",
    "distance = 1500 or carrier = 'UA'",
    "distance != 1500",
    "distance <> 1500",
    "not distance = 1500",
    "1000 < distance",
    "delay > -5 and delay < 2",
    "delay between -3 and 1.5",
    "delay not between -3 and 1.5",
    "carrier in ('AA', 'UA')",
    "carrier not in ('AA', 'UA')",
    "carrier is null",
    "carrier is not null AND distance IS NOT NULL",
    "carrier >= 'DL'",
    "carrier != 'AA'",
    "cancelled",
    "not cancelled",
    "cancelled = false",
    "cancelled or distance > 1000",
    "cancelled and distance > 1000 or delay = 0",
    "cancelled and (distance > 1000 or delay = 0)",
    "not (cancelled or distance > 1000) and delay is null",
    '"air time" > 20',
    "day >= '2013-06-01'",
    "day = '2013-07-04'",
    "moment < '2013-01-03 00:00:00'",
    "carrier = 'it''s'",
    "carrier like '_A'",
    "carrier not like 'A%'",
    "distance < delay",
    "distance >= `air time`",
    "distance != delay",
    "carrier = carrier",
    "day <= moment",
    "moment > day and not delay < distance",
]


def rows(text, table):
    chosen = Filter.read(text)
    return np.flatnonzero(chosen.choose(lambda name: table.column(name))).tolist()


def oracle(text, table):
    numbered = table.append_column("row number", pa.array(range(len(table))))
    with duckdb.connect() as connection:  # by name: old releases close one that nobody holds
        chosen = (
            connection.from_arrow(numbered).filter(text.replace("`", '"')).project('"row number"')
        )
        return [row for (row,) in chosen.fetchall()]


MIXED = {
    "a": ["10", "9", "x", "x", "2013-01-02", "2013-01-02 10:00:00", "NA", "7", " 5"],
    "b": ["9", "10", "x", "y", "2013-01-02", "2013-01-03", "7", "", "5.0"],
}


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("a = b", [2, 4, 8]),
        ("a > b", [0]),
        ("a < b", [1, 3, 5]),
        ("a != b", [0, 1, 3, 5]),
        ("a >= b", [0, 2, 4, 8]),
        ("not a = b", [0, 1, 3, 5]),
    ],
)
def test_columns_are_compared_value_by_value(text, taken):
    """Texts that spell numbers are numbers, and dates dates; in chunks of a row as in one."""
    assert rows(text, pa.table(MIXED)) == taken
    single = [rows(text, pa.table(MIXED).slice(place, 1)) for place in range(9)]
    assert [place for place, found in enumerate(single) if found] == taken


def test_a_number_is_neither_above_nor_equal_to_a_text():
    table = pa.table({"a": [1, 2], "b": ["x", "2013-01-01"], "day": [date(2013, 1, 1)] * 2})
    for text in ("a < b", "a > b", "a = b", "a >= day", "not a < day"):
        assert rows(text, table) == []
    assert rows("a != b", table) == [0, 1]
    assert rows("b = day", table) == [1]


def test_like_is_for_texts():
    with pytest.raises(sdp.DataError, match="'distance' holds int64: like is for texts"):
        rows("distance like '1%'", TABLE)
    with pytest.raises(sdp.ParameterError, match="needs a text in quotes after like"):
        Filter.read("carrier like 1")


def test_a_text_without_quotes_is_a_column_that_is_missing(tmp_path):
    path = write({"x": [1, 2]}, tmp_path / "a.csv")
    with pytest.raises(sdp.DataError, match=r"no column 'AA'.*texts are in quotes"):
        sdp.open_column(path, "x", where="x = AA")


@pytest.mark.parametrize("text", TEXTS)
def test_means_what_sql_means(text):
    assert rows(text, TABLE) == oracle(text, TABLE)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_text_columns_too(text, suffix, tmp_path):
    table = {name: TABLE.column(name).to_pylist() for name in TABLE.column_names}
    table = {k: [v if isinstance(v, int | float | str | None) else str(v) for v in c] for k, c in table.items()}  # fmt: skip
    path = write({**table, "row": [*range(5)]}, tmp_path / f"a.{suffix}")
    column = sdp.open_column(path, "row", where=text)
    found = [int(value) for chunk in read_chunks(column) for value in chunk.array.to_pylist()]
    assert found == oracle(text, TABLE)


@st.composite
def filters(draw, depth=3):
    name, other = draw(st.sampled_from(["distance", "delay"])), draw(st.sampled_from(["AA", "DL"]))
    mark = draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]))
    number = draw(st.sampled_from(["-3", "0", "1000", "1.5", "2e3"]))
    tests = [f"{name} {mark} {number}", f"carrier {mark} '{other}'", "cancelled", f"{name} is null"]
    if depth:
        some, more = draw(filters(depth - 1)), draw(filters(depth - 1))
        tests += [f"({some}) and ({more})", f"{some} or {more}", f"not ({some})"]
    return draw(st.sampled_from(tests))


@given(filters())
def test_whatever_is_asked(text):
    assert rows(text, TABLE) == oracle(text, TABLE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "distance",  # fine: a yes or no, but see below
        "distance >",
        "> 3",
        "distance > 1000;",
        "distance > 1000; drop table people",
        "distance > (select 1)",
        "distance > abs(3)",
        "a = 1 b = 2",
        "a in 3",
        "a in ()",
        "a is 3",
        "a not 3",
        "a between 1",
        "(a = 1",
        "a = 1)",
        "a = 'x",
        "a = 1 -- comment",
        "a = 1 and",
        "3",
        "'x'",
        "a = null",
        "a + 1 > 2",
        "read_csv('/etc/passwd') = 1",
        "(" * 100_000,
    ],
)
def test_nothing_else_is_read(text):
    if text == "distance":
        assert Filter.read(text).columns == ("distance",)
        return
    with pytest.raises(sdp.ParameterError, match=r"^where="):
        Filter.read(text)


def test_comparisons_that_make_no_sense():
    with pytest.raises(sdp.DataError, match="'distance' holds no texts: compare it with a number"):
        rows("distance > 'far'", TABLE)
    with pytest.raises(sdp.DataError, match="'day' holds date32"):
        rows("day > 'monday'", TABLE)


PEOPLE = {"x": [1, 2, 3, 4] * 50, "far": [True, False, True, True] * 50, "way": [*"abca"] * 50}


class TestColumns:
    def expected(self):
        return [1, 4] * 50

    @pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow", "csv.gz"])
    def test_files(self, suffix, tmp_path):
        path = write(PEOPLE, tmp_path / f"a.{suffix}")
        column = sdp.open_column(path, "x", where="far and way = 'a'")
        found = [int(value) for chunk in read_chunks(column) for value in chunk.array.to_pylist()]
        assert found == self.expected()
        assert column.rows is None, "not known before it is read"
        assert sdp.headcount(column, sdp.Integers(lower=1, upper=4)).n == 100
        assert column.categories() == ("1", "4")

    @pytest.mark.parametrize(
        "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
    )
    def test_memory(self, make):
        column = take_column(make(PEOPLE), "x", where="far and way = 'a'")
        assert column.array.to_pylist() == self.expected()
        assert column.rows == 100

    def test_values_alone(self):
        assert take_column([1, 5, 9], where="values > 3").array.to_pylist() == ["5", "9"]
        with pytest.raises(sdp.DataError, match="has no column 'x'"):
            take_column([1, 5, 9], where="x > 3")

    def test_what_folders_tell(self, tmp_path):
        for year in (2012, 2013):
            (tmp_path / f"year={year}").mkdir()
            pq.write_table(pa.table({"x": [year] * 3}), tmp_path / f"year={year}" / "p.parquet")
        column = sdp.open_column(tmp_path, "x", where="year > 2012")
        assert [chunk.array.to_pylist() for chunk in read_chunks(column)] == [[2013] * 3]

    def test_columns_that_are_not_there(self, tmp_path):
        path = write(PEOPLE, tmp_path / "a.csv")
        with pytest.raises(
            sdp.DataError, match=r"a\.csv has no column 'y'; it has 'x', 'far', 'way'"
        ):
            sdp.open_column(path, "x", where="y > 1")
        with pytest.raises(sdp.DataError, match="the table has no column 'y'"):
            take_column(pd.DataFrame(PEOPLE), "x", where="y > 1")

    @pytest.mark.parametrize("suffix", ["csv", "parquet"])
    def test_errors_name_the_row_of_the_file(self, tmp_path, suffix):
        path = write({"x": [1, 2, 3, 99], "y": [0, 1, 0, 1]}, tmp_path / f"a.{suffix}")
        column = sdp.open_column(path, "x", where="y = 1")
        with pytest.raises(sdp.DataError, match=r"value '?99'? in row 4 of"):
            sdp.headcount(column, sdp.Integers(lower=0, upper=9), "unknown=drop")

    def test_nobody(self, tmp_path):
        path = write(PEOPLE, tmp_path / "a.csv")
        with pytest.raises(sdp.DataError, match="has no valid value where "):
            sdp.headcount(sdp.open_column(path, "x", where="x > 9"), sdp.Integers(lower=0, upper=9))


FLIGHTS = {"distance": [500, 1500] * 2000, "delay": [0, 10] * 2000}
ASKED = {"column": "delay", "lower": 0, "upper": 20, "epsilon": 5, "delta": 1e-6}


class TestAnswers:
    @pytest.mark.parametrize("suffix", ["csv", "parquet", None])
    def test_say_that_the_filter_is_part_of_the_question(self, tmp_path, suffix):
        data = pd.DataFrame(FLIGHTS)
        if suffix is not None:
            data = write(FLIGHTS, tmp_path / f"a.{suffix}")
        answer = sdp.ask(data, "mean", where="distance > 1000", **ASKED)
        assert answer.n == 2000
        assert answer.estimate.value == pytest.approx(10, abs=0.5)
        assert answer.guarantee.honest == 1800, "the promise is for those people"
        assert "2,000 people with distance > 1000" in answer.title
        assert any("This filter is part of the question" in note for note in answer.notes)
        assert answer.to_dict()["where"] == "distance > 1000"
        assert sdp.ask(data, "mean", **ASKED).to_dict()["where"] is None

    def test_a_ledger_writes_it_down(self, tmp_path):
        budget = sdp.ledger.Budget(epsilon=9, delta=1e-5)
        paid = {"ledger": tmp_path / "l.json", "budget": budget}
        table = pd.DataFrame(FLIGHTS)
        column = take_column(table, "delay", where="distance > 1000")
        with pytest.raises(sdp.UnsupportedError, match="where_public"):
            sdp.ask(column, "mean", **ASKED | {"column": None}, **paid)
        counts = []
        for public in (True, False):
            asked = {"where": "distance > 1000", "where_public": public, **ASKED, "epsilon": 4}
            counts.append(sdp.ask(table, "mean", **asked, **paid).n)
        assert counts == [2000, 4000], "unless the filter is public, everybody stays"
        entries = list(sdp.ledger.Ledger(tmp_path / "l.json").entries())
        assert [entry.note["where"] for entry in entries] == ["distance > 1000"] * 2
        assert [entry.note["where_public"] for entry in entries] == [True, False]

    def test_an_open_column_has_its_own(self):
        column = take_column(pd.DataFrame(FLIGHTS), "delay", where="distance > 1000")
        assert sdp.ask(column, "mean", **ASKED | {"column": None}).n == 2000
        with pytest.raises(sdp.UnsupportedError, match="already open"):
            sdp.ask(column, "mean", where="delay > 1", **ASKED)


NUMBERS = pa.table({"x": pa.array([4.0, 5.0, 6.0, float("nan"), None])})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 > x", [0]),
        ("5 >= x", [0, 1]),
        ("5 < x", [2]),
        ("5 <= x", [1, 2]),
        ("5 = x", [1]),
        ("5 != x", [0, 2]),
    ],
)
def test_a_number_first_means_the_same_at_equality(text, expected):
    assert rows(text, NUMBERS) == expected


@pytest.mark.parametrize("mark", ["=", "!=", "<", "<=", ">", ">="])
def test_what_is_no_number_is_unknown(mark):
    """Neither the comparison nor its contrary takes anybody whose value is NaN or missing."""
    taken = rows(f"x {mark} 5", NUMBERS) + rows(f"not x {mark} 5", NUMBERS)
    assert sorted(taken) == [0, 1, 2]


def test_a_date_beyond_numbers_is_compared_without_a_word():
    """A warning would be about one value."""
    import pyarrow as pa

    days = {"day": pa.array(["2024-01-02", "nan", "inf", "2024-03-01"])}
    taken = Filter.read("day > '2024-02-01'", missing=["NA"]).choose(days.__getitem__)
    assert taken.tolist()[::3] == [False, True]
