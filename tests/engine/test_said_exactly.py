"""What the engine says and knows, word by word and number by number: before files are read, curators, outputs."""

import datetime
import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import shuffledp as sdp
from file_support import write
from shuffledp.core.domain import PLACE_BITS
from shuffledp.engine import (
    Filter,
    find_engine,
    formats,
    release_column,
    release_counts,
    release_frequencies,
    take_column,
)
from shuffledp.engine.columns import group_sets, open_data, read_arrays, read_chunks
from shuffledp.engine.formats import Format, find_files
from shuffledp.engine.messages import bucket_bits
from shuffledp.engine.output import check_result, stage, write_result
from shuffledp.engine.people import People, looks_like_person, spell_names
from shuffledp.engine.queries import list_own, literal, name_column, read_table
from shuffledp.engine.spelling import Spelling, name_marks
from shuffledp.engine.values import (
    as_arrow,
    find_missing,
    flatten,
    mark,
    measure_moments,
    read_missing,
    spell_out,
    spread,
)
from shuffledp.planner.choice import choose as choose_protocol
from shuffledp.tasks import task_named


class TestKnownBefore:
    """What is known of a file before its rows are read."""

    def test_text(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x;y\n" + "1;aa\n" * 9)
        (file,) = find_files(path)
        size = path.stat().st_size
        assert (file.path, file.where, file.format, file.bytes) == (
            str(path),
            str(path),
            Format.CSV,
            size,
        )
        assert (file.columns, file.types, file.delimiter) == (("x", "y"), ("text", "text"), ";")
        assert (file.rows, file.rows_guess, file.longest) == (None, 9, 1 << 24)
        assert (file.partition, file.place, file.by_line, file.remote) == ((), "", True, False)
        assert (file.type_of("y"), file.type_of("z"), file.has("y"), file.has("z")) == (
            "text",
            "text",
            True,
            False,
        )

    @pytest.mark.parametrize(
        ("name", "text", "columns", "guess"),
        [
            ("a.csv", "x\n1\n2\n", ("x",), 2),
            ("a.tsv", "x,y\tz\n1\t2\n", ("x,y", "z"), 1),
            ("a.jsonl", '{"x": 1}\n\n{"y": 2}\n', ("x", "y"), 3),
            ("a.json", '[{"x": 1}, {"y": 2}]', ("x", "y"), 1),
            ("a.txt", "cat\ndog\n", ("line",), 2),
        ],
    )
    def test_guesses(self, tmp_path, name, text, columns, guess):
        path = tmp_path / name
        path.write_text(text)
        (file,) = find_files(path, Format.LINES)
        assert (file.columns, file.rows_guess) == (columns, guess)
        assert file.by_line == (not name.endswith(".json"))

    def test_a_long_file_is_guessed_from_its_beginning(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("x\n" + "1234567\n" * 400_000)
        (file,) = find_files(path)
        assert abs(file.rows_guess - 400_000) <= 400

    def test_types(self, tmp_path):
        path = write({"x": [1, 2, 3], "y": ["a", "b", "c"]}, tmp_path / "a.parquet")
        (file,) = find_files(path)
        assert (file.columns, file.types, file.rows, file.rows_guess) == (
            ("x", "y"),
            ("int64", "string"),
            3,
            None,
        )
        assert (file.type_of("x"), file.format) == ("int64", Format.PARQUET)

    @pytest.mark.parametrize(
        ("name", "kind", "columns"),
        [("s3://b/a.parquet", Format.PARQUET, ()), ("hdfs://b/a.csv.gz", Format.CSV, ()), ("s3://b/w.txt", Format.LINES, ("line",))],
    )  # fmt: skip
    def test_files_elsewhere(self, name, kind, columns):
        (file,) = find_files(sdp.Files(name, decimal=","), Format.LINES)
        assert (file.path, file.format, file.bytes, file.columns) == (name, kind, 0, columns)
        assert file.types == ("text",) * len(columns)
        assert (file.remote, file.rows, file.spelling.decimal) == (True, None, ",")
        (plain,) = find_files("s3://b/w.txt")
        assert (plain.format, plain.columns) == (Format.CSV, ())

    def test_declared_ways_of_writing(self, tmp_path):
        path = tmp_path / "a.csv"
        path.write_text("a,b,c;d\n1,5,6;2\n")
        assert find_files(sdp.Files(path, decimal=","))[0].columns == ("a,b,c", "d")
        assert find_files(path)[0].delimiter == ","
        (file,) = find_files(sdp.Files(path, delimiter="|", strip="$", dates="dmy"))
        assert (file.delimiter, file.spelling) == ("|", Spelling(strip="$", dates="dmy"))
        assert file.respell(pa.array(["$5", "31.12.2024"])).to_pylist() == ["5", "2024-12-31"]
        numbers = pa.array([1, 2])
        assert file.respell(numbers) is numbers
        assert find_files(path)[0].respell(numbers) is numbers

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("a\rb\r", "its lines end with carriage returns, without line feeds"),
            ("a,a\n1,2\n", "has 2 columns named 'a': rename them"),
            ('"",""\n1,2\n', "has no header line with the names of its columns"),
        ],
    )
    def test_headers_that_are_none(self, tmp_path, text, said):
        (tmp_path / "a.csv").write_bytes(text.encode())
        with pytest.raises(sdp.DataError, match=said):
            find_files(tmp_path / "a.csv")
        (tmp_path / "b.csv").write_text("a,\n1,2\n")
        assert find_files(tmp_path / "b.csv")[0].columns == ("a", "")

    def test_lines_that_may_be_a_table(self, tmp_path):
        path = tmp_path / "a.txt"
        for text, named in (
            ("a,b\nc,d\n", "commas"),
            ("a;b\nc;d\n", "semicolons"),
            ("a|b\nc|d", "bars"),
        ):
            path.write_text(text)
            with pytest.raises(
                sdp.DataError,
                match=f"since all lines have the same number of {named}: name the column",
            ):
                find_files(path, Format.LINES)
        for text in ("a,b\n", "a,b\nc\n", "a,b\nc,d,e\n", "a\nb\n"):
            path.write_text(text)
            assert find_files(path, Format.LINES)[0].columns == ("line",)

    def test_json_of_columns(self, tmp_path):
        path = tmp_path / "a.json"
        path.write_text('{"x": {"0": 1}, "y": {"0": 2}}')
        with pytest.raises(
            sdp.DataError, match="is one JSON object of columns, as pandas writes by default"
        ):
            find_files(path)
        path.write_text('{"x": {"0": 1}, "y": 2}')
        assert find_files(path)[0].columns == ("x", "y")
        path.write_text('[{"x": [1]}, {"x": [2]}]')
        assert find_files(path)[0].columns == ("x",)

    def test_what_a_database_is_asked(self, tmp_path):
        path = tmp_path / "it's.csv"
        path.write_text("x;y\n1;2\n")
        (file,) = find_files(path)
        said = read_table(file)
        assert said.startswith(
            f"read_csv('{str(path).replace(chr(39), chr(39) * 2)}', header=true, auto_detect=false"
        )
        assert "columns={'column0': 'VARCHAR', 'column1': 'VARCHAR'}, delim=';', quote='\"'" in said
        assert "hive_partitioning=false" in said
        assert name_column('a "b" c') == '"a ""b"" c"'
        assert literal("a[1]?.*") == "a[[]1][?].[*]"
        assert list_own(file, ["y", "z", "x"]) == ["y", "x"]

    def test_copies_go_away_without_a_word(self, monkeypatch, capsys, tmp_path):
        import bz2
        import shutil

        path = tmp_path / "a.csv.bz2"
        path.write_bytes(bz2.compress(b"x\n1\n"))
        (file,) = find_files(path)
        assert file.place
        assert file.held.folder.exists()
        assert "held" not in repr(file)
        shutil.rmtree(file.held.folder)
        del file
        assert capsys.readouterr() == ("", "")


class TestColumns:
    def test_in_memory(self):
        column = take_column({"x": [1, 2], "y": ["a", "b"]}, "x", also=["y"])
        assert (column.rows, column.rows_guess, column.type) == (2, 2, "large_string")
        assert column.bytes == column.array.nbytes
        assert (column.text, column.fractional, column.boolean) == (True, True, False)
        assert column.beside["y"].to_pylist() == ["a", "b"]
        typed = take_column(np.array([1.5, 2.5]))
        assert (typed.name, typed.text, typed.fractional) == ("values", False, True)
        whole = take_column(pd.Series([1, 2], name="age"))
        assert (whole.name, whole.text, whole.fractional) == ("age", False, False)
        assert take_column(pd.Series([1, 2], name=5)).name == "values"
        assert take_column(np.array([True])).boolean
        frame = pd.DataFrame({1: [5, 6], 2: [7, 8]})
        assert take_column(frame, 2).array.to_pylist() == [7, 8]
        moments = take_column(np.array(["2024-01-01"], dtype="datetime64[D]"))
        assert not moments.fractional

    @pytest.mark.parametrize(
        ("kind", "fractional"),
        [(pa.int8(), False), (pa.float32(), True), (pa.decimal128(5, 2), True), (pa.date32(), False),
         (pa.timestamp("s"), True), (pa.time32("s"), True), (pa.duration("s"), True), (pa.bool_(), False)],
    )  # fmt: skip
    def test_types_that_allow_for_fractions(self, kind, fractional):
        column = take_column(pa.nulls(2, kind))
        assert (column.fractional, column.text) == (fractional, False)

    def test_what_is_refused(self):
        with pytest.raises(
            sdp.DataError,
            match=r"the table has several columns, choose one of 'x', 'y': give its name, `column`",
        ):
            take_column({"x": [1], "y": [2]})
        many = {f"c{place}": [1] for place in range(21)}
        with pytest.raises(sdp.DataError, match=r"'c19', \.\.\.: give its name"):
            take_column(many)
        del many["c20"]
        with pytest.raises(sdp.DataError, match=r"'c19': give its name"):
            take_column(many)
        with pytest.raises(
            sdp.DataError, match=r"has no column 'xx'; it has 'x', 'y': did you mean 'x'\?$"
        ):
            take_column({"x": [1], "y": [2]}, "xx")
        with pytest.raises(sdp.DataError, match=r"has no column 'zzz'; it has 'x'$"):
            take_column({"x": [1]}, "zzz")
        with pytest.raises(sdp.DataError, match=r"^int is not a column of values$"):
            take_column(3)
        for given, said in (
            ({"where": Filter.read("x > 1")}, "where"),
            ({"people": People.read("x")}, "people"),
        ):
            with pytest.raises(
                sdp.UnsupportedError,
                match=f"the column is already open: pass {said} to open_column",
            ):
                open_data(take_column([1]), **given)
        with pytest.raises(
            sdp.MismatchError, match=r"column 'x' has rows: engine\.reducing makes people of them"
        ):
            next(read_chunks(take_column({"x": [1], "who": [1]}, "x", people=People.read("who"))))

    def test_a_list_of_paths_is_files_and_a_list_of_texts_is_values(self, tmp_path):
        one, two = (write({"x": [place]}, tmp_path / f"{place}.csv") for place in (1, 2))
        assert [file.path for file in open_data([one, two]).files] == [str(one), str(two)]
        assert open_data((one,)).files[0].path == str(one)
        assert open_data(["a.csv", "b.csv"]).array.to_pylist() == ["a.csv", "b.csv"]
        assert open_data(str(one), "x").name == "x"
        assert open_data([]).rows == 0
        assert open_data([one, "x"] and ["a"]).rows == 1

    def test_masked_values_are_missing(self):
        masked = np.ma.MaskedArray([1, 2, 3], [False, True, False])
        assert take_column(masked).array.to_pylist() == [1, None, 3]
        objects = np.ma.MaskedArray(np.array(["a", "b"], dtype=object), [True, False])
        assert take_column(objects).array.to_pylist() == [None, "b"]

    def test_some_rows_at_a_time(self, monkeypatch, tmp_path):
        from shuffledp.engine import columns, queries

        monkeypatch.setattr(columns, "_ROWS", 2)
        found = [*read_chunks(take_column([1, 2, 3, 4, 5]))]
        assert [(each.array.to_pylist(), each.row, each.row_in_file, each.file) for each in found] == [
            (["1", "2"], 0, 0, None), (["3", "4"], 2, 2, None), (["5"], 4, 4, None)]  # fmt: skip
        assert found[1].place_of(1) == 3
        for suffix in ("parquet", "arrow", "csv"):
            path = write({"x": [5, 1, 7, 8, 2], "y": [0, 1, 0, 1, 1]}, tmp_path / f"a.{suffix}")
            column = sdp.open_column([path], "x", where="y = 1")
            got = [
                (int(v), each.place_of(at), each.row + at)
                for each in read_chunks(column)
                for at, v in enumerate(each.array.to_pylist())
            ]
            assert got == [(1, 1, 0), (8, 3, 1), (2, 4, 2)]
        assert queries.ROWS == 1 << 17

    def test_sets_of_columns_in_one_pass(self, tmp_path, monkeypatch):
        from shuffledp.engine import columns

        path = write(
            {"x": [1, 1, 2], "y": ["a", "b", "a"], "z": [0.5, 0.5, 1.5]}, tmp_path / "a.parquet"
        )
        x, y, z = (sdp.open_column(path, name) for name in "xyz")
        for most in (24, 1):
            monkeypatch.setattr(columns, "_SETS", most)
            found = {place: Counter() for place in range(3)}
            for place, values, times in group_sets([(x,), (x, y), (y,)]):
                rows = zip(*(value.to_pylist() for value in values), strict=True)
                found[place].update(dict(zip(rows, times.to_pylist(), strict=True)))
            assert found[0] == {(1,): 2, (2,): 1}
            assert found[1] == {(1, "a"): 1, (1, "b"): 1, (2, "a"): 1}
            assert found[2] == {("a",): 2, ("b",): 1}
        assert group_sets([(x,), (z,)]) is None, "reals are nearly all different"
        other = sdp.open_column(write({"x": [1]}, tmp_path / "b.parquet"), "x")
        assert group_sets([(x,), (other,)]) is None
        assert group_sets([(sdp.open_column(path, "x", where="x > 1"),)]) is None
        (file,) = sdp.open_column("s3://b/a.parquet", "x").files
        with pytest.raises(
            sdp.DataError, match=r"^s3://b/a\.parquet is not on this machine: use the Spark engine$"
        ):
            next(read_arrays(file, ["x"], 1))


class TestCurator:
    """With so large an epsilon there is no noise: what is left is the exact answer, and what is publicly known."""

    def release(self, name, values, *, on_invalid="error", epsilon=200.0, **options):
        column = take_column(values)
        task = task_named(name).declare(options, column).task.fit(len(values), epsilon)
        made = choose_protocol(task, n=len(values), epsilon=100.0, model="central")
        return release_column(
            made, task, column, engine=find_engine("memory"), on_invalid=on_invalid, rng=sdp.SeededWords(1))  # fmt: skip

    @pytest.mark.parametrize(
        ("name", "values", "options", "wanted", "limits"),
        [
            ("count", [1, 0, 1, 1], {}, 3, (0, 4)),
            ("sum", [-2, 5, -1], {"lower": -3, "upper": 6}, 2, (-9, 18)),
            ("mean", [-2, 5, -1, 0], {"lower": -3, "upper": 6}, 0.5, (-3, 6)),
            ("sum", np.array([-2.5, 5.25, -1.0]), {"lower": -3.0, "upper": 6.0}, 1.75, (-9, 18)),
            ("mean", np.array([-2.5, 5.25, -1.0, 0.0]), {"lower": -3.0, "upper": 6.0}, 0.4375, (-3, 6)),
            ("histogram", [0, 2, 2], {"k": 3}, [1, 0, 2], (0, 3)),
            ("median", [1, 2, 9, 9, 9], {"lower": 0, "upper": 9}, [9], None),
        ],
    )  # fmt: skip
    def test_exact(self, name, values, options, wanted, limits):
        found = self.release(name, values, **options)
        assert np.asarray(found.estimate.value) == pytest.approx(
            np.asarray(wanted, dtype=float), abs=0.3
        )
        assert (found.n, found.rows) == (len(values), len(values))
        if limits is not None:
            assert found.estimate.limits == pytest.approx(limits)

    def test_whoever_is_left_out(self):
        found = self.release("sum", ["1", "x", "", "5"], on_invalid="drop", lower=0, upper=9)
        assert (found.n, found.rows, found.invalid["unknown"], found.invalid["null"]) == (
            2,
            4,
            1,
            1,
        )
        assert found.estimate.limits == (0.0, 18.0)
        real = self.release("mean", ["1", "x", "", "5"], on_invalid="drop", lower=0.0, upper=9.0)
        assert (real.n, real.rows, real.invalid["unknown"]) == (2, 4, 1)
        assert real.estimate.value == pytest.approx(3.0, abs=0.3)
        for options in ({"lower": 0, "upper": 9}, {"lower": 0.0, "upper": 9.0}):
            with pytest.raises(sdp.DataError, match="has no valid value; without on_invalid"):
                self.release("sum", ["x", ""], on_invalid="drop", **options)

    def test_names_of_bins(self):
        found = self.release("histogram", ["b", "a", "b"], categories=["a", "b"])
        assert found.estimate.labels == ("a", "b")
        integers = task_named("sum")(domain=sdp.Integers(lower=10, upper=12))
        geometric = sdp.mechanisms.geometric.make(epsilon=100.0, sensitivity=2)
        total = release_counts(geometric, integers, np.array([1, 0, 4]), sdp.SeededWords(1))
        assert (total.value, total.limits) == (58.0, (50.0, 60.0))

    def test_words_the_most_frequent_first(self):
        values = ["cat"] * 300 + ["dog"] * 500 + ["emu"]
        column = take_column(values)
        task = task_named("words").declare({"alphabet": "letters", "max_length": 3}).task
        made = choose_protocol(task, n=801, epsilon=20.0, delta=1e-6, model="central")
        found = release_column(
            made, task, column, engine=find_engine("memory"), rng=sdp.SeededWords(1)
        )
        assert found.estimate.labels == ("dog", "cat")
        assert found.estimate.value == pytest.approx([500, 300], abs=3)
        assert (found.n, found.rows) == (801, 801)

    def test_frequencies_without_values(self):
        pets = take_column(["cat"] * 50 + ["dog"] * 30 + [None] * 20 + ["NA"] * 5)
        found = release_frequencies(pets, epsilon=50.0, rng=sdp.SeededWords(1))
        assert (found.values, found.n, found.level) == ((50, 30, 25), 105, 0.95)
        plain = release_frequencies(pets, epsilon=50.0, missing=[], rng=sdp.SeededWords(1))
        assert plain.values == (50, 30, 20, 5)
        with pytest.raises(sdp.DataError, match="column 'values' has no rows"):
            release_frequencies(take_column([]), epsilon=1.0)
        with pytest.raises(sdp.ParameterError, match="level"):
            release_frequencies(pets, epsilon=1.0, level=1.0)


class TestValues:
    def test_words_for_nothing(self):
        given = pa.array(
            ["NA", "n/a", "<NA>", "#n/a", "nan", "NULL", "None", "", " ", "-", "0", None]
        )
        assert find_missing(given).tolist() == [True] * 9 + [False, False, True]
        assert find_missing(given, ()).tolist() == [False] * 7 + [True, True, False, False, True]
        numbers = pa.array([-9.0, 9.0, math.nan, None])
        assert find_missing(numbers, ("-9", "x")).tolist() == [True, False, True, True]
        assert find_missing(pa.array([-9, 9, None]), ("-9.0", "nan")).tolist() == [
            True,
            False,
            True,
        ]
        assert find_missing(pa.array([True, None])).tolist() == [False, True]
        assert read_missing(" NA ,,-9") == ("NA", "-9")
        assert read_missing(["NA ", ""]) == ("NA",)
        with pytest.raises(
            sdp.ParameterError, match=r"missing=\[-9\] must be a list of texts such as"
        ):
            read_missing([-9])

    def test_moments(self):
        day, moment = datetime.date(1970, 1, 3), datetime.datetime(1970, 1, 2, 12)
        assert measure_moments(pa.array([day]), "days").to_pylist() == [2]
        assert measure_moments(pa.array([day]), "seconds").to_pylist() == [172_800]
        for unit in ("s", "ms", "us", "ns"):
            array = pa.array([moment], pa.timestamp(unit))
            assert measure_moments(array, "seconds").to_pylist() == [129_600.0]
            assert measure_moments(array, "days").to_pylist() == [1]
        texts = pa.array(["1970-01-03", "1970-01-02 12:00:00", "x", None, "1969-12-31 23:00:00"])
        assert measure_moments(texts, "days").to_pylist() == ["2", "1", "x", None, "-1"]
        assert measure_moments(texts, "seconds").to_pylist() == [
            "172800",
            "129600.0",
            "x",
            None,
            "-3600.0",
        ]
        assert measure_moments(pa.array([5]), "days").to_pylist() == [5]

    def test_how_values_without_a_type_are_spelt(self):
        from decimal import Decimal

        given = [
            3, 3.0, 2.5, -0.0, 2.0**53, 1e300, math.inf, True, np.bool_(False), np.int8(4), np.float32(0.5), "x", None,
            math.nan, Decimal("2.50"), Decimal("100"), Decimal("NaN"), Decimal("1E+500"), Decimal("Infinity"),
            datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2, 3), datetime.time(4, 5),
            datetime.timedelta(minutes=1), np.datetime64("2024-01-02T03:00"), np.datetime64("NaT"), pd.NaT, pd.NA,
        ]  # fmt: skip
        assert spell_out(given).to_pylist() == [
            "3", "3", "2.5", "0", "9007199254740992.0", "1e+300", "inf", "true", "false", "4", "0.5", "x", None, None,
            "2.5", "100", None, "1E+500", "Infinity", "2024-01-02", "2024-01-02 03:00:00", "04:05:00", "60.0",
            "2024-01-02 03:00", None, None, None,
        ]  # fmt: skip
        assert spell_out([1, 2]).to_pylist() == ["1", "2"]
        assert spell_out(["a", "b"]).to_pylist() == ["a", "b"]
        with pytest.raises(sdp.DataError, match="the values are not text in Unicode"):
            spell_out(["\ud800"])

    def test_arrays(self):
        assert as_arrow(np.array([1, 2]), np.array([False, False])).null_count == 0
        assert as_arrow(np.array([True] * 9), np.arange(9) == 8).to_pylist() == [True] * 8 + [None]
        assert flatten(pa.nulls(2)).type == pa.string()
        assert flatten(pa.array(["a"], pa.string_view())).type == pa.large_string()
        assert mark(np.array([2, 0], dtype=np.uint8), np.array([True, True]), 4).tolist() == [2, 4]
        assert mark(None, np.array([True, False]), 3).tolist() == [3, 0]
        given = np.array([1, 0], dtype=np.uint8)
        mark(given, np.array([True, True]), 4)
        assert given.tolist() == [1, 0], "what was given stays"
        found = spread(pa.array([1, None, 0]), np.array([7, 8]), np.array([0, 2], dtype=np.uint8))
        assert (found.values[[0, 2]].tolist(), found.faults.tolist()) == ([8, 7], [2, 1, 0])
        assert spread(pa.array([0]), np.array([7]), np.zeros(1, np.uint8)).faults is None
        nobody = spread(pa.array([None], pa.int32()), np.zeros(0, np.int64), np.zeros(0, np.uint8))
        assert (nobody.values.tolist(), nobody.faults.tolist()) == ([0], [1])

    def test_names_of_people(self):
        assert spell_names(pa.array([1.0, 2.5, None, 2.0**53, 1e300])).to_pylist()[:3] == [
            "1",
            "2.5",
            None,
        ]
        assert spell_names(pa.array([" a ", "007", "7.0", "7.00", "7.5"])).to_pylist() == [
            "a",
            "007",
            "7",
            "7",
            "7.5",
        ]
        assert spell_names(pa.array([7, 12345678901])).to_pylist() == ["7", "12345678901"]
        names = ["user_id", "id", "width", "passport_no", "Kid", "EMail", "e-mail", "username2"]
        assert looks_like_person(names) == ["user_id", "id", "passport_no", "EMail", "e-mail"]

    def test_spelling(self):
        texts = ["1.234,5", "1 234", "12,5", "1.23", "-1.234.567,8", "1.2345", "0,5e-3", "x"]
        assert Spelling(decimal=",").respell(pa.array(texts)).to_pylist() == [
            "1234.5", "1234", "12.5", "1.23", "-1234567.8", "1.2345", "0.5e-3", "x"]  # fmt: skip
        assert Spelling(dates="mdy").respell(pa.array(["12/31/2024", "1/2/2024 08:30", "x"])).to_pylist() == [
            "2024-12-31", "2024-01-02 08:30", "x"]  # fmt: skip
        assert Spelling(strip="$,").respell(
            pa.array(["$1,234.5", "a$b", "$", "1e5$"])
        ).to_pylist() == ["1234.5", "a$b", "$", "1e5"]
        assert [name_marks(text) for text in ("$1,234.50", "1,5", "1 234", "5", "12 %")] == [
            "$,",
            "",
            " ",
            "",
            "%",
        ]
        assert Spelling().plain
        assert not Spelling(strip="$").plain
        for wrong, said in (({"decimal": "x"}, "decimal='x' must be a point or a comma"), ({"dates": "xyz"}, "dates='xyz' must be one of iso, ymd, dmy, mdy"),
                            ({"strip": "1"}, "must have no digits"), ({"strip": "+"}, "must have no digits"), ({"strip": ","}, None),
                            ({"strip": ",", "decimal": ","}, "must have no digits"), ({"strip": ".", "decimal": ","}, None)):  # fmt: skip
            if said is None:
                assert Spelling(**wrong).strip
            else:
                with pytest.raises(sdp.ParameterError, match=said):
                    Spelling(**wrong)


class TestOutputs:
    @pytest.mark.parametrize(
        ("messages", "size", "bits"),
        [(1, 8, 0), (1 << 22, 8, 0), ((1 << 22) + 1, 8, 1), (1 << 23, 8, 1), ((1 << 23) + 1, 8, 2), (1 << 20, 64, 0),
         ((1 << 20) + 1, 64, 1), (1e15, 8, 9), (1 << 31, 1, 9), ((1 << 30) + 1, 1, 9), (1 << 30, 1, 8)],
    )  # fmt: skip
    def test_in_how_many_files_messages_are_spooled(self, messages, size, bits):
        assert bucket_bits(messages, size) == bits

    def test_results(self, tmp_path):
        for name, said in (("a.PARQUET", ".parquet"), ("a.Csv", ".csv")):
            from pathlib import Path

            assert check_result(Path(name)) == said
        with pytest.raises(
            sdp.ParameterError,
            match=r"out='a\.txt' must end in one of \.json, \.csv, \.tsv, \.parquet",
        ):
            check_result(Path("a.txt"))
        record = {"estimate": [{"label": "ä", "value": 1.5}], "n": 3}
        assert write_result(record, tmp_path / "a.tsv").read_text() == "label\tvalue\nä\t1.5\n"
        text = write_result(record, tmp_path / "a.json").read_text()
        assert text == json.dumps(record, ensure_ascii=False) + "\n"
        nothing = write_result({"estimate": []}, tmp_path / "b.csv").read_text()
        assert nothing.startswith("label,value,stderr,low,high")
        with pytest.raises(ValueError, match="JSON"):
            write_result({"estimate": [], "x": math.nan}, tmp_path / "c.json")

    @pytest.mark.parametrize("links", [True, False])
    def test_a_link_that_is_replaced_comes_back_as_a_link(self, tmp_path, monkeypatch, links):
        from shuffledp.engine import output

        (tmp_path / "real").write_text("old")
        link, other = tmp_path / "link", tmp_path / "other"
        link.symlink_to(tmp_path / "real")
        if not links:

            def refuse(*_, **__):
                raise OSError(1, "no links here")

            monkeypatch.setattr(output.os, "link", refuse)
        with stage([link, other], force=True) as outputs:
            outputs.write(link, lambda place: place.write_text("new"))
            with pytest.raises(FileNotFoundError):
                outputs.publish()
        assert link.is_symlink()
        assert (tmp_path / "real").read_text() == "old"


def test_fractions_are_exact():
    """A sum of very many places is added up in integers."""
    values = np.array([0.1, 0.7, 0.3])
    column = take_column(values)
    task = task_named("sum").declare({"lower": 0.0, "upper": 1.0}, column).task.fit(3, 1.0)
    seen = []

    class Exact:
        def release(self, exact, rng):
            seen.append(exact)
            return sdp.Estimate(value=float(exact), error=None, limits=(0.0, 3.0))

    release_column(Exact(), task, column, engine=find_engine("memory"))
    assert isinstance(seen[0], Fraction)
    assert abs(seen[0] - Fraction("1.1")) < Fraction(3, 1 << PLACE_BITS)
    assert pc.sum(column.array).as_py() == pytest.approx(1.1)


def test_the_longest_line_is_bounded_without_reading_all_of_it(tmp_path, monkeypatch):
    """With blocks of eight bytes: a line that is longer than usual fills one of them."""
    monkeypatch.setattr(formats, "_LONGEST_LINE", 16)
    monkeypatch.setattr(formats, "_HUGEST_LINE", 64)
    path = tmp_path / "lines.csv"
    for end in (b"\n", b"\r", b"\r\n"):
        for length in range(56):
            path.write_bytes(b"a" * length + end + b"b" * 5 + end)
            assert formats._bound_lines(path) == max(16, 8 * (length // 8 + 2)) > length
        path.write_bytes(b"b" + end + b"a" * 64 + end)
        with pytest.raises(sdp.DataError) as told:
            formats._bound_lines(path)
        assert str(told.value) == f"{path} has a line of more than 0 megabytes"
    path.write_bytes(b"\n".join(b"a" * 15 for _ in range(20)))
    assert formats._bound_lines(path) == 32
    path.write_bytes(20 * b"aaaaaa\n")
    assert formats._bound_lines(path) == 16


@pytest.mark.parametrize(
    ("header", "mark"),
    [
        ("a,b,c;d", ","),
        ("a;b;c,d", ";"),
        ("a,b|c|d", "|"),
        ("a\tb\tc,d", "\t"),
        ('"a,b,c";d', ";"),
        ("a", ","),
        ("", ","),
    ],
)
def test_of_several_marks_the_one_that_the_header_has_most_of(header, mark):
    assert formats._find_delimiter(header) == mark
    assert formats._find_delimiter(header, "|") == ("|" if "|" in header else mark)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("a,b;c", "commas as semicolons"),
        ("a|b\tc", "tabs as bars"),
        ("a;b,c|d", "commas as semicolons as bars"),
    ],
)
def test_a_header_with_as_many_marks_of_two_kinds_is_refused(header, said, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n1,2;3\n")
    with pytest.raises(sdp.DataError) as told:
        find_files(path)
    wanted = f"{path} cannot be read: its header has as many {said}: declare the `delimiter`"
    assert str(told.value) == wanted
    assert find_files(sdp.Files(path, delimiter=header[1]))[0].delimiter == header[1]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_only_lines_of_json_are_copied_for_their_byte_order_mark(tmp_path, name):
    text = {"a.csv": "x\n5\n", "a.jsonl": '{"x": 5}\n'}[name]
    (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
    (file,) = find_files(tmp_path / name)
    assert (file.columns, file.held is None) == (("x",), name == "a.csv")
    (tmp_path / name).write_text(text)
    assert find_files(tmp_path / name)[0].held is None


def test_counts_are_whole_numbers_of_somebody():
    made = sdp.protocols.krr.make_local(k=3, epsilon=5.0)
    for good in ([0, 1, 0], np.array([5, 0, 2], dtype=np.uint8)):
        assert sdp.engine.run_counts(made, good, sdp.SeededWords(1)).limits == (0.0, sum(good))
    for bad in ([0, 0, 0], [2, -1, 1], [1.0, 2.0, 3.0]):
        with pytest.raises(sdp.DataError) as told:
            sdp.engine.run_counts(made, bad, sdp.SeededWords(1))
        assert str(told.value) == "counts must be integers >= 0, and not all 0"
    with pytest.raises(sdp.ShuffledpError) as told:
        sdp.engine.run_counts(made, [1, 2], sdp.SeededWords(1))
    assert str(told.value) == "counts of shape (2,) for a domain of 3 values"


def test_the_frequencies_of_a_single_row():
    found = release_frequencies(take_column(["cat"]), epsilon=50.0, rng=sdp.SeededWords(1))
    assert (found.n, found.values) == (1, (1,))
    with pytest.raises(sdp.DataError, match="has no rows"):
        release_frequencies(take_column([]), epsilon=50.0, rng=sdp.SeededWords(1))
