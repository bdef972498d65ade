"""What holds the data does not show them, and what is written to a file can be read by anybody."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from shuffledp.engine import headcount, read_codes, write_result
from shuffledp.engine.columns import take_column
from shuffledp.engine.values import spell_out
from shuffledp.planner.rows import Row

SECRET = 4242
AGES = sdp.Integers(lower=0, upper=9999)


def test_what_is_as_secret_as_the_data_shows_none_of_them():
    column = take_column({"age": [SECRET] * 3}, "age")
    column = replace(column, beside={"who": ["Ann"] * 3})
    count = headcount(column, AGES)
    held = [
        column,
        count,
        read_codes(column, AGES),
        sdp.engine.CodeCounts(counts=np.array([SECRET]), rows=SECRET, invalid={"missing": SECRET}),
        sdp.questions.open_data({"age": [SECRET] * 3}, "age"),
    ]
    for each in held:
        assert str(SECRET) not in repr(each)
        assert "Ann" not in repr(each)
    assert count.n == 3


def test_columns_are_the_same_by_where_they_come_from():
    one, other = (take_column({"age": [age]}, "age") for age in (1, 2))
    assert one == other  # comparing millions of values is never meant
    row = sdp.plan("count", n=1000, epsilon=1.0, delta=1e-6, models="local").chosen
    assert row.measured is not None
    assert row == replace(row, measured=None)
    assert not {"measured", "newcomer"} & {part.split("=")[0] for part in repr(row).split(", ")}
    assert not Row(protocol="rr", model=row.model).newcomer


@pytest.mark.parametrize("value", [object(), b"x", [1], {}, 1j, range(2)])
def test_a_value_that_is_neither_text_nor_number_is_named(value):
    said = rf"the value at position 1 is of type {type(value).__name__}: neither text nor a number"
    with pytest.raises(sdp.DataError, match=said):
        spell_out([3, value])


RECORD = {
    "task": "histogram",
    "note": "für Ümläute",
    "estimate": [
        {"label": "ä, b", "value": 7.0, "stderr": 1.5, "low": 5.0, "high": 9.0},
        {"label": "c", "value": -0.25, "stderr": 1.5, "low": -2.0, "high": 1.0},
    ],
}
LINES = {
    ".csv": ["label,value,stderr,low,high", '"ä, b",7.0,1.5,5.0,9.0', "c,-0.25,1.5,-2.0,1.0"],
    ".tsv": [
        "label\tvalue\tstderr\tlow\thigh",
        "ä, b\t7.0\t1.5\t5.0\t9.0",
        "c\t-0.25\t1.5\t-2.0\t1.0",
    ],
}


@pytest.mark.parametrize("suffix", [*LINES, ".TSV"])
def test_a_table_has_a_line_for_each_answer(tmp_path, suffix):
    path = write_result(RECORD, tmp_path / f"r{suffix}")
    wanted = LINES[suffix.lower()]
    assert path.read_bytes() == ("\n".join(wanted) + "\n").encode()
    empty = write_result({"estimate": []}, tmp_path / f"e{suffix}")
    assert empty.read_text() == wanted[0] + "\n"


def test_json_and_parquet_hold_everything_that_was_said(tmp_path):
    text = write_result(RECORD, tmp_path / "r.json").read_text(encoding="utf-8")
    assert json.loads(text) == RECORD
    assert "für Ümläute" in text
    assert text.endswith("}\n")
    for path, rows in (("r.parquet", RECORD["estimate"]), ("e.parquet", [])):
        found = pq.read_table(write_result({**RECORD, "estimate": rows}, tmp_path / path))
        assert found.to_pylist() == rows
        assert found.column_names == ["label", "value", "stderr", "low", "high"]
        assert json.loads(found.schema.metadata[b"shuffledp"]) == {**RECORD, "estimate": rows}


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_not_written(tmp_path, suffix, value):
    record = {"estimate": [{"label": "a", "value": value}]}
    with pytest.raises(ValueError, match="JSON compliant"):
        write_result(record, tmp_path / f"r{suffix}")


def test_a_plan_is_json_without_infinities():
    text = sdp.plan("mean", n=1000, epsilon=1.0, delta=1e-6, upper=5, models="local").to_json()
    assert json.loads(text, parse_constant=pytest.fail)["task"] == "mean"


@pytest.mark.parametrize("name", ["r", "r.txt", "r.json.gz", "json"])
def test_a_result_goes_to_a_file_that_says_its_format(tmp_path, name):
    with pytest.raises(sdp.ParameterError, match=r"must end in one of \.json, \.csv, \.tsv, \.par"):
        write_result(RECORD, Path(tmp_path, name))
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_a_column_is_refused_without_quoting_a_value():
    for values, said in (
        (
            np.array([[SECRET, 2], [3, 4], [5, 6]]),
            r"data of shape \(3, 2\) must be one column, of shape \(n,\): choose one, such as data\[:, 0\]",
        ),
        (np.array(SECRET), r"data of shape \(\) must be one column, of shape \(n,\)"),
        (np.array([SECRET + 1j]), r"the values are not one column: \w+"),
    ):
        with pytest.raises(sdp.DataError, match=f"^{said}$"):
            take_column(values)
    with pytest.raises(sdp.DataError, match="int is not a column of values"):
        take_column(SECRET)
    hidden = np.ma.masked_array(np.array([1, SECRET], dtype=object), mask=[False, True])
    assert take_column(hidden).array.to_pylist() == ["1", None]
    typed = np.ma.masked_array([1, SECRET], mask=[False, True])
    assert take_column(typed).array.to_pylist() == [1, None]
