"""Histograms of people with several categories, and of their rows: who counts where, and what others can tell."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.engine import tally_file

KINDS = list("abcd")
ASKED: dict[str, Any] = {"column": "kind", "person": "who", "categories": KINDS}
PLAIN = "dummies_histogram"
MODELS: dict[str, dict[str, Any]] = {
    "shuffle": {"delta": 1e-6, "protocol": PLAIN},
    "central": {},
    "local": {},
}


def make_table(people: int = 300) -> dict[str, list[Any]]:
    rng = np.random.default_rng(1)
    rows = [(who, KINDS[kind]) for who in range(people) for kind in rng.integers(4, size=who % 6)]
    rows += [(who, "a") for who in range(people)]
    return {"who": [who for who, _ in rows], "kind": [kind for _, kind in rows]}


def count_people(table: dict[str, list[Any]]) -> list[float]:
    pairs = set(zip(table["who"], table["kind"], strict=True))
    found = Counter(kind for _, kind in pairs)
    return [float(found[kind]) for kind in KINDS]


def ask(table: dict[str, list[Any]], model: str = "central", **more: Any) -> sdp.Answer:
    given = {**ASKED, "epsilon": 8.0, "rng": sdp.SeededWords(1), "model": model, **more}
    return sdp.ask(table, "histogram", **MODELS[model], **given)


@pytest.mark.parametrize("model", MODELS)
def test_people_count_once_in_each_of_their_categories(model: str) -> None:
    table = make_table()
    answer = ask(table, model, max_categories=4)
    off = np.abs(np.asarray(answer.estimate.value) - count_people(table))
    assert np.all(off < 5 * np.asarray(answer.estimate.stderr) + 1)
    assert (answer.n, answer.unit, answer.estimate.labels) == (300, "person", tuple(KINDS))
    assert answer.estimate.limits == (0.0, 300.0)
    assert (
        "once in each of their categories, or in 4 of them, chosen at random, if there are more"
        in " ".join(answer.notes)
    )


@pytest.mark.parametrize("model", MODELS)
def test_rows_count_up_to_the_most(model: str) -> None:
    table = make_table()
    answer = ask(table, model, of="rows", max_rows=6)
    exact = Counter(table["kind"])
    off = np.abs(np.asarray(answer.estimate.value) - [exact[kind] for kind in KINDS])
    assert np.all(off < 5 * np.asarray(answer.estimate.stderr) + 1)
    assert answer.estimate.limits == (0.0, 1800.0)


def test_of_more_as_many_as_are_said_count_at_random() -> None:
    table = {"who": [who for who in range(400) for _ in "abcd"], "kind": KINDS * 400}
    for more in ({"max_categories": 2}, {"of": "rows", "max_rows": 2}):
        value = np.asarray(ask(table, **more).estimate.value)
        assert abs(value.sum() - 800) < 20
        assert np.all(np.abs(value - 200) < 60)


@pytest.mark.parametrize("more", [{"max_categories": 2}, {"of": "rows", "max_rows": 2}])
@pytest.mark.parametrize(
    "rows", [["a"], ["a"] * 1000, ["a", "b", "c", "d"], ["?"], ["a", "?", "a"]]
)
def test_one_person_moves_as_many_values_as_are_said(more: dict[str, Any], rows: list[str]) -> None:
    """Replace somebody's rows: the exact counts, with their empty places, change by at most twice K."""
    from shuffledp.engine import find_engine
    from shuffledp.questions import Question, Survey
    from shuffledp.questions.people import make_people

    def count(own: list[str]) -> Counter[str]:
        table = {"who": [1] * len(own) + [2, 2, 3], "kind": [*own, "a", "b", "d"]}
        question = Question(
            name="q",
            task="histogram",
            column="kind",
            options={"categories": KINDS},
            people=sdp.engine.People.read("who", **more),
        )
        survey = Survey.of(question, epsilon=1.0, model="central", on_invalid="drop")
        columns = survey.open(table)
        made = make_people(survey, columns, find_engine("memory"), sdp.SeededWords(1))
        return Counter(made.columns["kind"].array.to_pylist())

    first, second = count(rows), count(["b", "c"])
    assert first.total() == second.total() == 6
    gone, come = first - second, second - first
    assert gone.total() == come.total() <= 2
    if "max_categories" in more:
        assert max([*gone.values(), *come.values()], default=0) <= 1


def test_the_promise_of_a_curator_covers_all_values() -> None:
    table = make_table()
    one, four = (ask(table, max_categories=most, epsilon=1.0).protocol for most in (1, 4))
    assert one.parameters["sensitivity"] == 2
    assert four.parameters["sensitivity"] == 8


@pytest.mark.slow
def test_messages_and_surveys_have_the_same_bins(tmp_path: Path) -> None:
    table, text = make_table(), tmp_path / "survey.toml"
    text.write_text(
        "epsilon = 8.0\ndelta = 1e-6\nperson = 'who'\n"
        "[questions.kind]\ntask = 'histogram'\ncategories = ['a', 'b', 'c', 'd']\nmax_categories = 4\n"
        "protocol = 'dummies_histogram'\n"
        "[questions.rows]\ntask = 'histogram'\ncolumn = 'kind'\ncategories = ['a', 'b', 'c', 'd']\n"
        "of = 'rows'\nmax_rows = 6\nprotocol = 'dummies_histogram'\n"
        "[questions.some]\ntask = 'count'\ncolumn = 'kind'\ntrue_value = 'b'\n",
        encoding="utf-8",
    )
    survey = sdp.Survey.load(text)
    answers = [sdp.ask(table, survey, rng=sdp.SeededWords(1))]
    sent = survey.prepare(table, rng=sdp.SeededWords(1)).randomize(tmp_path / "sent.parquet")
    answers.append(sdp.SurveyAnswer.of(tally_file(sent.path)))
    for answer in answers:
        found = answer["kind"].estimate
        assert answer.n == 300
        assert found.labels == tuple(KINDS)
        off = np.abs(np.asarray(found.value) - count_people(table))
        assert np.all(off < 5 * np.asarray(found.stderr) + 1)
        assert abs(np.sum(answer["rows"].estimate.value) - len(table["who"])) < 200


def test_messages_of_one_question_are_read_again(tmp_path: Path) -> None:
    table, out = make_table(), tmp_path / "sent.arrow"
    question = sdp.Question(
        name="kind",
        task="histogram",
        column="kind",
        options={"categories": KINDS},
        people=sdp.engine.People.read("who", max_categories=4),
        protocol=PLAIN,
    )
    survey = sdp.Survey.of(question, epsilon=8.0, delta=1e-6)
    sent = survey.prepare(table, rng=sdp.SeededWords(1), sent=True).randomize(out)
    answer = sdp.Answer.of(tally_file(out))
    assert (sent.n, answer.n, answer.unit) == (300, 300, "person")
    assert answer.estimate.labels == tuple(KINDS)
    assert answer.estimate.limits == (0.0, 300.0)
    off = np.abs(np.asarray(answer.estimate.value) - count_people(table))
    assert np.all(off < 5 * np.asarray(answer.estimate.stderr) + 1)


@pytest.mark.parametrize(
    ("task", "more", "said"),
    [
        ("count", {"max_categories": 2}, "max_categories is for a histogram"),
        ("histogram", {"max_categories": 0}, "max_categories=0 must be >= 1"),
        ("histogram", {"max_categories": 2, "reduce": "one"}, "leave out reduce"),
        ("histogram", {"max_categories": 2, "by": "kind", "groups": ["a", "b"]}, "not by group"),
        ("histogram", {"max_categories": 2, "person": None}, "max_categories needs person"),
        ("histogram", {"of": "rows", "max_rows": 2, "population": True}, "of people"),
    ],
)
def test_what_has_no_answer_is_refused(task: str, more: dict[str, Any], said: str) -> None:
    given = {"column": "kind", "person": "who", "epsilon": 1.0, "model": "central", **more}
    if task == "histogram":
        given["categories"] = KINDS
    with pytest.raises(sdp.ShuffledpError, match=said):
        sdp.ask(make_table(20), task, **given)


def test_empty_places_are_filled_so_that_everybody_has_as_many() -> None:
    """Whoever has two categories of three has the third place empty, and no other."""
    table = {"who": [1, 1, 2, 3, 3, 3, 4], "kind": ["a", "b", "a", "a", "b", "c", None]}
    people = sdp.engine.People.read("who", max_categories=3)
    question = sdp.Question(
        name="kind", task="histogram", column="kind", options={"categories": KINDS}, people=people
    )
    survey = sdp.Survey.of(question, epsilon=8.0, model="central", on_invalid="drop")
    (part,) = survey.prepare(table, rng=sdp.SeededWords(1)).parts
    counted = Counter(part.column.array.to_pylist())
    nones = sorted(name for name in counted if name not in KINDS)
    assert [counted[name] for name in nones] == [1, 2, 3]  # person 4; 2 and 4; 1, 2 and 4
    assert counted.total() == 3 * 4
