"""Awkward columns, as data scientists have them: answered rightly, or refused with a sentence; never a traceback."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp

WHOLE = {"lower": 0, "upper": 5}


def ask(data, task, **options):
    """With hardly any noise."""
    given = {"epsilon": 60, "model": "central", "on_invalid": "drop", "rng": sdp.SeededWords(1)}
    return sdp.ask(data, task, **{**given, **options})


def counts(data, task="histogram", **options):
    return np.rint(ask(data, task, **options).estimate.value).tolist()


class TestWholeNumbersAmongReals:
    """Integers with gaps, which pandas turns into reals."""

    TABLE = pd.DataFrame({"x": [1.0, 2.0, np.nan, 3.0] * 50})

    def test_the_people_at_a_point_are_counted(self):
        found = ask(self.TABLE, "cdf", column="x", at=[1, 2, 3], **WHOLE)
        np.testing.assert_allclose(found.estimate.value, [1 / 3, 2 / 3, 1], atol=0.01)

    def test_the_interval_at_an_edge_is_no_wider_than_the_noise(self):
        found = ask(self.TABLE, "cdf", column="x", at=[2], **WHOLE).estimate
        low, high = found.interval(0.95)
        assert high - low < 0.1

    def test_ranges_hold_both_ends_somewhere_in_the_interval(self):
        found = ask(self.TABLE, "range", column="x", at=[2, 3], **WHOLE).estimate
        low, high = found.interval(0.95)
        assert low <= 100 <= high

    def test_the_answer_says_how_to_do_better(self):
        answer = ask(self.TABLE, "range", column="x", at=[2, 3], **WHOLE)
        assert any("convert it to integers (Int64)" in note for note in answer.notes)
        better = ask(self.TABLE.astype("Int64"), "range", column="x", at=[2, 3], **WHOLE)
        assert round(better.estimate.value) == 100
        assert not any("Int64" in note for note in better.notes)


def test_points_between_edges_and_ends_of_cells():
    """Everybody at the lower end, or at the upper one, is where they say."""
    for value, shares in ((0.0, [1, 1, 1]), (1.0, [0, 0, 1])):
        found = ask([value] * 100, "cdf", lower=0.0, upper=1.0, steps=4, at=[0.25, 0.5, 1.0])
        np.testing.assert_allclose(found.estimate.value, shares, atol=0.02)


@pytest.mark.parametrize("kind", ["arrow", "pandas", "parquet"])
def test_decimals_are_the_numbers_that_they_spell(kind, tmp_path):
    cells = pa.array([Decimal("1.25"), Decimal("2.50"), Decimal("3.00")] * 10, pa.decimal128(10, 2))
    table = pa.table({"x": cells})
    data = {"arrow": table, "pandas": table.to_pandas(), "parquet": tmp_path / "x.parquet"}[kind]
    pq.write_table(table, tmp_path / "x.parquet")
    assert counts(data, column="x", categories=["1.25", "2.5", "3"]) == [10, 10, 10]
    if kind != "pandas":  # its objects have no declared scale
        assert counts(data, column="x", categories=["1.25", "2.50", "3.00"]) == [10, 10, 10]


def test_moments_with_a_zone_are_spelt_in_utc(tmp_path):
    """Whatever zone they are shown in: engines do not agree on that."""
    table = pd.DataFrame({"t": pd.to_datetime(["2024-01-01 00:00", "2024-01-02 19:00"] * 10)})
    table["t"] = table["t"].dt.tz_localize("America/New_York")
    table.to_parquet(tmp_path / "t.parquet")
    for data in (table, tmp_path / "t.parquet"):
        for names in (
            ["2024-01-01 05:00:00Z", "2024-01-03"],
            ["2024-01-01T05:00:00Z", "2024-01-03"],
        ):
            assert counts(data, column="t", categories=names) == [10, 10]


class TestTables:
    def test_two_columns_of_the_same_name(self, tmp_path):
        several = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
        pq.write_table(several, tmp_path / "a.parquet")
        frame = pd.DataFrame([[1, 2]] * 5, columns=["a", "a"])
        for data in (several, frame, tmp_path / "a.parquet"):
            with pytest.raises(sdp.DataError, match="has 2 columns named"):
                ask(data, "mean", column="a", **WHOLE)

    def test_columns_that_pandas_numbers(self):
        frame = pd.DataFrame({0: [1, 3] * 50, 1: [0, 1] * 50})
        for column in (0, "0"):
            assert abs(ask(frame, "mean", column=column, **WHOLE).estimate.value - 2) < 0.1
        only = ask(frame, "mean", column="0", where='"1" = 1', **WHOLE)
        assert abs(only.estimate.value - 3) < 0.1

    def test_a_lazy_frame_of_polars(self):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame({"x": [1, 3] * 50}).lazy()
        assert abs(ask(frame, "mean", column="x", **WHOLE).estimate.value - 2) < 0.1


@pytest.mark.parametrize(
    "values",
    [
        pa.array([[("a", 1)]] * 5, pa.map_(pa.string(), pa.int64())),
        pa.array([{"age": 1}] * 5),
        pa.array([[1, 2]] * 5),
        pd.Series(pd.period_range("2024-01", periods=5, freq="M")),
    ],
    ids=["map", "struct", "list", "period"],
)
def test_nested_values_are_refused(values):
    for task, options in (
        ("histogram", {"categories": ["a", "b"]}),
        ("mean", WHOLE),
        ("count", {}),
        ("words", {"alphabet": "letters", "max_length": 4, "delta": 1e-6}),
    ):
        with pytest.raises(sdp.DataError, match=r"but the column holds values of type"):
            ask(values, task, **options)


def test_values_of_several_types_are_read_one_by_one():
    """None of them decides what the others are."""
    values = [1, "2", 3.0, Decimal("2.00"), np.int16(2), True, None, "a", 10**20]
    for data in (values, pd.Series(values, dtype=object), np.array(values, dtype=object)):
        found = sdp.headcount(sdp.engine.take_column(data), sdp.Integers(lower=0, upper=9), "drop")
        assert found.n == 6
        assert found.invalid == {"null": 1, "unknown": 1, "out_of_range": 1, "nan": 0}


def test_values_of_several_types_as_text():
    mixed = pd.Series([1, "2", 3.0, "a", None] * 10).astype("string")
    assert abs(ask(mixed, "mean", **WHOLE).estimate.value - 2) < 0.1


def test_carriage_returns_alone(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"way,age\rcar,1\rbus,3\r")
    with pytest.raises(sdp.DataError, match="its lines end with carriage returns, without"):
        ask(path, "mean", column="age", **WHOLE)


def test_a_line_ends_with_a_line_feed_and_with_nothing_else(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("way\u2028out,age\nf\x0coot,1\nbus,3\n")
    assert sdp.open_column(path, "way\u2028out").categories() == ("bus", "f\x0coot")
    assert abs(ask(path, "mean", column="age", **WHOLE).estimate.value - 2) < 1


def test_numbers_too_near_each_other_for_floats(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n" + "".join(f"{10**18 + i}\n" for i in range(9)))
    with pytest.raises(
        sdp.ParameterError, match=r"upper=\d+ must be farther from lower=\d+: floating"
    ):
        ask(path, "mean", column="x", lower=10**18, upper=10**18 + 100)
