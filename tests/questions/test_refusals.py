"""What is refused, in the words that people read, and what surveys and answers look like elsewhere."""

import json

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp.questions.people import _spell_codes, _with_zero
from shuffledp.questions.reading import _Now

COUNT = {"task": "count", "column": "home"}
ROWS = {"who": [1, 1, 2, 3], "km": [1.0, 2.0, 3.0, 4.0], "way": ["a", "b", "a", "b"]}
CENTRAL = {"epsilon": 1.0, "model": "central"}
TOML = {
    'delta = 1e-6\nepsilon = 1\n': "questions is missing",
    'delta = 1e-6\nepsilon = 1\nquestions = {}\n': "questions must be tables",
    'delta = 1e-6\nepsilon = 1\n[questions]\nhome = 3\n': "question 'home' must be a table",
    'delta = 1e-6\nepsilon = 1\n[questions.home]\ncolumn = "x"\n': "question 'home' has no task",
    'epsilon = 1\n[questions.home]\ntask = "count"\n': "delta is missing",
    'delta = 1e-6\n[questions.home]\ntask = "count"\n': "epsilon is missing: give it, or an error for every",
    'epsilon = "one"\ndelta = 1e-6\n[questions.home]\ntask = "count"\n': "line 1: epsilon='one' must be",
    'epsilon = 1\ndelta = 1e-6\nwho = 3\n[questions.home]\ntask = "count"\n': "line 3: 'who' is not a field of a survey",
    'epsilon = 1\nmodel = "local"\ndelta = 0.1\n[questions.a]\ntask = "count"\n[questions.b]\ntask = "count"\n': (
        "the local model takes no delta"
    ),
    'epsilon = [\n': "s.toml: Invalid value",
    'epsilon = 1\ndelta = 1e-6\n[questions.a]\ntask = "histogram"\nlower = "auto"\nupper = 3\n': (
        "lower='auto' is not for a histogram"
    ),
    'epsilon = 1\ndelta = 1e-6\nbounds_share = 0.2\n[questions.a]\ntask = "count"\n': (
        "bounds_share needs lower='auto' or upper='auto'"
    ),
    'delta = 1e-6\n[questions.a]\ntask = "mean"\nlower = "auto"\nupper = 3\nerror = 0.1\n': (
        "'auto' needs epsilon"
    ),
    'epsilon = 1\ndelta = 1e-6\n[questions.a]\ntask = "count"\nerror = 0.03\n[questions.b]\ntask = "count"\n': (
        "'b' has none"
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", TOML)
def test_a_survey_file_that_says_too_little_or_too_much(text):
    with pytest.raises(sdp.ShuffledpError, match=TOML[text]):
        sdp.Survey.loads(text, "s.toml")


def test_survey_files_are_there_and_text(tmp_path):
    with pytest.raises(sdp.DataError, match=r"^there is no file .*none.toml$"):
        sdp.Survey.load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"title = '\xff'")
    with pytest.raises(sdp.DataError, match=r"bad.toml is not text in UTF-8$"):
        sdp.Survey.load(tmp_path / "bad.toml")
    with pytest.raises(sdp.DataError, match=r"cannot be read: Is a directory$"):
        sdp.Survey.load(tmp_path)
    for model, delta in (("local", 0.0), (None, 1e-6), ("central", 1e-6)):
        text = 'epsilon = 1\ndelta = 1e-6\n[questions.home]\ntask = "count"\n'
        survey = sdp.Survey.loads(text, model=model)
        assert (survey.delta, survey.model.value) == (delta, model or "shuffle")


def test_a_survey_asks_something_once():
    one = sdp.Question(name="home", **COUNT)
    with pytest.raises(sdp.ParameterError, match="questions='home' is asked twice"):
        sdp.Survey(epsilon=1.0, delta=1e-6, questions=(one, one))
    with pytest.raises(sdp.ParameterError, match="must be at least one"):
        sdp.Survey(epsilon=1.0, delta=1e-6, questions=())


def test_notebooks_show_the_questions_and_the_promise():
    text = (
        'title = "Our <people>"\nepsilon = 1.5\ndelta = 1e-6\n[questions.home]\ntask = "count"\ncolumn = "h"\n'
        '[questions.km]\ntask = "mean"\nlower = 0\nupper = 9\nby = "way"\ngroups = ["a", "b"]\n'
    )
    shown = sdp.Survey.loads(text)._repr_html_()
    for part in ("Our &lt;people&gt;", "home", "count", ">h<", "km", "mean", "way"):
        assert part in shown
    assert "For all answers together: epsilon = 1.5, delta = 1e-06." in shown
    aimed = (
        text.replace("epsilon = 1.5\n", "")
        .replace('column = "h"', "error = 0.03")
        .replace("upper = 9", "upper = 9\nerror = 0.05")
    )
    shown = sdp.Survey.loads(aimed)._repr_html_()
    assert "For all answers together: delta = 1e-06." in shown
    assert ">0.03<" in shown
    assert ">0.05<" in shown


def test_answers_of_a_survey_are_tables_and_files(tmp_path):
    text = 'epsilon = 9\nmodel = "local"\n[questions.home]\ntask = "count"\n[questions.old]\ntask = "count"\n'
    data = {"home": [True, False] * 40, "old": [True] * 80}
    answers = sdp.ask(data, sdp.Survey.loads(text), rng=sdp.SeededWords(1))
    path = answers.write(tmp_path / "a.json")
    assert path == tmp_path / "a.json"
    assert json.loads(path.read_text()) == json.loads(json.dumps(answers.to_dict()))
    assert path.read_text().endswith("}\n")
    whole = answers.to_arrow().to_pydict()
    assert whole["question"] == ["home", "old"]
    own = answers["old"].to_arrow().to_pydict()
    assert list(own) == ["label", "value", "stderr", "low", "high"]
    assert [own[name][0] for name in own] == [whole[name][1] for name in own]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"task": "count", "column": "way", "true_value": "a", "where_public": True}, "where_public needs where"),
        ({"task": "histogram", "column": "way", "categories": ["a", "b"], "by": "who", "groups": ["1", "2", "3"],
          "protocol": "stability_histogram", "delta": 1e-6}, "it has no answer by group"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(given, said):
    with pytest.raises(sdp.UnsupportedError, match=said):
        sdp.ask(ROWS, **{**CENTRAL, **given})


def test_a_curator_sends_no_messages_and_a_ratio_has_none(tmp_path):
    survey = sdp.Survey.of(sdp.Question(name="home", **COUNT), epsilon=1.0, model="central")
    prepared = survey.prepare({"home": [True, False] * 20})
    with pytest.raises(sdp.UnsupportedError, match="messages"):
        prepared.randomize(tmp_path / "m.parquet")
    with pytest.raises(sdp.UnsupportedError, match="messages"):
        survey.prepare({"home": [True, False] * 20}, sent=True)
    rows = sdp.engine.People.read("who", of="rows", max_rows=2)
    mean = sdp.Question(
        name="km", task="mean", column="km", options={"lower": 0, "upper": 9}, people=rows
    )
    ratio = sdp.Survey.of(mean, epsilon=1.0, model="local").prepare(ROWS)
    with pytest.raises(sdp.UnsupportedError, match="the ratio of two sums has no messages"):
        ratio.randomize(tmp_path / "m.parquet")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"task": "words", "alphabet": "letters", "max_length": 4, "max_categories": 2},
            "max_categories is for a histogram",
        ),
        (
            {"task": "mean", "lower": 0, "upper": 9, "of": "rows", "max_rows": 2},
            "ratio of two sums",
        ),
    ],
)
def test_no_plan_of_what_only_data_can_tell(given, said):
    from shuffledp.questions.people import plan_question

    task, people = given.pop("task"), {"of", "max_rows", "max_categories"}
    whom = sdp.engine.People.read("who", **{key: given.pop(key) for key in people & set(given)})
    with pytest.raises(sdp.UnsupportedError, match=said):
        plan_question(sdp.Question(name="q", task=task, column="q", options=given, people=whom))


@pytest.mark.parametrize("kind", [int, float])
def test_a_range_takes_in_zero(kind):
    def ends(lower, upper):
        domain = (
            sdp.Integers(lower=lower, upper=upper)
            if kind is int
            else sdp.Reals(lower=float(lower), upper=float(upper), steps=4)
        )
        found = _with_zero(domain)
        return found.lower, found.upper

    assert [ends(2, 5), ends(-5, -2), ends(-2, 5)] == [(0, 5), (-5, 0), (-2, 5)]


def test_numbers_become_the_names_of_their_bins():
    array = pa.array([-7, 0, 3, 99, None])
    names = _spell_codes(array, sdp.Integers(lower=0, upper=9), None).to_pylist()
    assert names == ["0", "0", "3", "9", None]
    names = _spell_codes(array, sdp.Integers(lower=0, upper=9), "days").to_pylist()
    assert names == ["1970-01-01", "1970-01-01", "1970-01-04", "1970-01-10", None]


def test_what_fails_at_once_fails_for_whoever_asks():
    done = _Now().submit(lambda x, y: x + y, 2, y=3)
    failed = _Now().submit(int, "x")
    assert done.result() == 5
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result()


def test_groups_of_a_survey_may_be_integers_of_another_question():
    text = (
        'epsilon = 4\nmodel = "central"\n[questions.age]\ntask = "histogram"\nlower = 0\nupper = 2\n'
        '[questions.home]\ntask = "count"\nby = "age"\n'
    )
    data = {"age": [0, 1, 2, 2] * 30, "home": [True, False, True, True] * 30}
    answer = sdp.ask(data, sdp.Survey.loads(text))["home"]
    assert answer.estimate.labels == ("0", "1", "2")
    assert np.all(np.abs(answer.estimate.value - [30, 0, 60]) < 15)


def test_groups_are_not_in_a_file_of_lines(tmp_path):
    (tmp_path / "pets.txt").write_text("ant\nbee\n")
    with pytest.raises(sdp.DataError, match="read as one value per line, without groups"):
        sdp.ask(
            tmp_path / "pets.txt", "histogram", categories=["ant", "bee"], by="way", groups=["a", "b"], **CENTRAL
        )  # fmt: skip


@pytest.mark.parametrize("model", ["shuffle", "central"])
@pytest.mark.parametrize("delta", [1, 1.5, -1e-6])
def test_a_delta_of_several_questions_is_a_probability(model, delta):
    questions = {"a": {"task": "count"}, "b": {"task": "count"}}
    given = {"epsilon": 1.0, "model": model, "delta": delta, "questions": questions}
    with pytest.raises(sdp.DataError) as told:
        sdp.Survey.read(given)
    assert str(told.value) == f"survey: delta={delta!r} must be > 0 and < 1"


def test_only_a_shuffle_needs_a_delta():
    questions = {"a": {"task": "count"}, "b": {"task": "count"}}
    for delta in (None, 0):
        given = {"epsilon": 1.0, "delta": delta, "questions": questions}
        assert sdp.Survey.read({**given, "model": "central"}).delta == 0.0
        with pytest.raises(sdp.DataError, match=r"delta is missing|delta=0.0 must be > 0 and < 1"):
            sdp.Survey.read(given)


def test_what_is_missing_must_be_given():
    with pytest.raises(
        sdp.ParameterError, match=r"^epsilon must be given: the privacy loss, at most"
    ):
        sdp.ask([True, False] * 50, "count", delta=1e-6)


@pytest.mark.parametrize("on_invalid", ["error", "null=drop"])
def test_dates_are_not_moved_to_the_ends_of_numbers(on_invalid):
    days = np.array(["2024-01-31", "2024-02-01"], dtype="datetime64[D]")
    said = r"outside the domain 0 \.\. 1 \(it is a date: ends may be dates, such as 2024-12-31\)$"
    with pytest.raises(sdp.DataError, match=said):
        sdp.ask(days, "mean", **CENTRAL, lower=0, upper=1, on_invalid=on_invalid)


def test_lists_are_no_files():
    answer = sdp.ask([True, False] * 500, "count", epsilon=1, delta=1e-6)
    assert "\nThis machine sees every value." in str(answer)
    assert "On a file" not in str(answer)
