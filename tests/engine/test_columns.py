"""Files in: what is known before reading, and one clear sentence for everything that is wrong."""

import gzip
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from file_support import SUFFIXES, N, people, write
from shuffledp.engine.columns import read_chunks, take_column
from shuffledp.engine.formats import Format

AGES = sdp.Integers(lower=0, upper=120)


def read(path, column, domain=AGES, on_invalid="error"):
    return sdp.headcount(sdp.open_column(path, column), domain, on_invalid)


@pytest.mark.parametrize("suffix", SUFFIXES)
class TestEveryFormat:
    def test_what_is_known_before_reading(self, folder, suffix):
        path = folder / f"people.{suffix}"
        column = sdp.open_column(path, "age")
        typed = suffix in ("parquet", "arrow", "feather")
        assert column.rows == (N if typed else None)
        assert column.type == ("int64" if typed else "text")
        assert column.bytes == path.stat().st_size
        if suffix.endswith("gz"):
            assert column.rows_guess is None
        else:
            assert abs(column.rows_guess - N) <= 0.05 * N

    def test_missing_column(self, folder, suffix):
        with pytest.raises(
            sdp.DataError, match="has no column 'wage'; it has 'country', 'age', 's"
        ):
            sdp.open_column(folder / f"people.{suffix}", "wage")
        with pytest.raises(sdp.DataError, match="did you mean 'country'"):
            sdp.open_column(folder / f"people.{suffix}", "contry")

    def test_a_column_must_be_chosen(self, folder, suffix):
        with pytest.raises(sdp.DataError, match="has several columns, choose one of 'country', "):
            sdp.open_column(folder / f"people.{suffix}")

    def test_one_column_needs_no_name(self, suffix, tmp_path):
        path = write({"only": [1, 2, 3]}, tmp_path / f"a.{suffix}")
        column = sdp.open_column(path)
        assert column.name == "only"
        assert sdp.headcount(column, AGES).n == 3

    def test_empty_file(self, suffix, tmp_path):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(b"")
        with pytest.raises(sdp.DataError, match=rf"a\.{suffix} is empty"):
            sdp.open_column(path, "age")

    def test_no_rows(self, suffix, tmp_path):
        table = {"age": [1]} if suffix.startswith(("json", "nd")) else {"age": []}
        path = write(table, tmp_path / f"a.{suffix}")
        if table["age"]:
            path.write_bytes(gzip.compress(b"\n") if suffix.endswith("gz") else b"\n")
        with pytest.raises(sdp.DataError, match=r"has no valid value|has no column|has no rows"):
            read(path, "age")

    def test_truncated(self, suffix, tmp_path, folder):
        whole = (folder / f"people.{suffix}").read_bytes()
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(whole[: len(whole) // 2])
        if suffix in ("csv", "tsv"):  # which may end anywhere, but here within a row
            path.write_bytes(whole[: whole.rindex(b"\n", 0, len(whole) // 2) + 3])
        with pytest.raises(sdp.DataError, match=rf"a\.{suffix} cannot be read: "):
            read(path, "age")

    def test_not_what_the_suffix_says(self, suffix, tmp_path):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(bytes(range(256)) * 10)
        with pytest.raises(sdp.DataError, match=rf"a\.{suffix} (cannot be read: |has )"):
            read(path, "age")

    def test_mixed_types(self, suffix, tmp_path):
        path = write({"age": [1, 2.0, 3.5]}, tmp_path / f"a.{suffix}")
        column = sdp.open_column(path, "age")
        assert column.fractional
        engine = sdp.engine.find_engine("duckdb")
        job = sdp.engine.Job(column=column, coder=sdp.engine.Coder(domain=AGES, on_invalid="error"))
        with pytest.raises(sdp.DataError, match=r"3\.5'? in row 3 of .* is not an integer"):
            engine.headcount(job)
        with pytest.raises(sdp.DataError, match=r"3\.5.* on_invalid does not leave out fractions"):
            sdp.headcount(column, AGES, "drop")


class TestPaths:
    def test_missing_file(self, tmp_path):
        with pytest.raises(sdp.DataError, match=r"there is no file .*nobody\.csv"):
            sdp.open_column(tmp_path / "nobody.csv", "age")

    def test_pattern_without_a_match(self, tmp_path):
        with pytest.raises(sdp.DataError, match=r"no file matches .*\*\.csv"):
            sdp.open_column(str(tmp_path / "*.csv"), "age")

    def test_unknown_suffix(self, tmp_path):
        path = tmp_path / "people.xlsx"
        path.write_bytes(b"PK")
        with pytest.raises(
            sdp.ParameterError, match=r"must end in one of \.csv, \.tsv, \.txt, \.parquet"
        ):
            sdp.open_column(path, "age")
        with pytest.raises(sdp.ParameterError, match="must end in"):
            Format.of("people.parquet.gz")

    def test_folder(self, tmp_path):
        (tmp_path / "people.csv").mkdir()
        with pytest.raises(sdp.DataError, match="is a folder without files"):
            sdp.open_column(tmp_path / "people.csv", "age")

    def test_no_paths(self):
        with pytest.raises(sdp.ParameterError, match="at least one file"):
            sdp.open_column([], "age")

    def test_several_files_in_order(self, tmp_path):
        for number, suffix in enumerate(("parquet", "csv", "jsonl")):
            write({"age": [number] * (number + 1)}, tmp_path / f"part{number}.{suffix}")
        column = sdp.open_column(str(tmp_path / "part*"), "age")
        assert [file.format.value for file in column.files] == ["parquet", "csv", "jsonl"]
        assert sdp.headcount(column, AGES).n == 6
        assert column.type == "int64 or text"
        listed = sdp.open_column([tmp_path / "part2.jsonl", tmp_path / "part0.parquet"], "age")
        assert [file.format.value for file in listed.files] == ["jsonl", "parquet"]

    def test_a_later_file_without_the_column(self, tmp_path):
        write({"age": [1]}, tmp_path / "a.csv")
        write({"wage": [1]}, tmp_path / "b.csv")
        with pytest.raises(sdp.DataError, match=r"b\.csv has no column 'age'; it has 'wage'"):
            sdp.open_column(str(tmp_path / "*.csv"), "age")

    @pytest.mark.parametrize("suffix", ["txt", "TXT.gz", "txt.bz2", "txt.zst"])
    @pytest.mark.parametrize("engine", ["duckdb", "memory"])
    def test_lines_of_a_text(self, tmp_path, suffix, engine):
        """No header, no delimiter, no quotes; an empty line is a null, and the last line needs no end."""
        path = tmp_path / f"words.{suffix}"
        pack(path, '\ufeffcat\r\n"dog, big"\r\n\r\ncat\r\n"'.encode())
        column = sdp.open_column(path)
        assert (column.name, column.type) == ("line", "text")
        words = sdp.Categories(k=3, names=("cat", '"dog, big"', '"'))
        found = sdp.headcount(column, words, "drop", engine=engine)
        assert (found.n, found.rows, found.invalid["null"]) == (4, 5, 1)
        with pytest.raises(sdp.DataError, match="in row 3"):
            sdp.headcount(column, words, engine=engine)

    def test_a_text_with_a_header_needs_the_name_of_its_column(self, tmp_path):
        path = tmp_path / "people.txt"
        path.write_text("pet\tage\ncat\t4\ndog\t5\n")
        assert read(path, "age").n == 2
        with pytest.raises(sdp.DataError, match=r"may be a table, since all lines .* tabs: name"):
            sdp.open_column(path)
        path.write_text("pet\ncat\n")
        assert sdp.open_column(path).categories() == ("cat", "pet")
        assert sdp.open_column(path, "pet").categories() == ("cat",)
        (tmp_path / "more.csv").write_text("pet\ncat\n")
        with pytest.raises(sdp.ParameterError, match=r"must be named: .*more\.csv has columns"):
            sdp.open_column([path, tmp_path / "more.csv"])
        with pytest.raises(sdp.DataError, match="without groups: name the column"):
            sdp.ask(path, "count", by="pet", groups=["cat", "dog"], epsilon=1, delta=1e-6)
        assert sdp.open_column("s3://bucket/words.txt").name == "line"

    @pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
    def test_names_that_look_like_patterns(self, tmp_path, suffix):
        write({"age": [1]}, tmp_path / f"a[1]*.{suffix}")
        write({"age": [1, 2]}, tmp_path / f"a1x.{suffix}")
        assert read(tmp_path / f"a[1]*.{suffix}", "age").n == 1

    def test_remote_files_are_for_spark(self):
        column = sdp.open_column("s3://bucket/people.parquet", "age")
        assert all(file.remote for file in column.files)
        assert column.rows is None
        with pytest.raises(sdp.DataError, match="not on this machine: use the Spark engine"):
            sdp.headcount(column, AGES)
        with pytest.raises(sdp.ParameterError, match="must be named"):
            sdp.open_column("s3://bucket/people.parquet")


class TestCSV:
    def text(self, tmp_path, content):
        path = tmp_path / "a.csv"
        path.write_bytes(content.encode())
        return path

    @pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
    def test_delimiter_from_the_header(self, tmp_path, mark):
        path = self.text(tmp_path, f'name{mark}age\n"a{mark}b"{mark}7\n')
        assert read(path, "age").n == 1
        names = sdp.Categories(k=2, names=(f"a{mark}b", "c"))
        assert read(path, "name", names).n == 1

    def test_quotes_line_breaks_and_a_byte_order_mark(self, tmp_path):
        path = self.text(tmp_path, '\ufeff"na""me","age"\r\n"a\r\nb",7\r\n"say ""hi""",8\r\n')
        column = sdp.open_column(path, 'na"me')
        assert sdp.categories_of(column) == ("a\r\nb", 'say "hi"')
        assert read(path, "age").n == 2

    def test_empty_fields_are_nulls(self, tmp_path):
        path = self.text(tmp_path, 'age,x\n1,x\n,x\n"",x\n')
        assert read(path, "age", on_invalid="drop").invalid["null"] == 2

    def test_ragged_rows_are_refused_without_quoting_them(self, tmp_path):
        path = self.text(tmp_path, "name,age\nanna,7\nsecret\n")
        with pytest.raises(
            sdp.DataError,
            match=r"cannot be read: line 3 does not have the 2 fields of the header, but 1$",
        ) as caught:
            read(path, "age")
        assert "secret" not in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("header", ["", ",,"])
    def test_no_header(self, tmp_path, header):
        with pytest.raises(sdp.DataError, match="has no header line"):
            sdp.open_column(self.text(tmp_path, f"{header}\n1,2,3\n"), "age")

    def test_columns_of_the_same_name(self, tmp_path):
        with pytest.raises(sdp.DataError, match="has 2 columns named"):
            sdp.open_column(self.text(tmp_path, "age,age\n1,2\n"), "age")

    def test_a_label_of_ten_megabytes(self, tmp_path):
        label = "x" * 10_000_000
        path = self.text(tmp_path, f"name,age\n{label},7\nb,8\n")
        names = sdp.Categories(k=2, names=(label, "b"))
        assert read(path, "name", names).n == 2
        with pytest.raises(
            sdp.DataError, match=r"in row 1 of .* is none of the categories"
        ) as caught:
            read(path, "name", sdp.Categories(k=2, names=("a", "b")))
        assert len(str(caught.value)) < 500

    def test_a_line_that_is_too_long(self, tmp_path, monkeypatch):
        path = self.text(tmp_path, f"name,age\n{'x' * 20_000_000},7\n")
        assert read(path, "age").n == 1
        monkeypatch.setattr("shuffledp.engine.formats._HUGEST_LINE", 1 << 24)
        with pytest.raises(sdp.DataError, match="a line of more than 16 megabytes") as caught:
            read(path, "age")
        assert len(str(caught.value)) < 500


class TestJSONLines:
    def test_absent_keys_are_nulls_and_every_type_has_a_text(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text('{"x": 1}\n{"y": 2}\n{"x": "2"}\n{"x": null}\n{"x": true}\n{"x": "a"}\n')
        found = read(path, "x", on_invalid="drop")
        assert found.n == 3
        assert found.invalid == {"null": 2, "unknown": 1, "out_of_range": 0, "nan": 0}

    def test_broken_line(self, tmp_path):
        path = tmp_path / "a.jsonl"
        path.write_text('{"x": 1}\n{"x": \n')
        with pytest.raises(sdp.DataError, match="cannot be read: "):
            read(path, "x")


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv", "jsonl"])
@pytest.mark.parametrize("name", ["a.b", 'a"b', "select", "日本 語", "Age", "`a`", "a'b", "*", "1"])
def test_any_name_of_a_column(tmp_path, name, suffix):
    path = write({"age": [500, 500], name: [3, 4]}, tmp_path / f"a.{suffix}")
    column = sdp.open_column(path, name)
    assert sdp.headcount(column, AGES, "drop").n == 2
    assert sdp.categories_of(column) == ("3", "4")


def test_unsupported_types(tmp_path):
    table = pa.table({"raw": pa.array([b"1"]), "many": pa.array([[1]])})
    pq.write_table(table, tmp_path / "a.parquet")
    for name in ("raw", "many"):
        with pytest.raises(sdp.DataError, match=r"a\.parquet: the domain wants integers, but"):
            read(tmp_path / "a.parquet", name, on_invalid="drop")


def test_python_variables_are_not_tables(tmp_path):
    """DuckDB would look for a table of that name among the variables of its caller."""
    from shuffledp.engine.queries import connect

    secret = pa.table({"x": [1]})
    with connect() as connection, pytest.raises(Exception, match="secret does not exist"):
        connection.sql("select * from secret").fetchall()
    assert len(secret) == 1


def test_categories_of_the_data(folder, tmp_path):
    for suffix in SUFFIXES:
        found = sdp.categories_of(sdp.open_column(folder / f"people.{suffix}", "country"))
        assert found == tuple(sorted({*people()["country"]}))
    path = write({"x": [3, None, 10, 3]}, tmp_path / "a.parquet")
    assert sdp.categories_of(sdp.open_column(path)) == ("10", "3")


def values(column):
    return [value for chunk in read_chunks(column) for value in chunk.array.to_pylist()]


ROWS = b"x,y\n1,a\n2,b\n"


class TestOtherFiles:
    """Suffixes and compressions that other tools write."""

    @pytest.mark.parametrize("suffix", ["txt", "csv.zst", "csv.bz2", "txt.gz", "tsv.bz2"])
    def test_text(self, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        pack(path, ROWS.replace(b",", b"\t") if "tsv" in suffix else ROWS)
        column = sdp.open_column(path, "y")
        assert values(column) == ["a", "b"]
        assert column.categories() == ("a", "b")
        assert column.files[0].path == str(path), "not that of a copy"

    @pytest.mark.parametrize(
        "text",
        [
            '{"x": 1}\n{"x": 2.5}\n{"y": 3}\n',
            '[{"x": 1}, {"x": 2.5}, {"y": 3}]',
            '[\n {\n  "x": 1\n },\n {"x": 2.5}, {"y": [1, {"x": 7}]}\n]\n',
        ],
    )
    @pytest.mark.parametrize("suffix", ["json", "json.gz", "json.zst", "json.bz2"])
    def test_json(self, tmp_path, text, suffix):
        pack(tmp_path / f"a.{suffix}", text.encode())
        column = sdp.open_column(tmp_path / f"a.{suffix}", "x")
        assert values(column) == ["1", "2.5", None]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
    @pytest.mark.parametrize("suffix", ["csv", "txt.gz", "csv.bz2"])
    def test_spreadsheets(self, tmp_path, encoding, suffix):
        """They write UTF-16 with a mark, and tabs."""
        text = "x\ty\r\ngröße\t1\r\n東京\t2\r\n"
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        pack(tmp_path / f"a.{suffix}", (mark + text).encode(encoding))
        assert values(sdp.open_column(tmp_path / f"a.{suffix}", "x")) == ["größe", "東京"]

    def test_other_encodings_are_one_sentence(self, tmp_path):
        (tmp_path / "a.csv").write_bytes("x,y\ngröße,1\n".encode("cp1252"))
        said = r"a\.csv cannot be read: it is not text in UTF-8; `encoding` declares another"
        with pytest.raises(sdp.DataError, match=said):
            sdp.open_column(tmp_path / "a.csv", "x")
        declared = sdp.Files(tmp_path / "a.csv", encoding="cp1252")
        assert values(sdp.open_column(declared, "x")) == ["größe"]
        wrong = sdp.Files(tmp_path / "a.csv", encoding="ascii")
        with pytest.raises(sdp.DataError, match="it is not text in UTF-8"):
            sdp.open_column(wrong, "x")
        wrong = sdp.Files(tmp_path / "a.csv", encoding="shift-jis")
        with pytest.raises(sdp.DataError, match="it is not text in shift-jis"):
            sdp.open_column(wrong, "x")

    @pytest.mark.parametrize("mark", [";", "^", "\t", "tab", "\\t", "|", ","])
    def test_delimiters(self, tmp_path, mark):
        char = "\t" if "t" in mark else mark
        (tmp_path / "a.csv").write_text(f'"x{char}y"{char}z\n"1{char}2"{char}3\n')
        files = sdp.Files(tmp_path / "a.csv", delimiter=mark)
        assert values(sdp.open_column(files, f"x{char}y")) == [f"1{char}2"]
        assert values(sdp.open_column(files, "z")) == ["3"]

    def test_tabs_and_lines_in_quotes(self, tmp_path):
        text = '"name,\nfirst"\tage, years\tnote\n"Ada, A."\t36\t"one\ntwo"\nBob\t41\tthree\n'
        (tmp_path / "a.tsv").write_text(text)
        assert values(sdp.open_column(tmp_path / "a.tsv", "age, years")) == ["36", "41"]
        assert values(sdp.open_column(tmp_path / "a.tsv", "note")) == ["one\ntwo", "three"]
        assert values(sdp.open_column(tmp_path / "a.tsv", "name,\nfirst")) == ["Ada, A.", "Bob"]

    @pytest.mark.parametrize("engine", ["duckdb", "memory"])
    @pytest.mark.parametrize("where", [None, "rent <= 1500.5"])
    def test_decimal_commas(self, tmp_path, engine, where):
        """The answer is that of the same numbers with points, however thousands are kept apart."""
        amounts = [0.5, 12.25, 999.0, 1234.5, 1500.5, 12000.0]
        spelt = ["0,5", "12,25", " 999", "1.234,5", "1\u202f500,5", "12 000"]
        (tmp_path / "a.csv").write_text("rent;n\n" + "".join(f"{text};1\n" for text in spelt))
        pq.write_table(pa.table({"rent": amounts}), tmp_path / "b.parquet")
        asked = {"column": "rent", "lower": 0.0, "upper": 20000.0, "where": where, "model": "central",
                 "engine": engine, "epsilon": 1.0}  # fmt: skip
        answers = [
            sdp.ask(data, "mean", **asked, rng=sdp.SeededWords(1)).estimate.value
            for data in (sdp.Files(tmp_path / "a.csv", decimal=","), tmp_path / "b.parquet")
        ]
        assert answers[0] == answers[1]
        with pytest.raises(sdp.DataError, match="`decimal` declares commas"):
            sdp.ask(tmp_path / "a.csv", "mean", **asked | {"where": None})

    @pytest.mark.parametrize(
        "wrong",
        [{"delimiter": ""}, {"delimiter": ";;"}, {"delimiter": '"'}, {"delimiter": "\n"}, {"decimal": ";"},
         {"decimal": ""}, {"encoding": "latin-99"}, {"encoding": "rot13"}],
    )  # fmt: skip
    def test_wrong_declarations(self, wrong):
        ((name, value),) = wrong.items()
        with pytest.raises(sdp.ParameterError, match=re.escape(f"{name}={value!r} must be")):
            sdp.Files("a.csv", **wrong)

    def test_a_long_list(self, tmp_path):
        rows = [{"x": i, "text": "größe" * 20} for i in range(20_000)]
        (tmp_path / "a.json").write_text(json.dumps(rows, ensure_ascii=False))
        assert len(values(sdp.open_column(tmp_path / "a.json", "x"))) == 20_000

    @pytest.mark.parametrize("text", ["[]", "[1, 2]", "{", '["x"]', "[[1]]"])
    def test_json_without_rows(self, tmp_path, text):
        (tmp_path / "a.json").write_text(text)
        with pytest.raises(sdp.DataError, match=r"a\.json (cannot be read|has no rows)"):
            sdp.open_column(tmp_path / "a.json", "x")

    @pytest.mark.parametrize("suffix", ["arrow", "arrows", "ipc"])
    def test_arrow_streams(self, tmp_path, suffix):
        table = pa.table({"x": range(10), "y": list("ababababab")})
        with pa.ipc.new_stream(tmp_path / f"a.{suffix}", table.schema) as stream:
            stream.write_table(table, max_chunksize=3)
        column = sdp.open_column(tmp_path / f"a.{suffix}", "x")
        assert column.rows == 10
        assert values(column) == list(range(10))
        assert sdp.open_column(tmp_path / f"a.{suffix}", "y").categories() == ("a", "b")

    @pytest.mark.parametrize("suffix", ["csv", "jsonl"])
    def test_lines_of_forty_megabytes(self, tmp_path, suffix):
        path = tmp_path / f"a.{suffix}"
        long = "z" * 40_000_000
        lines = [f"{i},{long if i == 3 else 'z'}" for i in range(1000)]
        if suffix == "jsonl":
            lines = [json.dumps(dict(zip("xy", line.split(","), strict=True))) for line in lines]
        path.write_text("\n".join(lines if suffix == "jsonl" else ["x,y", *lines]) + "\n")
        assert values(sdp.open_column(path, "x")) == [*map(str, range(1000))]

    def test_advice_about_options_that_there_are_not_is_left_out(self, tmp_path):
        path = tmp_path / "a.csv.gz"
        path.write_bytes(gzip.compress(b"x,y\n1," + b"z" * 40_000_000 + b"\n2,z\n"))
        with pytest.raises(sdp.DataError, match="cannot be read") as caught:
            values(sdp.open_column(path, "x"))
        for word in ("max_line_size", "parallel =", "Try increasing"):
            assert word not in str(caught.value)


def pack(path, data):
    kinds = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
    if path.suffix not in kinds:
        path.write_bytes(data)
        return
    with pa.CompressedOutputStream(str(path), kinds[path.suffix]) as file:
        file.write(data)


class TestFolders:
    @pytest.fixture
    def flights(self, tmp_path):
        for year, kind in (
            ("2012", "a%20b"),
            ("2013", "c"),
            ("2013", "__HIVE_DEFAULT_PARTITION__"),
        ):
            folder = tmp_path / "flights" / f"year={year}" / f"kind={kind}"
            folder.mkdir(parents=True)
            pq.write_table(pa.table({"x": [1, 2, int(year)]}), folder / "part-0.parquet")
            (folder / "_SUCCESS").touch()
            (folder / ".part-0.parquet.crc").touch()
        return tmp_path / "flights"

    def test_all_files_of_a_folder(self, flights):
        column = sdp.open_column(flights, "x")
        assert column.rows == 9
        assert values(column) == [1, 2, 2012, 1, 2, 2013, 1, 2, 2013]

    def test_what_the_folders_tell_is_a_column(self, flights):
        column = sdp.open_column(flights, "year")
        assert column.type == "text"
        assert values(column) == ["2012"] * 3 + ["2013"] * 6
        assert column.categories() == ("2012", "2013")
        kinds = sdp.open_column(flights, "kind")
        assert values(kinds) == ["a b"] * 3 + [None] * 3 + ["c"] * 3
        assert kinds.categories() == ("a b", "c")
        answer = sdp.ask(flights, "count", column="year", true_value="2013", epsilon=5, delta=0.01)
        assert answer.n == 9

    @pytest.mark.parametrize("suffix", ["csv", "jsonl", "arrow", "parquet"])
    def test_of_every_format(self, tmp_path, suffix):
        for letter in "ab":
            (tmp_path / f"way={letter}").mkdir()
            write({"x": [1, 2, 3]}, tmp_path / f"way={letter}" / f"p.{suffix}")
        column = sdp.open_column(tmp_path, "way")
        assert values(column) == ["a"] * 3 + ["b"] * 3
        assert column.categories() == ("a", "b")
        assert [*map(int, values(sdp.open_column(tmp_path, "x")))] == [1, 2, 3] * 2

    def test_a_column_of_the_file_comes_first(self, tmp_path):
        (tmp_path / "x=9").mkdir()
        write({"x": [1, 2]}, tmp_path / "x=9" / "p.parquet")
        assert values(sdp.open_column(tmp_path)) == [1, 2]

    def test_mistakes(self, flights, tmp_path):
        with pytest.raises(sdp.DataError, match="has no column 'z'; it has 'x', 'year', 'kind'"):
            sdp.open_column(flights, "z")
        (tmp_path / "empty").mkdir()
        with pytest.raises(sdp.DataError, match="empty is a folder without files"):
            sdp.open_column(tmp_path / "empty", "x")
        (flights / "README.md").write_text("hello")
        with pytest.raises(sdp.ParameterError, match=r"README\.md' must end in one of"):
            sdp.open_column(flights, "x")


class TestStandardInput:
    def give(self, monkeypatch, data):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    @pytest.mark.parametrize("packing", [None, ".gz", ".zst", ".bz2"])
    @pytest.mark.parametrize(
        "text", [ROWS, b'{"x": "1"}\n{"x": "2"}\n', b'[{"x": "1"}, {"x": "2"}]']
    )
    def test_text(self, monkeypatch, tmp_path, text, packing):
        path = tmp_path / f"a{packing or ''}"
        pack(path, text)
        self.give(monkeypatch, path.read_bytes())
        column = sdp.open_column("-", "x")
        place = Path(column.files[0].where)
        assert place.parent.stat().st_mode & 0o777 == 0o700
        assert values(column) == values(column) == ["1", "2"]
        assert column.files[0].path == "-"
        del column
        assert not place.exists(), "the copy goes away"

    @pytest.mark.parametrize("suffix", ["parquet", "arrow"])
    def test_typed(self, monkeypatch, tmp_path, suffix):
        self.give(monkeypatch, write({"x": [1, 2]}, tmp_path / f"a.{suffix}").read_bytes())
        assert values(sdp.open_column("-", "x")) == [1, 2]

    def test_several_columns(self, monkeypatch):
        self.give(monkeypatch, ROWS)
        one, other = sdp.open_column("-", "x"), sdp.open_column("-", "y")
        assert (values(one), values(other)) == (["1", "2"], ["a", "b"])
        assert one.files[0].where == other.files[0].where
        self.give(monkeypatch, ROWS.replace(b"1", b"7"))
        assert values(sdp.open_column("-", "x")) == ["7", "2"], "another stream"

    def test_nothing(self, monkeypatch):
        self.give(monkeypatch, b"")
        with pytest.raises(sdp.DataError, match="standard input is empty"):
            sdp.open_column("-", "x")

    def test_twice(self, monkeypatch):
        self.give(monkeypatch, ROWS)
        with pytest.raises(sdp.DataError, match="named twice"):
            sdp.open_column(["-", "-"], "x")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.Categorical(["b", "a", None]), "dictionary"),
        (pd.Series(["b", "a"], dtype="string").astype("category"), "dictionary"),
        (pd.Categorical([2, 10, None]), "large_string"),
        (pd.Series([2.5, 1.0], dtype="category"), "large_string"),
        (pd.Categorical(pd.Series(["b", 2], dtype=object)), "large_string"),
        (pd.Series([2, 10]), "int64"),
        (pd.Series([2, "a"], dtype=object), "large_string"),
        (np.array([2, 10]), "int64"),
        (np.array([2, 10], dtype=object), "large_string"),
        ([2, 10], "large_string"),
    ],
)
def test_only_declared_types_decide_what_values_are(values, kind):
    """The categories of pandas have the type of the values, but for text: they are read as text is."""
    array = take_column(values).array
    assert str(array.type).startswith(kind)
    assert len(array) == len(values)


def test_values_that_are_not_one_column_are_not_quoted():
    with pytest.raises(sdp.DataError, match=r"^the values are not one column: \w+$") as caught:
        take_column(np.array([1 + 47j, 2]))
    assert "47" not in str(caught.value)
