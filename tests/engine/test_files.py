"""The same words give the same tally in every engine, whatever the pieces, threads and formats."""

import math
import subprocess
import sys
from dataclasses import dataclass, replace
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import shuffledp as sdp
from file_support import COUNTRIES, SUFFIXES, N, people, write
from shuffledp.core.domain import Bins, Cells
from shuffledp.engine import ENGINES, DuckDB, chunks, codes, columns, local, take_column
from support import ALPHA, any_protocol

STREAMING = ("memory", "duckdb")
KRR = sdp.protocols.krr.make_local(k=4, epsilon=1.0)
AGES = sdp.protocols.rounded_sum.make(n=N, lower=0, upper=120, epsilon=1.0, delta=1e-6)


def counts(protocol, path, column, seed=5, **options):
    opened = sdp.open_column(path, column)
    return sdp.run_file(
        protocol, opened, rng=sdp.SeededWords(seed), **options
    ).tally.counts.tolist()


def in_memory(protocol, values, seed=5):
    return local.tally(protocol, values, sdp.SeededWords(seed)).counts.tolist()


class TestSameWordsSameTally:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    @pytest.mark.parametrize("engine", STREAMING)
    def test_every_format(self, folder, suffix, engine):
        path = folder / f"people.{suffix}"
        codes = COUNTRIES.codes(people()["country"])
        assert counts(KRR, path, "country", domain=COUNTRIES, engine=engine) == in_memory(
            KRR, codes
        )
        ages = people()["age"]
        assert counts(AGES, path, "age", engine=engine) == in_memory(AGES, ages)

    # Words are dealt chunk by chunk, so that memory does not grow with their number: other chunks, other words.
    @pytest.mark.parametrize(
        "spec",
        [spec for spec in sdp.protocols.PROTOCOLS if spec.task != "words"],
        ids=lambda spec: spec.name,
    )
    def test_every_protocol(self, spec, tmp_path, monkeypatch):
        monkeypatch.setattr(columns, "_ROWS", 2048)
        protocol = any_protocol(spec)
        domain = protocol.randomizer.domain
        monkeypatch.setattr(
            sdp.core.protocol.ShuffleProtocol, "check_users", lambda *_: None
        )  # the law is the same for a few users
        values = domain.values(np.random.default_rng(1).integers(domain.size, size=5000))
        if not isinstance(domain, sdp.Reals):
            values = values.astype(np.int64)
        path = write({"x": values}, tmp_path / "a.parquet")
        expected = in_memory(protocol, values)
        for engine in STREAMING:
            assert counts(protocol, path, "x", engine=engine) == expected

    @pytest.mark.parametrize("threads", [1, 2, 5])
    @pytest.mark.parametrize("group", [100, 2048, 5000, 40_000])
    def test_threads_and_row_groups(self, tmp_path, threads, group):
        values = np.random.default_rng(2).integers(4, size=40_000)
        pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet", row_group_size=group)
        expected = in_memory(KRR, values)
        assert counts(KRR, tmp_path / "a.parquet", "x", engine=DuckDB(threads=threads)) == expected

    @pytest.mark.parametrize("rows", [1000, 3000, 1 << 17])
    def test_chunks(self, tmp_path, monkeypatch, rows):
        monkeypatch.setattr(columns, "_ROWS", rows)
        values = np.random.default_rng(2).integers(4, size=300_000)
        pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet")
        assert counts(KRR, tmp_path / "a.parquet", "x", engine=DuckDB(threads=2)) == in_memory(
            KRR, values
        )

    @pytest.mark.parametrize("engine", STREAMING)
    def test_several_files(self, tmp_path, engine):
        values = np.random.default_rng(2).integers(4, size=30_000).tolist()
        for number, suffix in enumerate(("parquet", "csv", "arrow")):
            part = values[number * 10_000 : (number + 1) * 10_000]
            write({"x": part}, tmp_path / f"{number}.{suffix}")
        found = counts(KRR, str(tmp_path / "*"), "x", engine=engine)
        assert found == in_memory(KRR, values)

    @pytest.mark.parametrize("engine", STREAMING)
    def test_dropped_people_do_not_move_the_rounding_of_others(self, tmp_path, engine):
        shares = np.random.default_rng(3).random(N)
        holes = [None if i % 7 == 3 else share for i, share in enumerate(shares)]
        grid = sdp.Reals(lower=0.0, upper=1.0, steps=5)
        coder = sdp.engine.codes.Coder(domain=grid, on_invalid="drop")
        found = []
        for values in (shares, holes):
            column = sdp.engine.take_column(pa.array(values))
            job = chunks.Job(column=column, coder=coder)
            rounding = sdp.engine.Rounding(rng=sdp.SeededWords(3), bits=64)
            found.append(sdp.engine.find_engine(engine).counts(job, rounding))
        whole, kept = found
        assert kept.n == N - len(range(3, N, 7))
        assert (kept.counts <= whole.counts).all()

    def test_codes_that_were_kept_are_dealt_at_their_own_rows(self):
        """Each piece has the words of its rows: no two pieces the same ones."""
        kept = tuple(
            sdp.engine.codes.Coded(np.zeros(size, dtype=np.uint8), None, None) for size in (3, 4, 5)
        )
        coder = sdp.engine.codes.Coder(domain=sdp.Categories(k=2), on_invalid="error")
        shown = []
        job = chunks.Job(
            column=sdp.engine.take_column(pa.array([0] * 12)),
            coder=coder,
            report=lambda progress: shown.append(progress.rows),
            read=kept,
        )
        assert [part.row for part in chunks._list_parts(job, 1)] == [0, 3, 7]
        assert shown == [3, 7, 12]

    def test_every_engine_leaves_the_source_at_the_same_place(self, folder):
        column = sdp.open_column(folder / "people.parquet", "share")
        mean = sdp.protocols.duchi.make_local(lower=0.0, upper=1.0, steps=9, epsilon=1.0)
        after = []
        for engine in STREAMING:
            source = sdp.SeededWords(3)
            sdp.run_file(mean, column, engine=engine, rng=source)
            after.append(source.words(1))
        assert after[0] == after[1]

    def test_a_mutant_that_starts_every_piece_anew_is_noticed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(columns, "_ROWS", 4096)
        monkeypatch.setattr(chunks.Tapes, "at", lambda *_: sdp.SeededWords(5))
        values = np.random.default_rng(2).random(40_000)
        path = write({"x": values}, tmp_path / "a.parquet")
        mean = sdp.protocols.duchi.make_local(lower=0.0, upper=1.0, steps=9, epsilon=1.0)
        assert counts(mean, path, "x") != in_memory(mean, values)


SURE = sdp.protocols.krr.make_local(k=4, epsilon=40.0)
"""Everybody tells the truth, so the tally is the number of people with each code."""


@pytest.mark.parametrize("engine", STREAMING)
class TestGroups:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_everybody_counts_once(self, folder, suffix, engine):
        path = folder / f"people.{suffix}"
        found = counts(SURE, path, "country", domain=COUNTRIES, engine=engine)
        truth = np.bincount(COUNTRIES.codes(people()["country"]), minlength=4)
        assert found == truth.tolist()

    def test_noise(self, folder, engine):
        path = folder / "people.parquet"
        truth = np.bincount(COUNTRIES.codes(people()["country"]), minlength=4)
        first = counts(KRR, path, "country", domain=COUNTRIES, engine=engine)[0]
        p, q = float(KRR.randomizer.p), float(KRR.randomizer.q)
        centre = truth[0] * p + (N - truth[0]) * q
        # A sum of independent bits is no wider than a binomial of its mean.
        assert ALPHA < binom.cdf(first, N, centre / N) < 1 - ALPHA
        assert not ALPHA < binom.cdf(first, N, 2 * centre / N) < 1 - ALPHA

    @pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
    def test_policies(self, tmp_path, suffix, engine):
        path = write({"x": ["ch", None, "de", "fr", "fr", "ch"]}, tmp_path / f"a.{suffix}")
        column = sdp.open_column(path)
        other = sdp.run_file(SURE, column, domain=COUNTRIES, on_invalid="other", engine=engine)
        assert other.tally.counts.tolist() == [2, 1, 0, 3]
        assert other.invalid == {"null": 1, "unknown": 2, "out_of_range": 0, "nan": 0}
        dropped = sdp.run_file(SURE, column, domain=COUNTRIES, on_invalid="drop", engine=engine)
        assert (dropped.n, dropped.rows) == (3, 6)
        assert dropped.tally.counts.tolist() == [2, 1, 0, 0]
        with pytest.raises(sdp.DataError, match=r"the value in row 2 of .* is missing"):
            sdp.run_file(SURE, column, domain=COUNTRIES, engine=engine)

    def test_what_is_dealt_is_called_so(self, folder, engine):
        column = sdp.open_column(folder / "people.parquet", "country")
        hashing = sdp.protocols.local_hashing.make_local(k=4, epsilon=1.0)
        assert sdp.run_file(KRR, column, domain=COUNTRIES, engine=engine).dealt
        found = sdp.run_file(hashing, column, domain=COUNTRIES, engine=engine)
        assert not found.dealt
        assert found.n == N

    def test_more_distinct_values_than_memory(self, folder, engine, monkeypatch):
        """They are never spilled to disk: codes are counted chunk by chunk instead."""
        path = folder / "people.csv"
        expected = counts(KRR, path, "country", domain=COUNTRIES, engine=engine)

        def fail(*_):
            raise columns.TooManyGroupsError

        monkeypatch.setattr(local, "group_values", fail)
        assert counts(KRR, path, "country", domain=COUNTRIES, engine=engine) == expected


@pytest.mark.parametrize(
    ("column", "domain"),
    [
        ("wide", sdp.Integers(lower=0, upper=9_999)),
        ("real", Cells(lower=0.0, upper=1.0, cells=64)),
        ("real", Bins(edges=(0.0, 0.1, 0.5, 1.0))),
    ],
)
def test_many_different_numbers_are_counted_not_grouped(column, domain, tmp_path, monkeypatch):
    """A hash table of all values takes several times the time and the memory of counters of codes."""
    random = np.random.default_rng(4)
    values = {"wide": random.integers(0, 10_000, 5_000), "real": random.random(5_000)}
    pq.write_table(pa.table(values), tmp_path / "people.parquet")
    coder = codes.Coder(domain=domain, on_invalid=codes.OnInvalid.ERROR)
    job = chunks.Job(column=sdp.open_column(tmp_path / "people.parquet", column), coder=coder)
    grouped = local.count_by_query(job, 1).counts
    monkeypatch.setattr(local, "group_values", lambda *_: pytest.fail("grouped by value"))
    assert DuckDB().counts(job).counts.tolist() == grouped.tolist()
    if column == "wide":
        few = codes.Coder(domain=sdp.Integers(lower=0, upper=9), on_invalid="clamp")
        with pytest.raises(pytest.fail.Exception, match="grouped by value"):
            DuckDB().counts(replace(job, coder=few))


def test_words_that_another_machine_groups(tmp_path):
    """The same tally, and the same people: whoever is left out has no word in it."""

    @dataclass(frozen=True)
    class Elsewhere:
        name, about, local, threads = "elsewhere", "far away", False, 1

        def group(self, sets):
            return columns.group_sets(sets, 1)

    words = ["ja", "nein", "doch", "not a word!", "vielleicht"] * 700
    (tmp_path / "people.txt").write_text("\n".join(words))
    protocol = sdp.words(n=2_800, epsilon=1.0, delta=1e-6, alphabet="letters", max_length=6)
    here, there = (
        sdp.run_file(
            protocol,
            sdp.open_column(tmp_path / "people.txt"),
            on_invalid="unknown=drop,out_of_range=clamp",
            engine=engine,
            rng=sdp.SeededWords(3),
        )
        for engine in ("memory", Elsewhere())
    )
    assert there.tally.counts.tolist() == here.tally.counts.tolist()
    assert (there.n, there.rows, there.invalid) == (here.n, here.rows, here.invalid)
    assert there.n == 2_800
    assert there.dealt


def test_duckdb_spills_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(duckdb, "connect", duckdb.connect.__wrapped__)  # a database of its own
    with columns.connect() as connection:
        connection.sql("set memory_limit = '20MB'")
        query = connection.sql("select range as x, count(*) from range(3000000) group by x")
        with pytest.raises(duckdb.OutOfMemoryException):
            query.fetchall()
    assert not [*tmp_path.rglob("*")]


def test_groups_do_not_show_themselves(folder):
    column = sdp.open_column(folder / "people.csv", "country")
    found = sdp.headcount(column, COUNTRIES, "drop")
    assert found.job.groups is not None
    shown = repr(found) + repr(found.job) + repr(found.job.groups)
    assert str(found.job.groups.counts[0]) not in shown


@pytest.mark.parametrize("engine", STREAMING)
class TestEveryEngine:
    def test_too_few_users(self, tmp_path, engine):
        protocol = sdp.protocols.zsum_sparse.make(n=1000, epsilon=1.0, delta=1e-6)
        for suffix in ("parquet", "csv"):
            few = write({"x": [1] * 899}, tmp_path / f"few.{suffix}")
            with pytest.raises(sdp.DataError, match="needs the noise of at least 900 users"):
                sdp.run_file(protocol, sdp.open_column(few), engine=engine)
        holes = write({"x": [1] * 899 + [None] * 100}, tmp_path / "holes.parquet")
        with pytest.raises(sdp.DataError, match="899 values, but"):
            sdp.run_file(protocol, sdp.open_column(holes), on_invalid="drop", engine=engine)
        enough = write({"x": [1] * 900 + [None] * 100}, tmp_path / "enough.parquet")
        found = sdp.run_file(protocol, sdp.open_column(enough), on_invalid="drop", engine=engine)
        assert found.n == 900

    def test_nobody(self, tmp_path, engine):
        path = write({"x": [None, "fr"]}, tmp_path / "a.parquet")
        with pytest.raises(sdp.DataError, match="column 'x' has no valid value"):
            sdp.run_file(
                KRR, sdp.open_column(path), domain=COUNTRIES, on_invalid="drop", engine=engine
            )

    def test_the_first_bad_value_by_file_and_row(self, tmp_path, monkeypatch, engine):
        monkeypatch.setattr(columns, "_ROWS", 100)
        write({"x": [1] * 500}, tmp_path / "a.csv")
        write({"x": [1] * 321 + [4] + [1] * 100 + [5]}, tmp_path / "b.csv")
        column = sdp.open_column(str(tmp_path / "*.csv"))
        with pytest.raises(sdp.DataError, match=r"value '4' in row 322 of .*b\.csv is none of the"):
            sdp.run_file(KRR, column, engine=engine)

    def test_secure_words_by_default(self, folder, engine):
        column = sdp.open_column(folder / "people.parquet", "country")
        found = {
            tuple(sdp.run_file(KRR, column, domain=COUNTRIES, engine=engine).tally.counts)
            for _ in range(5)
        }
        assert len(found) > 1

    def test_labels_and_progress(self, folder, engine):
        seen = []
        for suffix in ("parquet", "csv", "csv.gz"):
            column = sdp.open_column(folder / f"people.{suffix}", "country")
            found = sdp.run_file(KRR, column, domain=COUNTRIES, engine=engine, report=seen.append)
            assert found.estimate.labels == COUNTRIES.labels
            assert (found.n, found.rows, found.engine) == (N, N, engine)
            assert seen[-1].rows == N
            assert [each.rows for each in seen] == sorted(each.rows for each in seen)
            assert seen[-1].total_bytes == column.bytes
            assert seen[-1].fraction is None or seen[-1].fraction > 0.9
            seen.clear()

    def test_other_domains_do_not_fit(self, folder, engine):
        column = sdp.open_column(folder / "people.parquet", "country")
        for domain in (sdp.Categories(k=3), sdp.Bits(), sdp.Integers(lower=0, upper=4)):
            with pytest.raises(sdp.MismatchError, match="the protocol krr is for"):
                sdp.run_file(KRR, column, domain=domain, engine=engine)


def test_secure_workers_share_no_words(tmp_path, monkeypatch):
    """Everybody has the same value, so equal words would show as equal messages."""
    monkeypatch.setattr(local, "_PEOPLE", 512)
    protocol = sdp.protocols.krr.make_local(k=2**16, epsilon=1e-3)  # nearly uniform
    protocol = replace(protocol, offers=replace(protocol.offers, deal=None))
    path = write({"x": [0] * 20_000}, tmp_path / "a.parquet")
    column = sdp.open_column(path)
    # 20,000 uniform values of 16 bits: that one of them occurs more than 15 times has probability
    # below 1e-15.
    assert sdp.run_file(protocol, column, engine=DuckDB(threads=4)).tally.counts.max() <= 15
    shared = sdp.SeededWords(5)
    monkeypatch.setattr(chunks.Tapes, "at", lambda *_: shared.ahead(0))
    assert sdp.run_file(protocol, column, engine=DuckDB(threads=4)).tally.counts.max() > 15


class TestHeadcount:
    def test_reads_nothing_if_every_row_must_be_valid(self, tmp_path):
        path = write({"x": [1, None, 500]}, tmp_path / "a.parquet")
        column = sdp.open_column(path)
        ages = sdp.Integers(lower=0, upper=120)
        assert sdp.headcount(column, ages) == sdp.engine.Headcount(n=3, rows=3, invalid=None)
        dropped = sdp.headcount(column, ages, "drop")
        assert (dropped.n, dropped.rows) == (1, 3)
        assert dropped.invalid == {"null": 1, "unknown": 0, "out_of_range": 1, "nan": 0}

    def test_text_is_read(self, tmp_path):
        path = write({"x": [1, "", 500], "y": [0, 0, 0]}, tmp_path / "a.csv")
        column = sdp.open_column(path, "x")
        with pytest.raises(sdp.DataError, match="the value in row 2 of"):
            sdp.headcount(column, sdp.Integers(lower=0, upper=120))
        with pytest.raises(sdp.DataError, match="the value in row 2 of"):
            sdp.headcount(column, sdp.Integers(lower=0, upper=120), "clamp")

    def test_bad_policies_and_engines(self, folder):
        column = sdp.open_column(folder / "people.csv", "age")
        ages = sdp.Integers(lower=0, upper=120)
        with pytest.raises(
            sdp.ParameterError, match="on_invalid='skip' must be one of error, drop"
        ):
            sdp.headcount(column, ages, "skip")
        with pytest.raises(sdp.ParameterError, match="engine='dask' must be one of duckdb, memory"):
            sdp.headcount(column, ages, engine="dask")
        with pytest.raises(sdp.ParameterError, match="threads=0 must be >= 1"):
            DuckDB(threads=0)


def test_only_our_own_sources_of_words(folder):
    class Loaded:
        def words(self, count, bits=64):
            return np.zeros(count, dtype=np.uint64)

    column = sdp.open_column(folder / "people.csv", "age")
    with pytest.raises(sdp.ParameterError, match="must be SecureWords or SeededWords"):
        sdp.run_file(AGES, column, rng=Loaded())


def test_a_failing_report_stops_the_run(folder):
    def stop(progress):
        raise KeyboardInterrupt

    column = sdp.open_column(folder / "people.csv", "age")
    with pytest.raises(KeyboardInterrupt):
        sdp.run_file(AGES, column, report=stop)


class TestReadOnce:
    """What the headcount read is not read again, if it still means the same."""

    def run(self, path, monkeypatch, *, domain=COUNTRIES, on_invalid="error", engine="duckdb"):
        column = sdp.open_column(path, "country")
        found = sdp.headcount(column, COUNTRIES, on_invalid, engine=engine)
        passes = []
        monkeypatch.setattr(chunks, "read_chunks", _counting(passes, columns.read_chunks))
        monkeypatch.setattr(local, "group_values", _counting(passes, columns.group_values))
        rng = sdp.SeededWords(5)
        again = {"domain": domain, "on_invalid": on_invalid, "engine": engine}
        result = sdp.run_file(KRR, column, **again, rng=rng, found=found)
        assert result.n == found.n
        return result.tally.counts.tolist(), len(passes)

    @pytest.mark.parametrize("engine", STREAMING)
    @pytest.mark.parametrize("on_invalid", ["error", "drop", "other"])
    def test_the_same_tally(self, folder, monkeypatch, engine, on_invalid):
        monkeypatch.setattr(columns, "_ROWS", 1000)
        found, passes = self.run(
            folder / "people.csv", monkeypatch, engine=engine, on_invalid=on_invalid
        )
        assert passes == 0
        assert found == in_memory(KRR, COUNTRIES.codes(people()["country"]))

    def test_many_places_are_not_kept(self, folder, monkeypatch):
        column = sdp.open_column(folder / "people.csv", "share")
        grid = sdp.Reals(lower=0.0, upper=1.0, steps=9)
        coder = sdp.engine.codes.Coder(domain=grid, on_invalid="error")
        assert sdp.engine.Job.of(column, coder, None, sdp.headcount(column, grid)).read
        monkeypatch.setattr(chunks, "_KEPT_BYTES", N - 1)
        assert sdp.headcount(column, grid).job.read is None

    def test_codes_of_another_domain_are_read_again(self, folder, monkeypatch):
        other = sdp.Categories(k=4, names=("other", *COUNTRIES.names[:3]))
        found, passes = self.run(folder / "people.csv", monkeypatch, domain=other)
        assert passes == 1
        assert found == in_memory(KRR, other.codes(people()["country"]))


def _counting(passes, real):
    def read(*arguments):
        passes.append(arguments)
        return real(*arguments)

    return read


class TestCodeCounts:
    """Every engine groups the column by code."""

    @pytest.mark.parametrize("engine", STREAMING)
    @pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow", "jsonl"])
    def test_engines_agree(self, tmp_path, engine, suffix):
        path = write({"x": ["ch", None, "de", "fr", "fr", "ch"]}, tmp_path / f"a.{suffix}")
        for policy, expected in (("drop", [2, 1, 0, 0]), ("other", [2, 1, 0, 3])):
            coder = sdp.engine.codes.Coder(domain=COUNTRIES, on_invalid=policy)
            asked = chunks.Job(column=sdp.open_column(path, "x"), coder=coder)
            found = sdp.engine.find_engine(engine).counts(asked)
            assert found.counts.tolist() == expected
            assert found.rows == 6
            assert found.invalid == {"null": 1, "unknown": 2, "out_of_range": 0, "nan": 0}


class TestInMemory:
    NAMES = ("cat", "dog", "dog", None) * 500
    PETS = sdp.Categories(k=4, names=("bird", "cat", "dog", "other"))

    def tables(self):
        import pandas as pd
        import polars as pl

        names = list(self.NAMES)
        yield names, None
        yield np.array(names, dtype=object), None
        yield np.ma.array(["cat", "dog", "dog", "cow"] * 500, mask=[0, 0, 0, 1] * 500), None
        yield pd.Series(names), None
        yield pd.Series(names, dtype="category"), None
        yield pd.DataFrame({"pet": names, "x": 1}), "pet"
        yield pl.Series(names), None
        yield pl.Series(names, dtype=pl.Categorical), None
        yield pl.DataFrame({"pet": names, "x": 1}), "pet"
        yield pa.array(names), None
        yield pa.chunked_array([names[:3], names[3:]]), None
        yield pa.table({"pet": names, "x": [1] * 2000}), "pet"
        yield pa.record_batch({"pet": names}), None

    def test_every_kind_gives_the_same_tally(self, monkeypatch):
        monkeypatch.setattr(columns, "_ROWS", 300)
        codes = np.array([1, 2, 2, 3] * 500)
        expected = in_memory(KRR, codes)
        for data, name in self.tables():
            column = sdp.engine.take_column(data, name)
            assert column.rows == 2000
            for engine in STREAMING:
                found = sdp.run_file(
                    KRR, column, domain=self.PETS, on_invalid="other", engine=engine,
                    rng=sdp.SeededWords(5),
                )  # fmt: skip
                assert found.tally.counts.tolist() == expected
                assert found.invalid["null"] == 500
            asked = chunks.Job(
                column=column, coder=sdp.engine.codes.Coder(domain=self.PETS, on_invalid="drop")
            )
            assert sdp.engine.DuckDB().counts(asked).counts.tolist() == [0, 500, 1000, 0]
            assert sdp.categories_of(column) == ("cat", "dog")

    def test_numbers_keep_their_meaning(self):
        ages = sdp.engine.take_column(np.array([3, 120, 0], dtype=np.uint8))
        assert sdp.headcount(ages, sdp.Integers(lower=0, upper=120), "drop").n == 3
        shares = sdp.engine.take_column(np.array([0.5, np.nan, 2.0]))
        found = sdp.headcount(shares, sdp.Reals(lower=0.0, upper=1.0, steps=10), "drop")
        assert found.invalid == {"null": 0, "unknown": 0, "out_of_range": 1, "nan": 1}

    def test_a_bad_value_is_named_by_its_position(self, monkeypatch):
        monkeypatch.setattr(columns, "_ROWS", 100)
        column = sdp.engine.take_column([0] * 321 + [4])
        with pytest.raises(sdp.DataError, match="value '4' at position 321 is none of the"):
            sdp.run_file(KRR, column)

    @pytest.mark.parametrize(
        "values", [3, [[1, 2], [3]], [1, b"secret"], [2**70], np.zeros((2, 2))]
    )
    def test_what_is_not_a_column(self, values):
        with pytest.raises(sdp.DataError) as caught:
            sdp.run_file(KRR, sdp.engine.take_column(values))
        assert "secret" not in str(caught.value)

    def test_a_value_of_another_type_is_read_by_itself(self):
        """It decides neither how the others are read nor whether they are."""
        coder = sdp.engine.Coder(domain=KRR.randomizer.domain, on_invalid=sdp.engine.OnInvalid.DROP)
        for other in ("1", 1.0, True, np.int8(1), Decimal("1.0")):
            assert coder.codes(take_column([0, 2, other, 2]).array).codes.tolist() == [0, 2, 1, 2]
        for other in ("x", 1.5, 2**70, None, math.nan, pd.NaT, 1e300):
            coded = coder.codes(take_column([0, 2, other, 2]).array)
            assert (coded.users, coded.codes[[0, 1, 3]].tolist()) == (3, [0, 2, 2])

    def test_names_of_columns(self):
        table = pa.table({"a": [1], "b": [2]})
        with pytest.raises(sdp.DataError, match="the table has several columns, choose one of"):
            sdp.engine.take_column(table)
        with pytest.raises(sdp.DataError, match="the table has no column 'c'; it has 'a', 'b'"):
            sdp.engine.take_column(table, "c")

    def test_spark_reads_files(self):
        with pytest.raises(sdp.UnsupportedError, match="Spark reads files"):
            sdp.run_file(KRR, sdp.engine.take_column([0, 1]), engine="spark")


def test_engines_are_registered():
    assert all(engine.name == name for name, engine in ENGINES.items())
    assert list(ENGINES)[:3] == ["duckdb", "memory", "spark"]


def test_what_is_not_installed_is_named(folder, monkeypatch):
    column = sdp.open_column(folder / "people.csv", "age")
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    with pytest.raises(sdp.UnsupportedError, match=r"needs PySpark: install shuffledp\[spark\]"):
        sdp.run_file(AGES, column, engine="spark")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(sdp.UnsupportedError, match=r"duckdb is missing: install shuffledp\[data\]"):
        sdp.open_column(folder / "people.csv", "age")


def test_readers_are_imported_when_a_file_is_opened():
    code = (
        "import sys, shuffledp.engine.files, shuffledp.engine.messages; "
        "print(*{'duckdb', 'pyarrow', 'pyspark', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_integers_on_a_grid_are_not_rounded(tmp_path, monkeypatch):
    """The local model has its means on a grid of reals: integers are its points, and are grouped."""
    ages = people()["age"]
    mean = sdp.protocols.duchi.make_local(lower=0, upper=120, steps=120, epsilon=1.0)
    path = write({"x": ages}, tmp_path / "a.parquet")
    expected = in_memory(mean, np.array(ages))

    def fail(*_):
        raise AssertionError

    monkeypatch.setattr(chunks, "read_chunks", fail)
    assert counts(mean, path, "x") == expected
    with pytest.raises(sdp.DataError, match="is outside the domain"):
        local.tally(mean, np.array([3, 121]), sdp.SeededWords(1))


@pytest.mark.parametrize("engine", STREAMING)
def test_a_domain_too_large_to_count(tmp_path, engine):
    """Everybody's device runs, row by row."""
    fine = sdp.protocols.duchi.make_local(lower=0.0, upper=1.0, steps=2**30, epsilon=1.0)
    values = np.random.default_rng(1).random(500)
    path = write({"x": values}, tmp_path / "a.parquet")
    found = sdp.run_file(fine, sdp.open_column(path), engine=engine, rng=sdp.SeededWords(5))
    assert (found.n, found.dealt) == (500, False)
    assert found.tally.counts.tolist() == in_memory(fine, values)


@pytest.mark.parametrize("engine", ["duckdb", "memory"])
def test_groups_of_another_policy_are_not_reused(engine):
    """Whoever was left out by one policy takes part under the next one."""
    column = sdp.engine.take_column([1, 2, 9, 12, 3])
    ages = sdp.Integers(lower=0, upper=9)
    found = sdp.headcount(column, ages, "drop", engine=engine)
    assert found.n == 4
    for made in (
        sdp.protocols.duchi.make_local(lower=0, upper=9, steps=9, epsilon=1.0),
        sdp.protocols.local_tree.make_local(lower=0, upper=9, epsilon=1.0),
    ):
        source = sdp.SeededWords(1)
        run = sdp.run_file(made, column, on_invalid="clamp", engine=engine, found=found, rng=source)
        assert run.n == 5


def test_a_semicolon_file_may_have_commas_in_its_header(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("Name, first;Age;City\nAda;36;London\nAlan;41;Wilmslow\n")
    assert sdp.open_column(path, "Age").files[0].columns == ("Name, first", "Age", "City")


def test_the_default_json_of_pandas_is_explained(tmp_path):
    path = tmp_path / "p.json"
    path.write_text('{"age": {"0": 36, "1": 41}, "city": {"0": "London", "1": "Wilmslow"}}')
    with pytest.raises(sdp.DataError, match="orient='records', lines=True"):
        sdp.open_column(path, "age")
