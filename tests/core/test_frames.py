"""Answers as tables of pandas, Polars and Arrow: the same numbers in each."""

import subprocess
import sys

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import Categories
from shuffledp.core.display import Number
from shuffledp.questions import QuestionAnswer
from shuffledp.tasks.groups import Grouped
from shuffledp.tasks.totals import Count

COMMON = {"epsilon": 1.0, "delta": 1e-6}
ENDS = {"lower": 0, "upper": 9}
FIELDS = list(Number._fields)
NUMBERS = [x % 10 for x in range(1000)]
WAYS = ["car", "bus", "größe 東京", "car"] * 250
QUESTIONS = {
    "count": ([0, 1] * 500, "count", {}),
    "sum": (NUMBERS, "sum", ENDS),
    "mean": (NUMBERS, "mean", ENDS),
    "histogram": (WAYS, "histogram", {"categories": ["car", "bus", "größe 東京"]}),
    "quantiles": (NUMBERS, "quantiles", {**ENDS, "at": [0.25, 0.5]}),
    "cdf": (NUMBERS, "cdf", {**ENDS, "at": [2, 5]}),
    "variance": (NUMBERS, "variance", ENDS),
    "bins": (NUMBERS, "bins", {"edges": [0, 5, 9]}),
}


def ask(name):
    values, task, options = QUESTIONS[name]
    return sdp.ask(values, task, rng=sdp.SeededWords(1), **COMMON, **options)


def answer_survey():
    """A survey's answers, one of them by group, made of estimates that are cheap."""
    home, way = ask("count"), ask("histogram")
    groups = Categories(k=3, names=("car", "bus", "größe 東京"))
    pairs = sdp.run(sdp.histogram(n=1000, k=6, **COMMON), np.arange(1000) % 6, sdp.SeededWords(1))
    by = Grouped.of(Count(domain=sdp.Bits()), groups).convert(pairs)
    made = {
        "home": ("count", home.estimate),
        "way": ("histogram", way.estimate),
        "by": ("count", by),
    }
    answers = tuple(
        QuestionAnswer(name=name, task=task, protocol=way.protocol, estimate=estimate)
        for name, (task, estimate) in made.items()
    )
    return sdp.SurveyAnswer(name="ways", protocol=way.protocol, answers=answers, n=1000)


def same(shown, names, rows):
    """All three tables have these columns and rows."""
    arrow, pandas, polars = shown.to_arrow(), shown.to_pandas(), shown.to_polars()
    assert arrow.column_names == list(pandas.columns) == polars.columns == names
    expected = [dict(zip(names, row, strict=True)) for row in rows]
    assert arrow.to_pylist() == pandas.to_dict("records") == polars.to_dicts() == expected
    assert all(str(pandas[name].dtype) == "float64" for name in names[names.index("label") + 1 :])


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers(name):
    answer = ask(name)
    same(answer, FIELDS, answer.picture.rows)


@pytest.mark.parametrize("name", QUESTIONS)
def test_estimates(name):
    estimate = ask(name).estimate
    low, high = estimate.interval(0.5)
    table = estimate.to_pandas(level=0.5)
    assert table["low"].tolist() == pytest.approx([low] if estimate.labels is None else list(low))
    assert table["high"].tolist() == pytest.approx(
        [high] if estimate.labels is None else list(high)
    )
    assert estimate.to_arrow(0.5).to_pylist() == estimate.to_polars(0.5).to_dicts()


def test_surveys_and_their_questions():
    answered = answer_survey()
    rows = [(each.name, *row) for each in answered.answers for row in each.picture.rows]
    same(answered, ["question", *FIELDS], rows)
    assert {row[0] for row in rows} == {"home", "way", "by"}
    same(answered["by"], FIELDS, answered["by"].picture.rows)
    assert answered["by"].to_pandas()["label"].tolist() == ["car", "bus", "größe 東京"]


def test_learned_distributions():
    learned = sdp.learn([0, 1, 1, 2] * 500, k=3, rng=sdp.SeededWords(1), **COMMON)
    names = ["label", "share", *FIELDS[1:]]
    same(learned, names, [tuple(row.values()) for row in learned.to_dict()["estimate"]])
    assert learned.to_pandas()["share"].sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("library", "method", "extra"),
    [
        ("pandas", "to_pandas", "frames"),
        ("polars", "to_polars", "frames"),
        ("pyarrow", "to_arrow", "data"),
    ],
)
def test_a_missing_library_is_named_with_its_extra(monkeypatch, library, method, extra):
    estimate = ask("count").estimate
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(sdp.UnsupportedError, match=rf"needs {library}: .*shuffledp\[{extra}\]"):
        getattr(estimate, method)()


def test_nothing_is_imported_before_it_is_asked_for():
    code = (
        "import sys, shuffledp as sdp; sdp.run(sdp.protocols.rr.make_local(epsilon=1.0), [0, 1])\n"
        "print(*{'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
