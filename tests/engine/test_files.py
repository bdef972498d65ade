"""The same words give the same tally in every engine, whatever the pieces, threads and formats."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

import shuffledp as sdp
from file_support import COUNTRIES, SUFFIXES, N, people, write
from shuffledp.engine import duckdb, files, memory, pieces
from shuffledp.engine.files import ENGINES
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
    return memory.tally(protocol, values, sdp.SeededWords(seed)).counts.tolist()


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

    @pytest.mark.parametrize("spec", sdp.protocols.PROTOCOLS, ids=lambda spec: spec.name)
    def test_every_protocol(self, spec, tmp_path, monkeypatch):
        monkeypatch.setattr(pieces, "_ROWS", 2048)
        protocol = any_protocol(spec)
        domain = protocol.randomizer.domain
        monkeypatch.setattr(files, "enough", lambda *_: None)  # the law is the same for a few users
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
        assert counts(KRR, tmp_path / "a.parquet", "x", threads=threads) == expected

    @pytest.mark.parametrize("rows", [1000, 3000, 1 << 17])
    def test_pieces(self, tmp_path, monkeypatch, rows):
        monkeypatch.setattr(pieces, "_ROWS", rows)
        values = np.random.default_rng(2).integers(4, size=300_000)
        pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet")
        assert counts(KRR, tmp_path / "a.parquet", "x", threads=2) == in_memory(KRR, values)

    @pytest.mark.parametrize("engine", STREAMING)
    def test_several_files(self, tmp_path, engine):
        values = np.random.default_rng(2).integers(4, size=30_000).tolist()
        for number, suffix in enumerate(("parquet", "csv", "arrow")):
            part = values[number * 10_000 : (number + 1) * 10_000]
            write({"x": part}, tmp_path / f"{number}.{suffix}")
        found = counts(KRR, str(tmp_path / "*"), "x", engine=engine)
        assert found == in_memory(KRR, values)

    @pytest.mark.parametrize("engine", STREAMING)
    def test_a_dropped_person_does_not_move_the_words_of_others(self, tmp_path, engine):
        ages = people()["age"]
        full = write({"x": ages}, tmp_path / "full.parquet")
        holes = [None if i % 7 == 3 else age for i, age in enumerate(ages)]
        some = write({"x": holes}, tmp_path / "some.parquet")
        mean = sdp.protocols.piecewise.make_local(lower=0, upper=120, steps=120, epsilon=1.0)
        kept = sdp.run_file(
            mean, sdp.open_column(some), on_invalid="drop", engine=engine, rng=sdp.SeededWords(3)
        )
        assert kept.n == N - len(range(3, N, 7))
        whole = sdp.run_file(mean, sdp.open_column(full), engine=engine, rng=sdp.SeededWords(3))
        # The messages of the kept are among those of all, cell by cell.
        assert (kept.tally.counts <= whole.tally.counts).all()

    def test_the_source_goes_on_behind_the_last_row(self, folder):
        column = sdp.open_column(folder / "people.parquet", "age")
        for engine in STREAMING:
            source = sdp.SeededWords(3)
            source.words(2)
            sdp.run_file(AGES, column, engine=engine, rng=source)
            assert source.words(1) == sdp.SeededWords(3).words(N + 3)[-1]

    def test_a_mutant_that_starts_every_piece_anew_is_noticed(self, tmp_path, monkeypatch):
        monkeypatch.setattr(pieces, "_ROWS", 4096)
        monkeypatch.setattr(duckdb.Tapes, "at", lambda *_: sdp.SeededWords(5))
        values = np.random.default_rng(2).integers(4, size=40_000)
        path = write({"x": values}, tmp_path / "a.parquet")
        assert counts(KRR, path, "x") != in_memory(KRR, values)


class TestCounts:
    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_law(self, folder, suffix):
        """Each cell is a sum of two binomials; here everybody tells the truth, so it is the truth."""
        sure = sdp.protocols.krr.make_local(k=4, epsilon=40.0)
        path = folder / f"people.{suffix}"
        found = counts(sure, path, "country", domain=COUNTRIES, engine="counts")
        truth = np.bincount(COUNTRIES.codes(people()["country"]), minlength=4)
        assert found == truth.tolist()

    def test_noise(self, folder):
        path = folder / "people.parquet"
        truth = np.bincount(COUNTRIES.codes(people()["country"]), minlength=4)
        first = counts(KRR, path, "country", domain=COUNTRIES, engine="counts")[0]
        p, q = float(KRR.randomizer.p), float(KRR.randomizer.q)
        centre = truth[0] * p + (N - truth[0]) * q
        # A sum of independent bits is no wider than a binomial of its mean.
        assert ALPHA < binom.cdf(first, N, centre / N) < 1 - ALPHA
        assert not ALPHA < binom.cdf(first, N, 2 * centre / N) < 1 - ALPHA

    @pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
    def test_policies(self, tmp_path, suffix):
        path = write({"x": ["ch", None, "de", "fr", "fr", "ch"]}, tmp_path / f"a.{suffix}")
        sure = sdp.protocols.krr.make_local(k=4, epsilon=40.0)
        column = sdp.open_column(path)
        other = sdp.run_file(sure, column, domain=COUNTRIES, on_invalid="other", engine="counts")
        assert other.tally.counts.tolist() == [2, 1, 0, 3]
        assert other.invalid == {"null": 1, "unknown": 2, "out_of_range": 0, "nan": 0}
        dropped = sdp.run_file(sure, column, domain=COUNTRIES, on_invalid="drop", engine="counts")
        assert (dropped.n, dropped.rows) == (3, 6)
        assert dropped.tally.counts.tolist() == [2, 1, 0, 0]
        with pytest.raises(sdp.DataError, match=r"value None in row 2 of .* is missing"):
            sdp.run_file(sure, column, domain=COUNTRIES, engine="counts")

    def test_needs_a_law(self, folder):
        hashing = sdp.protocols.local_hashing.make_local(k=4, epsilon=1.0)
        column = sdp.open_column(folder / "people.parquet", "country")
        with pytest.raises(sdp.UnsupportedError, match="has no simulation of its tally"):
            sdp.run_file(hashing, column, domain=COUNTRIES, engine="counts")


@pytest.mark.parametrize("engine", ["counts", "duckdb", "memory"])
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
        monkeypatch.setattr(pieces, "_ROWS", 100)
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
    monkeypatch.setattr(pieces, "_ROWS", 512)
    protocol = sdp.protocols.krr.make_local(k=2**16, epsilon=1e-3)  # nearly uniform
    path = write({"x": [0] * 20_000}, tmp_path / "a.parquet")
    column = sdp.open_column(path)
    # 20,000 uniform values of 16 bits: that one of them occurs more than 15 times has probability
    # below 1e-15.
    assert sdp.run_file(protocol, column, threads=4).tally.counts.max() <= 15
    shared = sdp.SeededWords(5)
    monkeypatch.setattr(duckdb.Tapes, "at", lambda *_: shared.ahead(0))
    assert sdp.run_file(protocol, column, threads=4).tally.counts.max() > 15


class TestHeadcount:
    def test_reads_nothing_if_every_row_must_be_valid(self, tmp_path):
        path = write({"x": [1, None, 500]}, tmp_path / "a.parquet")
        column = sdp.open_column(path)
        ages = sdp.Integers(lower=0, upper=120)
        assert sdp.headcount(column, ages) == files.Headcount(n=3, rows=3, invalid=None)
        dropped = sdp.headcount(column, ages, "drop")
        assert (dropped.n, dropped.rows) == (1, 3)
        assert dropped.invalid == {"null": 1, "unknown": 0, "out_of_range": 1, "nan": 0}

    def test_text_is_read(self, tmp_path):
        path = write({"x": [1, "", 500], "y": [0, 0, 0]}, tmp_path / "a.csv")
        column = sdp.open_column(path, "x")
        with pytest.raises(sdp.DataError, match="value None in row 2 of"):
            sdp.headcount(column, sdp.Integers(lower=0, upper=120))
        with pytest.raises(sdp.DataError, match="value None in row 2 of"):
            sdp.headcount(column, sdp.Integers(lower=0, upper=120), "clamp")

    def test_bad_policies_and_engines(self, folder):
        column = sdp.open_column(folder / "people.csv", "age")
        ages = sdp.Integers(lower=0, upper=120)
        with pytest.raises(
            sdp.ParameterError, match="on_invalid='skip' must be one of error, drop"
        ):
            sdp.headcount(column, ages, "skip")
        with pytest.raises(sdp.ParameterError, match="engine='dask' must be one of counts, duckdb"):
            sdp.headcount(column, ages, engine="dask")
        with pytest.raises(sdp.ParameterError, match="threads=0 must be >= 1"):
            sdp.headcount(column, ages, threads=0)


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


def test_engines_are_registered():
    assert list(ENGINES) == ["counts", "duckdb", "memory", "spark"]


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


def test_a_domain_too_large_to_count(tmp_path):
    fine = sdp.protocols.duchi.make_local(lower=0.0, upper=1.0, steps=2**30, epsilon=1.0)
    path = write({"x": [0.5]}, tmp_path / "a.parquet")
    with pytest.raises(sdp.UnsupportedError, match="too many values to count"):
        sdp.run_file(fine, sdp.open_column(path), engine="counts")
    assert sdp.run_file(fine, sdp.open_column(path)).n == 1
