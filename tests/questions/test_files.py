"""One parser of survey files: what a survey of a file accepts, a live collection accepts, and both name the place."""

import re

import pytest

import shuffledp as sdp
from shuffledp.live.design import Settings, choose_protocols, read_survey

TEXT = """\
epsilon = 1
delta = 1e-8
honest = 0.8
model = "shuffle"
on_invalid = "error"
[questions.way]
task = "histogram"
text = "How do you travel?"
categories = ["car", "bus"]
[collection]
people = 500
grace = 60
"""


@pytest.fixture
def write(tmp_path):
    def put(text):
        path = tmp_path / "commute.toml"
        path.write_text(text)
        return path

    return put


def test_both_readers_take_the_same_file(write):
    path = write(TEXT)
    survey, settings = read_survey(path)
    assert survey == sdp.Survey.load(path)
    assert survey.title == settings.title == "commute"
    assert survey.honest == settings.honest == 0.8
    assert (settings.people, settings.grace) == (500, 60)
    (asked,), (question,) = choose_protocols(survey, settings).questions, survey.questions
    assert asked.text == question.text == "How do you travel?"


def test_the_table_of_a_collection_says_it_again(write):
    _, said = read_survey(write(TEXT + 'honest = 0.7\ntitle = "On the way"\n'))
    assert (said.honest, said.title) == (0.7, "On the way")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("people = 500", 'people = "many"', "line 11: people='many' must be a whole number"),
        ("people = 500", "people = 2.5", "line 11: people=2.5 must be a whole number"),
        ("people = 500", "tokens = 1", "line 11: tokens=1 must be true or false"),
        ("people = 500", "peple = 500", "line 11: 'peple' is not a field of [collection]: title"),
        ("grace = 60", "local_epsilon = true", "line 12: local_epsilon=True must be a number"),
        ('model = "shuffle"', 'model = "central"', "line 4: a live collection has a shuffler"),
        ("honest = 0.8", 'honest = "all"', "line 3: honest='all' must be a number"),
        ('task = "histogram"', 'task = "test"', "line 7: question 'way': "),
        ("[collection]", "[colection]", "line 10: 'colection' is not a field of a survey"),
    ],
)
def test_errors_name_file_line_and_key(write, old, new, said):
    assert old in TEXT
    with pytest.raises(sdp.ShuffledpError, match=r"commute\.toml, " + re.escape(said)):
        choose_protocols(*read_survey(write(TEXT.replace(old, new))))


def test_only_the_shuffle_model_is_live(write):
    local = TEXT.replace('"shuffle"', '"local"').replace("delta = 1e-8\n", "")
    assert sdp.Survey.load(write(local)).model is sdp.Model.LOCAL
    with pytest.raises(sdp.DataError, match="line 3: a live collection has a shuffler"):
        choose_protocols(*read_survey(write(local)))


def test_tables_that_were_read_already(tmp_path):
    way = {"task": "histogram", "categories": ["car", "bus"]}
    content = {"epsilon": 1.0, "delta": 1e-8, "questions": {"way": way}}
    path = str(tmp_path / "x.toml")
    assert Settings.read(sdp.Survey.read(content, path)).title == "x"
    with pytest.raises(sdp.DataError, match="questions=3 must be a table"):
        sdp.Survey.read({**content, "questions": 3}, path)
