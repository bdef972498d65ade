"""The Spark engine in local mode: the tally of the other engines for the same words.

It needs Java 17 or later.
"""

import bz2
import json
import os
import pickle
import shutil
import sys
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp
from file_support import COUNTRIES, N, people, write
from shuffledp.engine import local, spark
from shuffledp.engine.reducing import Reduction
from shuffledp.questions import prepared
from support import need
from survey_support import MIXED

pytestmark = [
    pytest.mark.xdist_group("spark"),
    # PySpark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KRR = sdp.protocols.krr.make_local(k=4, epsilon=1.0)
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that ends soon: optimizing its code takes longer than running it."""


@pytest.fixture(scope="module", autouse=True)
def session():
    need("JAVA_HOME" in os.environ or shutil.which("java"), "Java")
    for options in ("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"):
        os.environ.setdefault(options, QUICK)
    started = spark.session()
    started.sparkContext.setLogLevel("OFF")
    # Many small partitions, so that small files have several.
    started.conf.set("spark.sql.files.maxPartitionBytes", "20000")
    started.conf.set("spark.sql.files.openCostInBytes", "0")
    started.conf.set("spark.sql.adaptive.enabled", "false")  # small data has nothing to adapt to
    started.conf.set("spark.sql.shuffle.partitions", "1")
    yield started
    started.stop()


def run(protocol, path, column=None, seed=5, **options):
    opened = sdp.open_column(path, column)
    return sdp.run_file(protocol, opened, engine="spark", rng=sdp.SeededWords(seed), **options)


def same(found, protocol, values, seed=5):
    expected = local.tally(protocol, values, sdp.SeededWords(seed))
    np.testing.assert_array_equal(found.tally.counts, expected.counts)
    assert found.tally.users == expected.users


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl"])
def test_every_format(folder, suffix):
    found = run(KRR, folder / f"people.{suffix}", "country", domain=COUNTRIES)
    same(found, KRR, COUNTRIES.codes(people()["country"]))
    assert found.n == found.rows == N
    assert found.estimate.labels == COUNTRIES.labels


def test_partitions_start_where_the_rows_do(tmp_path, session):
    values = np.random.default_rng(2).integers(4, size=60_000)
    pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet", row_group_size=2000)
    frame = spark._make_frame(session, sdp.open_column(tmp_path / "a.parquet"))
    assert frame.rdd.getNumPartitions() > 1
    same(run(KRR, tmp_path / "a.parquet"), KRR, values)


def test_several_files_and_policies(tmp_path):
    mean = sdp.protocols.piecewise.make_local(lower=0, upper=99, steps=99, epsilon=1.0)
    ages = people()["age"]
    for number in range(3):
        write({"x": ages[number::3]}, tmp_path / f"{number}.parquet")
    column = sdp.open_column(str(tmp_path / "*.parquet"))
    found = {
        engine: sdp.run_file(mean, column, on_invalid="drop", engine=engine, rng=sdp.SeededWords(3))
        for engine in ("memory", "spark")
    }
    ours, theirs = found["memory"], found["spark"]
    np.testing.assert_array_equal(ours.tally.counts, theirs.tally.counts)
    assert (ours.n, ours.rows, ours.invalid) == (theirs.n, theirs.rows, theirs.invalid)
    assert ours.invalid["out_of_range"] > 0
    surveys = [
        sdp.headcount(column, mean.randomizer.domain, "drop", engine=e) for e in ("duckdb", "spark")
    ]
    assert surveys[0] == surveys[1]


def test_it_groups_by_code(folder):
    coder = sdp.engine.codes.Coder(domain=COUNTRIES, on_invalid="error")
    column = sdp.open_column(folder / "people.parquet", "country")
    asked = sdp.engine.chunks.Job(column=column, coder=coder)
    ours, theirs = sdp.engine.DuckDB().counts(asked), sdp.engine.Spark().counts(asked)
    np.testing.assert_array_equal(ours.counts, theirs.counts)
    assert (ours.rows, ours.invalid) == (theirs.rows, theirs.invalid)


def test_sums_modulo_a_power_of_two(tmp_path):
    """Cells of split and mix wrap around; Spark's own sums must not."""
    protocol = sdp.protocols.split_and_mix.make(n=N, lower=0, upper=120, epsilon=1.0, delta=1e-6)
    ages = people()["age"]
    for number in range(2):
        write(
            {"x": ages[number * 2500 : (number + 1) * 2500 if number == 0 else None]},
            tmp_path / f"{number}.parquet",
        )
    same(run(protocol, str(tmp_path / "*.parquet")), protocol, ages)


def test_vectors_and_several_messages(tmp_path):
    values = np.random.default_rng(2).integers(16, size=N)
    path = write({"x": values}, tmp_path / "a.parquet")
    unary = sdp.protocols.optimized_unary.make_local(k=16, epsilon=1.0)
    same(run(unary, path), unary, values)
    dummies = sdp.protocols.dummies_histogram.make(n=N, k=16, epsilon=1.0, delta=1e-6)
    same(run(dummies, path), dummies, values)


def test_no_python_runs_on_workers_to_group(folder, monkeypatch):
    def fail(*_):
        raise AssertionError

    monkeypatch.setattr(spark, "_map", fail)
    same(
        run(KRR, folder / "people.parquet", "country", domain=COUNTRIES),
        KRR,
        COUNTRIES.codes(people()["country"]),
    )
    hashing = sdp.protocols.local_hashing.make_local(k=4, epsilon=1.0)
    same(
        run(hashing, folder / "people.csv", "country", domain=COUNTRIES),
        hashing,
        COUNTRIES.codes(people()["country"]),
    )


def test_reals_are_rounded_beside_the_data(tmp_path):
    values = np.random.default_rng(2).random(20_000)
    pq.write_table(pa.table({"x": values}), tmp_path / "a.parquet", row_group_size=2000)
    mean = sdp.protocols.duchi.make_local(lower=0.0, upper=1.0, steps=9, epsilon=1.0)
    same(run(mean, tmp_path / "a.parquet"), mean, values)
    fine = sdp.protocols.duchi.make_local(lower=0.0, upper=1.0, steps=2**30, epsilon=1.0)
    same(run(fine, tmp_path / "a.parquet"), fine, values)
    column = sdp.open_column(tmp_path / "a.parquet")
    found = [sdp.run_file(mean, column, engine="spark").tally.counts.tolist() for _ in range(4)]
    assert any(each != found[0] for each in found)  # two are the same once in 250 times
    assert all(sum(each) == 20_000 for each in found)


@pytest.mark.parametrize("steps", [9, 2**30])
def test_a_repeated_partition_repeats_itself(steps, monkeypatch):
    """Spark computes a lost partition again: fresh words would mix two randomizations of its people."""
    mean = sdp.protocols.duchi.make_local(lower=0.0, upper=1.0, steps=steps, epsilon=1.0)
    coder = sdp.engine.codes.Coder(domain=mean.randomizer.domain, on_invalid="error")
    whole = pa.record_batch([pa.array(np.random.default_rng(2).random(9000))], names=["value"])
    work = spark._Work(coder=coder, words=spark._choose_words(None), group=steps == 9, bits=64)
    if steps != 9:
        work = replace(work, randomizer=mean.randomizer, analyzer=mean.analyzer)
    work = pickle.loads(pickle.dumps(work))  # noqa: S301

    def compute(partition, batches):
        monkeypatch.setattr(spark, "_find_partition", lambda: partition)
        (sent,) = work(iter(batches))
        return sent.to_pydict()

    once = compute(3, [whole])
    assert compute(3, [whole.slice(0, 4000), whole.slice(4000)]) == once
    others = [compute(partition, [whole]) for partition in range(4, 9)]
    assert any(
        other != once for other in others
    )  # one tally of two cells may be the same by chance


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("ModuleNotFoundError: No module named 'pyarrow'\n", "workers have no pyarrow: install"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker", "another version of Python"),
        ('java.io.IOException: Cannot run program "python9"', "cannot start Python: set"),
        ("java.lang.OutOfMemoryError: Java heap space", "ran out of memory"),
    ],
)
def test_what_a_cluster_lacks_is_named(said, meaning):
    with pytest.raises(sdp.UnsupportedError, match=meaning):
        spark._explain_workers(said)
    spark._explain_workers("something is wrong with the data")


def test_a_worker_without_a_module_is_not_an_unreadable_file(session, folder):
    def lose(batches):
        import no_such_module  # noqa: F401

        yield from batches

    column = sdp.open_column(folder / "people.parquet", "age")
    with (
        pytest.raises(sdp.UnsupportedError, match="have no no_such_module"),
        spark._explain_errors(column),
    ):
        spark._map(spark._make_frame(session, column), lose, "value long").collect()


def test_secure_words_differ(folder):
    column = sdp.open_column(folder / "people.parquet", "country")
    found = [sdp.run_file(KRR, column, domain=COUNTRIES, engine="spark") for _ in range(2)]
    assert found[0].tally.counts.tolist() != found[1].tally.counts.tolist()
    assert [each.tally.counts.sum() for each in found] == [N, N]


def test_errors_are_one_sentence(folder, tmp_path):
    with pytest.raises(
        sdp.DataError, match=r"^column 'age': value .* is none of the categories; to go on"
    ):
        run(KRR, folder / "people.parquet", "age")
    with pytest.raises(sdp.DataError, match=r"^column 'share': value .* is none of the categories"):
        run(KRR, folder / "people.parquet", "share")
    with pytest.raises(sdp.UnsupportedError, match="Spark does not read"):
        run(KRR, folder / "people.arrow", "country", domain=COUNTRIES)
    remote = sdp.open_column(f"file://{tmp_path}/nobody.parquet", "x")
    with pytest.raises(sdp.DataError, match=r"^Spark cannot read 'x' of .*PATH_NOT_FOUND$"):
        sdp.run_file(KRR, remote, engine="spark")
    path = write({"x": [None]}, tmp_path / "a.csv")
    path.write_text("x,y\n,1\n")
    with pytest.raises(sdp.DataError, match="has no valid value"):
        run(KRR, path, "x", on_invalid="drop")
    (tmp_path / "bad.csv").write_text("x,y\n1,1\nsecret\n")
    with pytest.raises(sdp.DataError, match=r"^Spark cannot read") as caught:
        run(KRR, tmp_path / "bad.csv", "x")
    assert "secret" not in str(caught.value)


def test_paths_of_a_cluster(folder):
    """A path with a scheme is Spark's alone: nothing is known of it before."""
    column = sdp.open_column(f"file://{folder}/people.csv", "country")
    found = sdp.run_file(KRR, column, domain=COUNTRIES, engine="spark", rng=sdp.SeededWords(5))
    same(found, KRR, COUNTRIES.codes(people()["country"]))
    assert sdp.headcount(column, COUNTRIES, engine="spark").n == N


def test_any_name_of_a_column(tmp_path):
    name = "a.b `日本`"
    path = write({"x": [9, 9], name: [3, 2]}, tmp_path / "a.parquet")
    assert run(KRR, path, name).n == 2


def test_progress(folder):
    seen = []
    run(KRR, folder / "people.parquet", "country", domain=COUNTRIES, report=seen.append)
    assert seen[-1].fraction == 1.0
    assert [each.rows for each in seen] == sorted(each.rows for each in seen)


def test_workers_run_this_interpreter(session):
    def interpreter(batches):
        import sys

        import pyarrow

        for _ in batches:
            yield pyarrow.record_batch([pyarrow.array([sys.executable])], names=["name"])

    found = spark._map(session.range(1, numPartitions=1), interpreter, "name string").collect()
    assert [row[0] for row in found] == [sys.executable]


def test_what_other_tools_write(tmp_path):
    """Unsigned integers come as decimals; text in other wrappings, and folders that tell a column."""
    values = [0, 3, 2, 3] * 5
    pq.write_table(pa.table({"x": pa.array(values, pa.uint64())}), tmp_path / "a.parquet")
    same(run(KRR, tmp_path / "a.parquet"), KRR, values)
    (tmp_path / "a.json").write_text(json.dumps([{"x": value} for value in values], indent=1))
    same(run(KRR, tmp_path / "a.json"), KRR, values)
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(b"x\n" + b"2.0\n 3\n"))
    same(run(KRR, tmp_path / "a.csv.bz2"), KRR, [2, 3])
    (tmp_path / "a.txt").write_text("2\n3\n3")  # without a header
    same(run(KRR, tmp_path / "a.txt"), KRR, [2, 3, 3])
    for number in (1, 3):
        (tmp_path / "folders" / f"x={number}").mkdir(parents=True)
        write({"y": [7, 7]}, tmp_path / "folders" / f"x={number}" / "p.parquet")
    same(run(KRR, tmp_path / "folders", "x"), KRR, [1, 1, 3, 3])


def test_known_types_are_those_that_spark_finds(session, tmp_path):
    """So Spark need not run a job to look for them; others it has to find out."""
    path, kinds = (
        tmp_path / "a.parquet",
        ["bool_", "int8", "int16", "int32", "int64", "float32", "float64", "string"],
    )
    columns = {kind: pa.array([None, 1], pa.int64()).cast(getattr(pa, kind)()) for kind in kinds}
    other = {"uint8": pa.array([1, 2], pa.uint8()), "a `b": pa.array([1, 2])}
    pq.write_table(pa.table(columns | other), path)
    (file,) = sdp.engine.find_files(path)
    found = session.read.parquet(str(path)).select(*kinds, "`a ``b`").schema
    assert spark._read(session, [file], [*kinds, "a `b"]).schema == found
    assert spark._write_schema(file, ["int8", "uint8"]) is None
    assert spark._write_schema(file, ["another"]) is None


def test_filters(tmp_path):
    """Also with a seed: partitions start where the rows that are taken do."""
    table = {"x": [0, 3, 2, 1] * 500, "far": [900, 1500, 2000, 1000] * 500}
    for suffix in ("parquet", "csv", "jsonl"):
        path = write(table, tmp_path / f"a.{suffix}")
        column = sdp.open_column(path, "x", where="far > 1000")
        words = [sdp.SeededWords(5), sdp.SeededWords(5)]
        found, expected = (
            sdp.run_file(KRR, column, engine=engine, rng=rng)
            for engine, rng in zip(("spark", "duckdb"), words, strict=True)
        )
        assert found.n == expected.n == 1000
        np.testing.assert_array_equal(found.tally.counts, expected.tally.counts)


def test_a_survey_with_groups(folder):
    groups = ", ".join(f'"{name}"' for name in COUNTRIES.labels)
    survey = sdp.Survey.loads(f"""epsilon = 1.0
delta = 1e-5
on_invalid = "clamp"
[questions.by]
task = "mean"
column = "age"
by = "country"
groups = [{groups}]
lower = 0
upper = 99
""")
    same = [
        sdp.ask(folder / "people.parquet", survey, engine=engine, rng=sdp.SeededWords(3))["by"]
        for engine in ("duckdb", "spark")
    ]
    np.testing.assert_array_equal(*(answer.estimate.value for answer in same))


TRIPS = {
    "who": [1, 2, 1, 3, 1, 2, 1],
    "km": [4, 9, None, 7, 4, 60, 2],
    "hours": [0.5, 1.25, 3.0, 2.0, 0.125, -1.0, 7.5],
    "way": ["bus", "car", "car", "bus", "walk", "walk", "bus"],
    "day": [3, 1, 2, 1, 5, 2, 4],
}


def test_a_file_without_rows_has_no_people(tmp_path):
    path = write({name: [] for name in TRIPS}, tmp_path / "trips.csv")
    reduction = sdp.engine.Reduction(
        column=sdp.open_column(path, "km", people=sdp.engine.People.read("who", reduce="sum")),
        how=sdp.engine.Reduce("sum"),
        domain=sdp.Integers(lower=0, upper=9),
        policy=sdp.OnInvalid.DROP,
        key="k",
    )
    with pytest.raises(sdp.DataError, match="column 'km' has no rows"):
        spark.Spark().reduce(reduction)


@pytest.mark.parametrize("kind", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_rows_become_people_as_on_one_machine(kind, tmp_path):
    """The same value for the same person and key; slowly with every reduction, filters and groups."""
    path = write(TRIPS, tmp_path / f"trips.{kind}")
    ways = sdp.Categories(k=3, names=("bus", "car", "walk"))
    km, hours = sdp.Integers(lower=0, upper=9), sdp.Reals(lower=0.0, upper=8.0, steps=8)
    cases = [
        ("km", km, how, {}) for how in ("sum", "mean", "min", "max", "rows", "one", "last by day")
    ]
    cases += [("hours", hours, how, {}) for how in ("sum", "mean", "one")]
    cases += [("way", ways, how, {}) for how in ("one", "first by day")]
    cases += [("km", km, None, {"of": "rows", "max_rows": 2})]
    if kind == "csv":
        cases = [("hours", hours, "mean", {}), ("km", km, "one", {}), cases[-1]]
    private = replace(sdp.engine.Filter.read("way != 'walk'"), private=True)
    for name, domain, how, more in cases:
        for where, by in ((None, None), (private, None), (None, "way")):
            if by is not None and (name == "way" or more):
                continue
            if kind == "csv" and where is not None:
                continue
            named = sdp.engine.People.read("who", reduce=how, **more)
            column = sdp.open_column(path, name, people=named, where=where)
            chosen = sdp.engine.Reduce((how or "sum").split()[0])
            reduction = sdp.engine.Reduction(
                column=column,
                how=chosen,
                domain=domain,
                policy=sdp.OnInvalid.DROP,
                key="k",
                by=by,
                groups=None if by is None else ways,
            )
            here, there = sdp.engine.DuckDB().reduce(reduction), spark.Spark().reduce(reduction)
            assert there.column.array.to_pylist() == here.column.array.to_pylist(), (name, how, by)
            assert there.counts.tolist() == here.counts.tolist()
            assert (there.rows, there.taken) == (here.rows, here.taken)
            if by is not None:
                assert there.groups.array.to_pylist() == here.groups.array.to_pylist()


def test_a_private_filter_of_rows_keeps_every_row(tmp_path):
    """Each row is a person; whoever the filter does not take, or has no value, has none."""
    path = write(TRIPS, tmp_path / "trips.csv")
    private = replace(sdp.engine.Filter.read("way != 'walk'"), private=True)
    reduction = sdp.engine.Reduction(
        column=sdp.open_column(path, "km", where=private),
        how=sdp.engine.Reduce.ONE,
        domain=sdp.Integers(lower=0, upper=60),
        policy=sdp.OnInvalid.DROP,
        key="k",
    )
    here, there = sdp.engine.DuckDB().reduce(reduction), spark.Spark().reduce(reduction)
    assert here.column.array.to_pylist() == [4, 9, None, 7, None, None, 2]
    assert there.column.array.to_pylist() == here.column.array.to_pylist()
    assert (there.rows, there.taken) == (here.rows, here.taken) == (7, 4)


def test_what_is_wrong_with_a_row_is_said_without_its_value(tmp_path):
    path = write({"who": [1, 2], "km": ["far", "3"]}, tmp_path / "bad.csv")
    column = sdp.open_column(path, "km", people=sdp.engine.People.read("who"))
    reduction = sdp.engine.Reduction(
        column=column,
        how=sdp.engine.Reduce.SUM,
        domain=sdp.Integers(lower=0, upper=9),
        policy=sdp.OnInvalid.ERROR,
        key="k",
    )
    with pytest.raises(sdp.DataError, match="column 'km': a value is not a number") as failed:
        spark.Spark().reduce(reduction)
    assert "far" not in str(failed.value)


SURVEY = (
    MIXED.replace('"mean"', '"quantiles"')
    + """
[questions.region]
task = "histogram"
categories = ["north", "south"]
"""
)


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory):
    """A folder as Spark writes it: a column in the names of its folders, and files that are no data."""
    place, random = tmp_path_factory.mktemp("people"), np.random.default_rng(8)
    for region in ("north", "south"):
        folder = place / f"region={region}"
        folder.mkdir()
        for part in range(2):
            ways = [("car", "bus", "ferry", None)[i] for i in random.integers(0, 4, 700)]
            words = [("ja", "nein", "doch", "x" * 20)[i] for i in random.integers(0, 4, 700)]
            table = {
                "way": ways,
                "home": random.random(700) < 0.3,
                "age": random.integers(0, 100, 700),
                "pace": random.random(700),
                "word": words,
            }
            pq.write_table(pa.table(table), folder / f"part-{part}.parquet")
    (place / "_SUCCESS").touch()
    return str(place)


@pytest.fixture
def no_workers(monkeypatch):
    monkeypatch.setattr(spark, "_map", lambda *_: pytest.fail("a Python worker is started"))


@pytest.mark.parametrize("early", [True, False])
def test_a_survey_of_a_partitioned_folder(partitioned, no_workers, early):
    """Histograms, counts, quantiles and groups: the answers of DuckDB for the same words, by group-bys alone."""
    survey = sdp.Survey.loads(SURVEY)

    def ask(engine):
        prepared = survey.prepare(
            partitioned, engine=engine, rng=sdp.SeededWords(3), read_early=early
        )
        return prepared.answer().to_dict()

    assert ask("spark") == ask("duckdb") == ask("memory")


def test_files_that_are_alike_are_read_in_one_scan(partitioned):
    """Unless the names of their folders are asked for, or a file is named twice: its people count twice."""
    column = sdp.open_column(partitioned, "age")
    files = list(column.files)
    assert len(files) == 4
    assert spark._join_files(files, ["age"]) == [files]
    by_region = spark._join_files(files, ["age", "region"])
    assert [[each.partition[0][1] for each in some] for some in by_region] == [
        ["north", "north"],
        ["south", "south"],
    ]
    assert spark._join_files([*files, files[0]], ["age"]) == [files, [files[0]]]
    assert spark._separate_files(files, ["age"]) == [[file] for file in files]
    whole = replace(column, files=(*column.files, column.files[0]))
    protocol = sdp.protocols.krr.make_local(k=100, epsilon=2.0)
    found = sdp.run_file(protocol, whole, engine="spark", rng=sdp.SeededWords(3))
    assert found.n == 3500


@pytest.mark.parametrize("name", ["_a.parquet", ".a.parquet", "_a.csv"])
def test_files_that_spark_would_leave_out_are_refused(tmp_path, name):
    """Spark takes them for unfinished, and would count nobody in them; the other engines count them."""
    path, more = tmp_path / name, tmp_path / "_way=bus.parquet"
    write({"way": ["bus", "bus"]}, path)
    write({"way": ["bus"] * 500}, more)
    asked = {"column": "way", "categories": ["bus", "car"], "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(sdp.DataError, match=f"^Spark reads nothing from .*{name}, because of its"):
        sdp.ask([path, more], "histogram", engine="spark", **asked)
    assert sdp.ask([path, more], "histogram", **asked).n == 502
    link = tmp_path / f"linked{path.suffix}"
    link.symlink_to(path)
    with pytest.raises(sdp.DataError, match=f"^Spark reads nothing from .*{link.name}, because of"):
        sdp.ask(link, "histogram", engine="spark", **asked)
    assert sdp.ask(more, "histogram", engine="spark", **asked).n == 500


def test_texts_are_scanned_one_by_one(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("age\n1\n")
    files = sdp.open_column(str(tmp_path / "*.csv"), "age").files
    assert spark._join_files(files, ["age"]) == [[file] for file in files]


BY_REGION = """
epsilon = 1.0
delta = 1e-5
[questions.ways]
task = "histogram"
column = "way"
categories = ["car", "bus", "other"]
on_invalid = "other"
by = "region"
groups = ["north", "south"]
[questions.homes]
task = "count"
column = "home"
by = "region"
groups = ["north", "south"]
[questions.ages]
task = "mean"
column = "age"
lower = 0
upper = 99
by = "region"
groups = ["north", "south"]
[questions.halves]
task = "quantiles"
column = "age"
lower = 0
upper = 99
at = [0.25, 0.5]
by = "region"
groups = ["north", "south"]
[questions.old]
task = "sum"
column = "age"
lower = 0
upper = 99
"""


def test_questions_by_a_column_of_folder_names(partitioned, no_workers):
    """Groups that no file holds: Spark takes them from the folders, as the other engines do."""
    survey = sdp.Survey.loads(BY_REGION)
    answers = [
        survey.prepare(partitioned, engine=engine, rng=sdp.SeededWords(3)).answer()
        for engine in ("spark", "duckdb", "memory")
    ]
    assert answers[0].to_dict() == answers[1].to_dict() == answers[2].to_dict()
    assert min(answers[0]["homes"].estimate.value) > 300  # 420 in each region


@pytest.mark.parametrize("task", ["quantiles", "median", "variance", "bins"])
def test_numbers_of_a_partitioned_folder(partitioned, no_workers, task):
    """The whole integers of a column are grouped by Spark itself; every engine answers the same."""
    own = {"quantiles": {"at": [0.1, 0.9]}, "bins": {"edges": [0, 30, 60, 100]}}.get(task, {})
    ends = {} if task == "bins" else {"lower": 0, "upper": 99}
    answers = [
        sdp.ask(partitioned, task, column="age", epsilon=1.0, delta=1e-5, engine=engine,
                rng=sdp.SeededWords(3), **ends, **own)
        for engine in ("spark", "duckdb", "memory")
    ]  # fmt: skip
    values = [np.asarray(answer.estimate.value).tolist() for answer in answers]
    assert values[0] == values[1] == values[2]
    assert answers[0].engine.name == "spark"


@pytest.mark.parametrize(
    ("task", "column", "by", "policy"),
    [("median", "age", "region", "error"), ("count", "home", "way", "drop"), ("histogram", "age", "way", "other")],
)  # fmt: skip
def test_one_question_by_group_of_a_partitioned_folder(
    partitioned, no_workers, monkeypatch, task, column, by, policy
):
    """It is grouped where the rows are: none of them is read here, and the answer is that of the other engines."""
    groups = {"region": ["north", "south"], "way": ["car", "bus", "other"]}[by]
    ends = {} if task == "count" else {"lower": 0, "upper": 99}

    def ask(engine):
        answer = sdp.ask(partitioned, task, column=column, by=by, groups=groups, on_invalid=policy,
                         epsilon=2.0, delta=1e-5, engine=engine, rng=sdp.SeededWords(3), **ends)  # fmt: skip
        return {**answer.to_dict(), "engine": None}

    with monkeypatch.context() as patched:
        patched.setattr(prepared, "group_pairs", lambda *_, **__: None)
        row_by_row = ask("memory")
    monkeypatch.setattr(prepared, "pair_people", lambda *_, **__: pytest.fail("rows are read here"))
    assert ask("spark") == ask("duckdb") == ask("memory") == row_by_row


def test_a_value_that_is_no_answer_of_a_group_is_refused(partitioned, no_workers):
    with pytest.raises(sdp.DataError, match=r"^column 'way': value 'ferry' "):
        sdp.ask(partitioned, "count", column="home", by="way", groups=["car", "bus"], epsilon=2.0,
                delta=1e-5, engine="spark", on_invalid={"null": "drop"})  # fmt: skip


def test_words_of_a_partitioned_folder(partitioned, no_workers):
    protocol = sdp.words(n=2800, epsilon=1.0, delta=1e-6, alphabet="letters", max_length=6)
    tallies = [
        sdp.run_file(
            protocol,
            sdp.open_column(partitioned, "word"),
            engine=engine,
            on_invalid="clamp",
            rng=sdp.SeededWords(3),
        )
        for engine in ("spark", "duckdb", "memory")
    ]
    for other in tallies[1:]:
        np.testing.assert_array_equal(tallies[0].tally.counts, other.tally.counts)
        assert tallies[0].invalid == other.invalid
    assert tallies[0].dealt
    assert tallies[0].n == 2800


def test_words_that_are_not_allowed_are_named(partitioned, no_workers):
    protocol = sdp.words(n=2800, epsilon=1.0, delta=1e-6, alphabet="letters", max_length=6)
    with pytest.raises(sdp.DataError, match="column 'word': value 'xxxx"):
        run(protocol, partitioned, "word")


def test_every_row_that_names_nobody_is_a_person_of_its_own(tmp_path):
    """Whichever partition and batch it is in: rows of two people must not become one."""
    rows = 25_000  # a batch has 10,000
    table = {"who": [None] * rows, "km": [1] * rows}
    for name in ("a", "b"):
        write(table, tmp_path / f"{name}.parquet")
    people = sdp.engine.People.read("who", missing_person="own")
    column = sdp.engine.open_column(f"{tmp_path}/*.parquet", "km", people=people)
    reduction = Reduction(
        column=column,
        how=sdp.engine.Reduce.SUM,
        domain=sdp.Integers(lower=0, upper=9),
        policy=sdp.engine.OnInvalid.ERROR,
        key="key",
    )
    found = spark.Spark().reduce(reduction).column.array
    assert (len(found), set(found.to_pylist())) == (2 * rows, {1})
