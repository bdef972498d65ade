"""What Spark's workers compute, without a cluster: partitions are played one after the other in this process."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from threading import Event
from time import sleep
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp.engine import Memory, Rounding, spark, take_column
from shuffledp.engine.chunks import Job
from shuffledp.engine.codes import Coder
from shuffledp.engine.columns import Column
from shuffledp.engine.people import People
from shuffledp.engine.reducing import Reduction
from shuffledp.numerics.entropy import RunKey

CUTS = (0, 3, 3, 7, 12)  # four partitions, one of them empty
PETS = sdp.Categories(k=3, names=("cat", "dog", "other"))
NAMES = ["cat", "dog", None, "cow", "cat", "dog", "dog", "cat", "", "cat", "cow", "dog"]
SHARES = np.linspace(0.0, 1.0, 12)
KRR = sdp.protocols.krr.make_local(k=3, epsilon=1.0)
DUCHI = sdp.protocols.duchi.make_local(lower=0.0, upper=1.0, steps=5, epsilon=1.0)


@pytest.fixture
def cluster(monkeypatch):
    """A cluster that reads the column of a job, which is in memory, in partitions."""

    def collect(_, job, column, work):
        if isinstance(work.words, sdp.SeededWords):
            work = replace(work, starts=dict(enumerate(CUTS[:-1])))
        low, high, errors = Counter(), Counter(), {}
        for place, (start, end) in enumerate(pairwise(CUTS)):
            monkeypatch.setattr(spark, "_find_partition", lambda place=place: place)
            batches = [pa.record_batch([column.array.slice(start, end - start)], names=["value"])]
            for sent in work(iter(batches if end > start else [])):
                for row in sent.to_pylist():
                    low[row["cell"]] += row["low"]
                    high[row["cell"]] += row["high"]
                    errors[row["cell"]] = errors.get(row["cell"]) or row["error"]
        return [(cell, low[cell], high[cell], errors[cell]) for cell in low]

    monkeypatch.setattr(spark, "_collect", collect)
    monkeypatch.setattr(spark.Spark, "_open", lambda *_: None)
    return spark.Spark()


def job(values, domain, policy="error"):
    return Job(column=take_column(values), coder=Coder(domain=domain, on_invalid=policy))


@pytest.mark.parametrize("policy", ["drop", "other", "null=drop,unknown=other"])
def test_headcounts_are_those_of_one_machine(cluster, policy):
    asked = job(NAMES, PETS, policy)
    here, there = Memory().headcount(asked), cluster.headcount(asked)
    assert (there.n, there.rows, there.invalid) == (here.n, here.rows, here.invalid)
    assert there.job is None


@pytest.mark.parametrize("seed", [7, None])
@pytest.mark.parametrize(
    ("values", "protocol", "domain"), [(NAMES, KRR, PETS), (SHARES, DUCHI, DUCHI.randomizer.domain)]
)
def test_a_seed_gives_the_same_tally_as_one_machine(cluster, values, protocol, domain, seed):
    asked = job(values, domain, "drop" if domain is PETS else "error")
    words = [None if seed is None else sdp.SeededWords(seed) for _ in range(2)]
    here = Memory().tally(asked, protocol, words[0])
    there = cluster.tally(asked, protocol, words[1])
    assert (there.rows, there.invalid, there.tally.users) == (
        here.rows,
        here.invalid,
        here.tally.users,
    )
    assert there.tally.counts.shape == here.tally.counts.shape
    if seed is not None:
        assert there.tally.counts.tolist() == here.tally.counts.tolist()
        assert words[0].words(1) == words[1].words(1), (
            "the source is where one reader would leave it"
        )


@pytest.mark.parametrize("seed", [3, None])
def test_reals_are_rounded_beside_the_data(cluster, seed):
    asked = job(SHARES, DUCHI.randomizer.domain)
    words = [None if seed is None else sdp.SeededWords(seed) for _ in range(2)]
    here = Memory().counts(asked, Rounding(rng=words[0], bits=64))
    there = cluster.counts(asked, Rounding(rng=words[1], bits=64))
    assert (there.rows, there.invalid, there.n) == (12, here.invalid, 12)
    assert len(there.counts) == 6
    assert np.all(np.abs(there.counts - 12 / 5)[1:-1] < 5)
    if seed is not None:
        assert there.counts.tolist() == here.counts.tolist()
        assert words[0].words(1) == words[1].words(1)
    nearest = cluster.counts(asked)
    assert nearest.counts.tolist() == Memory().counts(asked).counts.tolist() == np.bincount(
        DUCHI.randomizer.domain.codes(SHARES), minlength=6).tolist()  # fmt: skip


def test_nobody_and_what_is_wrong(cluster):
    with pytest.raises(sdp.DataError, match="column 'values' has no valid value; without"):
        cluster.tally(job([None] * 12, PETS, "drop"), KRR, None)
    said = r"^column 'values': value 'cow' is none of the categories"
    for ask in (cluster.headcount, lambda each: cluster.tally(each, KRR, None)):
        with pytest.raises(sdp.DataError, match=said):
            ask(job(["cat"] * 11 + ["cow"], PETS))
    with pytest.raises(sdp.DataError, match="column 'values': the domain wants categories"):
        cluster.headcount(
            Job(
                column=take_column(pa.array([b"x"] * 12)),
                coder=Coder(domain=PETS, on_invalid="drop"),
            )
        )


@pytest.mark.parametrize(
    "counts", [[0, 0, 0], [1, 0, 2], [2**32, 2**40 + 5, 0, 1], [-1, -(2**33), 7]]
)
def test_cells_are_sent_in_halves(counts):
    """Halves of 32 bits that are added up, and put together modulo 2^64."""
    cells = spark._make_cells(np.array(counts))
    assert len(counts) - 1 in cells
    assert {cell: value for cell, value in cells.items() if value} == {
        place: each for place, each in enumerate(counts) if each
    }
    sent = spark._send(cells).to_pylist()
    for row in sent:
        assert 0 <= row["low"] < 2**32
        assert row["error"] is None
    twice = {row["cell"]: spark._wrap(2 * row["low"] + ((2 * row["high"]) << 32)) for row in sent}
    assert twice == {cell: 2 * value for cell, value in cells.items()}
    assert spark._wrap(2**63) == -(2**63)
    assert spark._wrap(-(2**63) - 1) == 2**63 - 1


def test_secure_words_are_of_the_run_and_the_partition():
    assert isinstance(spark._choose_words(None), RunKey)
    assert isinstance(spark._choose_words(sdp.SecureWords()), RunKey)
    seed = sdp.SeededWords(1)
    assert spark._choose_words(seed) is seed


def test_columns_of_people_are_on_this_machine_already(cluster):
    reduced = replace(take_column(NAMES), reduced=True)
    asked = Job(column=reduced, coder=Coder(domain=PETS, on_invalid="drop"))
    assert cluster.headcount(asked).n == Memory().headcount(asked).n
    assert cluster.counts(asked).counts.tolist() == Memory().counts(asked).counts.tolist()
    assert cluster.tally(asked, KRR, sdp.SeededWords(2)).tally.counts.tolist() == Memory().tally(
        asked, KRR, sdp.SeededWords(2)).tally.counts.tolist()  # fmt: skip
    assert cluster.group([(reduced,)]) is None
    with pytest.raises(
        sdp.UnsupportedError, match="Spark does not filter questions by group: use another engine"
    ):
        cluster.group([(replace(reduced, reduced=False, where=sdp.engine.Filter.read("x > 1")),)])


def test_a_column_in_memory_is_for_other_engines():
    with pytest.raises(
        sdp.UnsupportedError, match="Spark reads files: for a column in memory use another engine"
    ):
        spark.Spark().headcount(job(NAMES, PETS, "drop"))


@pytest.mark.parametrize(
    ("how", "more", "schema"),
    [
        ("sum", {}, "p0 string, v long, ok boolean"),
        ("last by day", {}, "p0 string, v long, o0 long, o1 double, o2 string, ok boolean"),
        (
            "sum",
            {"by": "g", "groups": sdp.Categories(k=2)},
            "p0 string, v long, g long, ok boolean",
        ),
    ],
)
def test_what_workers_send_of_rows(how, more, schema):
    table = {"who": ["a", "b", "a"], "v": ["1", "2", "x"], "day": [1, 2, 3], "g": ["0", "1", "1"]}
    people = People.read("who", reduce=how)
    column = take_column(table, "v", people=people, also=["day", "g"])
    reduction = Reduction(
        column=column, how=people.reduce, domain=sdp.Integers(lower=0, upper=9),
        policy=sdp.engine.OnInvalid.read("drop"), key="key", **more)  # fmt: skip
    assert spark._write_rows_schema(reduction) == schema
    arrays = [pa.array(table[name]) for name in reduction.names]
    reader = spark._RowReader(reduction, (False,))
    batch = pa.record_batch(arrays, names=[str(place) for place in range(len(arrays))])
    first, second = reader(iter([batch, batch.slice(0, 1)]))
    assert first.schema.names == [part.split()[0] for part in schema.split(", ")]
    assert first.column("p0").to_pylist() == ["a", "b", "a"]
    assert first.column("ok").to_pylist() == [True, True, False]
    assert second.num_rows == 1
    strict = replace(reduction, policy=sdp.engine.OnInvalid.ERROR)
    with pytest.raises(
        RuntimeError, match=r"^\[rows: a value is not a number.* :rows\]$"
    ) as refused:
        list(spark._RowReader(strict, (False,))(iter([batch])))
    assert "x" not in str(refused.value).replace("examples", "")[:30]
    nobody = pa.record_batch([pa.array(["1"]), pa.array([None], pa.string()), *(array.slice(0, 1) for array in arrays[2:])],
                             names=batch.schema.names)  # fmt: skip
    with pytest.raises(RuntimeError, match=r"position 3 names no person \(who\)"):
        list(reader(iter([batch, nobody])))


def test_a_column_of_text_is_sent_as_text():
    column = take_column({"who": [1], "v": ["cat"]}, "v", people=People.read("who", reduce="one"))
    words = sdp.Texts(alphabet="letters", max_length=3)
    reduction = Reduction(
        column=column,
        how=column.people.reduce,
        domain=words,
        policy=sdp.engine.OnInvalid.ERROR,
        key="",
    )
    assert spark._write_rows_schema(reduction) == "p0 string, v string, ok boolean"
    typed = Column(
        name="v", array=pa.array(["cat"]), people=column.people, beside={"who": pa.array([1])}
    )
    assert (
        spark._write_rows_schema(replace(reduction, column=typed))
        == "p0 long, v string, ok boolean"
    )


class Tracked:
    """A context of Spark whose jobs have stages, each with its tasks and those that are done."""

    def __init__(self, jobs):
        self.jobs, self.group, self.cancelled = jobs, None, []
        self.cancelJobGroup = self.cancelled.append

    def setJobGroup(self, group, said):
        self.group = group

    def statusTracker(self):
        stages = {
            number: each for job in self.jobs.values() for number, each in (job or {}).items()
        }
        jobs = {
            number: None if job is None else SimpleNamespace(stageIds=[*job])
            for number, job in self.jobs.items()
        }

        def tell_stage(number):
            if stages[number] is None:
                return None
            return SimpleNamespace(numTasks=stages[number][0], numCompletedTasks=stages[number][1])

        return SimpleNamespace(
            getJobIdsForGroup=lambda group: [*jobs] if group == self.group else [],
            getJobInfo=jobs.get,
            getStageInfo=tell_stage,
        )


@pytest.mark.parametrize(
    ("jobs", "share"),
    [
        ({}, 0.0),
        ({1: None}, 0.0),
        ({1: {}}, 0.0),
        ({1: {10: None}}, 0.0),
        ({1: {10: (0, 0)}}, 0.0),
        ({1: {10: (8, 2)}}, 0.25),
        ({1: {10: (8, 8)}}, 1.0),
        ({1: {10: (8, 2), 11: (2, 2)}, 2: None, 3: {12: (4, 1), 13: None}}, 0.25),
    ],
)
def test_progress_is_that_of_the_largest_stage(jobs, share):
    context = Tracked(jobs)
    context.group = "mine"
    assert spark._measure_progress(context, "mine") == share
    assert spark._measure_progress(context, "another") == 0.0


def test_an_action_is_watched_and_its_result_returned(monkeypatch):
    monkeypatch.setattr(spark, "_POLL_SECONDS", 0.001)
    context, told = Tracked({1: {10: (4, 1)}}), []
    job = SimpleNamespace(column=SimpleNamespace(rows_guess=100), show=told.append)

    def act():
        while not told:
            sleep(0.001)
        return ["rows"]

    assert spark._watch(job, SimpleNamespace(sparkContext=context), act) == ["rows"]
    assert (told[0], told[-1], set(told)) == (25, 100, {25, 100})
    assert context.group.startswith("shuffledp ")
    assert context.cancelled == []
    job.column.rows_guess = None
    told.clear()
    assert spark._watch(job, SimpleNamespace(sparkContext=context), list) == []
    assert set(told) == {0}


def test_who_interrupts_an_action_cancels_it(monkeypatch):
    monkeypatch.setattr(spark, "_POLL_SECONDS", 0.001)
    context, interrupted = Tracked({}), Event()

    def show(_):
        interrupted.set()
        raise KeyboardInterrupt

    job = SimpleNamespace(column=SimpleNamespace(rows_guess=100), show=show)
    with pytest.raises(KeyboardInterrupt):
        spark._watch(job, SimpleNamespace(sparkContext=context), interrupted.wait)
    assert context.cancelled == [context.group]
