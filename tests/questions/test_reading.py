"""One pass over the files answers every question, as reading column by column does."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

import shuffledp as sdp
from shuffledp.engine import DuckDB, Memory, columns, open_column
from shuffledp.engine.columns import TooManyGroupsError, group_sets
from shuffledp.questions import reading
from survey_support import MIXED

N = 4000
SURVEY = sdp.Survey.loads(
    MIXED + '[questions.children]\ntask = "histogram"\nlower = 0\nupper = 4\n'
)
WAYS = ("car", "bus", "ferry", None)
FORMS = ("people.csv", "people.parquet", "part-*.parquet", "by=*/people.parquet")


def make_people():
    random = np.random.default_rng(8)
    return pa.table(
        {
            "age": random.integers(0, 100, N),
            "a.b": random.integers(0, 2, N),
            "way": pa.array([WAYS[i] for i in random.integers(0, 4, N)]),
            "home": random.random(N) < 0.3,
            "pace": random.random(N),
            "children": random.integers(0, 5, N, dtype=np.int8),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place, table = tmp_path_factory.mktemp("people"), make_people()
    write_csv(table, place / "people.csv")
    pq.write_table(table, place / "people.parquet")
    for part, rows in (("1", table.slice(0, 1500)), ("2", table.slice(1500))):
        pq.write_table(rows, place / f"part-{part}.parquet")
        (place / f"by={part}").mkdir()
        pq.write_table(rows, place / f"by={part}" / "people.parquet")
    return place


def answer(path, *, early, engine="duckdb"):
    prepared = SURVEY.prepare(str(path), engine=engine, rng=sdp.SeededWords(3), read_early=early)
    return prepared.answer().to_dict()


@pytest.mark.parametrize("engine", [DuckDB(threads=2), DuckDB(threads=1), Memory()])
@pytest.mark.parametrize("form", FORMS)
def test_the_same_words_give_the_same_answers(folder, form, engine):
    alone = answer(folder / form, early=False, engine=engine)
    assert answer(folder / form, early=True, engine=engine) == alone
    assert alone["n"] == N


def test_one_pass_is_enough(folder, monkeypatch):
    """And one for fractions, which are rounded at random, and one to tell how many groups became 'other'."""
    opened = []

    def connect(threads):
        opened.append(threads)
        return usual(threads)

    usual = columns.connect
    monkeypatch.setattr(columns, "connect", connect)
    answer(folder / "people.csv", early=True)
    assert len(opened) == 3
    opened.clear()
    sdp.ask(str(folder / "people.csv"), SURVEY, engine="duckdb")
    assert len(opened) == 3
    opened.clear()
    answer(folder / "people.csv", early=False)
    assert len(opened) > 6


@pytest.mark.parametrize("few", [(columns, "_SETS", 2), (reading, "_FEW_VALUES", 3)])
def test_many_sets_and_many_values_are_the_same(folder, monkeypatch, few):
    wanted = answer(folder / "people.csv", early=True)
    monkeypatch.setattr(*few)
    assert answer(folder / "people.csv", early=True) == wanted


def test_values_that_do_not_fit_into_memory_are_read_one_by_one(folder, monkeypatch):
    wanted = answer(folder / "people.csv", early=True)

    def fail(*_):
        raise TooManyGroupsError
        yield  # while it is read, not before

    monkeypatch.setattr(DuckDB, "group", fail)
    assert answer(folder / "people.csv", early=True) == wanted


@pytest.mark.parametrize("form", FORMS)
def test_an_invalid_value_is_named_with_its_question_and_row(folder, form):
    strict = sdp.Survey.loads(
        'epsilon = 2.0\ndelta = 1e-6\n[questions.home]\ntask = "count"\n'
        '[questions.children]\ntask = "histogram"\nlower = 0\nupper = 3\n'
    )
    prepared = strict.prepare(str(folder / form), read_early=True)
    with pytest.raises(sdp.DataError, match=r"question 'children': value '?4'? in row \d+ of"):
        prepared.answer()


def test_nobody_is_noticed(tmp_path):
    (tmp_path / "people.csv").write_text("way,home,age,pace,children\n")
    with pytest.raises(sdp.DataError, match="has no valid value"):
        answer(tmp_path / "people.csv", early=True)


@pytest.mark.parametrize("form", FORMS)
def test_sets_are_told_apart(folder, form):
    """A missing value is a value; that a column is not in a set is none."""
    table, path = make_people(), str(folder / form)
    way, home, dotted = (open_column(path, name) for name in ("way", "home", "a.b"))
    found = [{}, {}, {}]
    for place, values, times in group_sets([(way,), (dotted, way), (home,)]):
        texts = (["" if v is None else str(v).lower() for v in each.to_pylist()] for each in values)
        for *key, count in zip(*texts, times.to_pylist(), strict=True):
            found[place][tuple(key)] = found[place].get(tuple(key), 0) + count
    for names, counts in zip((["way"], ["a.b", "way"], ["home"]), found, strict=True):
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        keys = [tuple("" if v is None else str(v).lower() for v in row) for row in rows]
        assert counts == {key: keys.count(key) for key in set(keys)}
