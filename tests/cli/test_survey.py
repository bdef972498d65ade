"""Survey files on the command line: run, plan, survey check and survey new."""

import json

import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.ledger import Ledger

SURVEY = """epsilon = 1.0
delta = 1e-6
[questions.home]
task = "count"
[questions.home_by_way]
task = "count"
column = "home"
by = "way"
groups = ["car", "bicycle", "bus", "train", "on foot", "tram", "at home", "motorcycle", "scooter", "ferry"]
"""


@pytest.fixture
def questions(tmp_path):
    path = tmp_path / "survey.toml"
    path.write_text(SURVEY)
    return path


def test_run_prints_json(shuffledp, people, questions, survey):
    found = shuffledp("run", questions, people, "--json", "--seed", 1)
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert answer["n"] == 3000
    assert answer["not_private"] == [sdp.questions.SEEDED]
    assert abs(answer["questions"]["home"]["estimate"][0]["value"] - survey.home.sum()) < 60
    assert [row["label"] for row in answer["questions"]["home_by_way"]["estimate"]][:2] == [
        "car",
        "bicycle",
    ]


def test_run_prints_text_and_writes_a_page(shuffledp, people, questions, tmp_path):
    page = tmp_path / "report.html"
    found = shuffledp("run", questions, people, "--plot", page, "--out", tmp_path / "a.json")
    assert found.exit_code == 0, found.output
    assert "home_by_way: count by way" in found.output
    assert f"Written: {page}" in found.output
    assert "<h2>home: count</h2>" in page.read_text()
    assert set(json.loads((tmp_path / "a.json").read_text())["questions"]) == {
        "home",
        "home_by_way",
    }


def test_people_from_standard_input(people, questions):
    words = ["run", str(questions), "-", "--json"]
    found = CliRunner().invoke(app, words, input=people.read_bytes())
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["n"] == 3000


def test_a_full_disk_is_named(shuffledp, people, questions, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shuffledp.SurveyAnswer.write", fail)
    found = shuffledp("run", questions, people, "--out", "a.json")
    assert found.stderr == "error: a.json cannot be written: No space left on device\n"


def test_plan(shuffledp, questions):
    found = shuffledp("plan", questions, "--n", "1e4")
    assert found.exit_code == 0, found.output
    assert "2 questions, 10,000 people" in found.output
    found = shuffledp("plan", questions, "--n", "1e4", "--json")
    assert set(json.loads(found.stdout)["questions"]) == {"home", "home_by_way"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--liars", 0.01),
            "--liars is for one question: it does not apply to the plan of a survey",
        ),
        (("--model", "both"), "model='both' must be 'shuffle', 'local' or 'central'"),
        (("--groups", "a,b"), "--groups is for one question: a survey file states it"),
        (("--max-bytes", 99), "--max-bytes is for one question: it does not apply"),
        (("--local-epsilon", 0), "--local-epsilon is for one question: it does not apply"),
        (("--upper", 1), "--upper is for one question: a survey file states it"),
        (("--delta", 0), "--delta is for one question: a survey file states it"),
        (("--honest", 0.5), "--honest is for one question: a survey file states it"),
    ],
)
def test_what_a_plan_of_a_survey_does_not_take(shuffledp, questions, words, said):
    found = shuffledp("plan", questions, "--n", "1e4", *words)
    assert found.exit_code == 2
    assert said in " ".join(found.output.split())


def test_a_curator_runs_and_plans_a_survey(shuffledp, people, questions, tmp_path):
    """--model in place of what the file says; the ledger is charged once, with the curator's delta."""
    budget = ("--ledger", "c.json", "--budget-epsilon", 1, "--budget-delta", 1e-5)
    found = shuffledp("run", questions, people, "--model", "central", "--json", *budget)
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert record["guarantee"]["model"] == "central"
    assert {each["protocol"] for each in record["questions"].values()} == {"geometric"}
    spent = Ledger(tmp_path / "c.json").spent()
    assert (spent.epsilon, spent.delta) == (record["epsilon"], record["delta"])
    planned = shuffledp("plan", questions, "--n", 3000, "--model", "central", "--json")
    asked = json.loads(planned.stdout)["questions"]["home"]
    (row,) = record["questions"]["home"]["estimate"]
    assert row["stderr"] == pytest.approx(asked["rmse"], rel=1e-6)
    assert shuffledp("plan", questions, "--n", 3000, "--model", "local").exit_code == 0
    sent = shuffledp("randomize", questions, people, "--model", "central", "--out", "m.parquet")
    assert (sent.exit_code, "'central' is" in sent.output) == (2, True)
    trusting = tmp_path / "trusting.toml"
    trusting.write_text(f'model = "central"\n{questions.read_text()}')
    sent = shuffledp("randomize", trusting, people, "--out", "m.parquet")
    assert "nobody sends messages in the central model" in " ".join(sent.output.split())


def test_messages_and_tallies(shuffledp, people, questions, tmp_path):
    """Randomize, tally and estimate: the record of a run, one charge, and a warning where it is due."""
    budget = ("--ledger", "l.json", "--budget-epsilon", 1.5, "--budget-delta", 1e-5)
    found = shuffledp("randomize", questions, people, "--out", "m.parquet", "--json", *budget)
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    assert (record["n"], record["epsilon"], record["survey"]) == (3000, 1.0, "survey")
    assert record["questions"]["home_by_way"]["task"] == "count by way"
    assert Ledger(tmp_path / "l.json").spent().epsilon == 1.0
    again = shuffledp("randomize", questions, people, "--out", "n.parquet", "--ledger", "l.json")
    assert again.exit_code != 0
    found = shuffledp("tally", "m.parquet", "--out", "t.json")
    assert "survey: the tally of 3,000 people" in found.output
    found = shuffledp("estimate", "t.json", "--json", "--plot", "r.html")
    answer = json.loads(found.stdout)
    assert answer == sdp.SurveyAnswer.of(sdp.read_tally("t.json")).to_dict()
    assert set(answer) == set(json.loads(shuffledp("run", questions, people, "--json").stdout))
    assert "<h2>home_by_way: count by way</h2>" in (tmp_path / "r.html").read_text()
    found = shuffledp("estimate", "t.json", "--out", "r.csv")
    assert "--out must end in .json" in " ".join(found.output.split())
    words = ("--out", "w.parquet", "--n", 3100, "--seed", 1)
    found = " ".join(shuffledp("randomize", questions, people, *words).output.split())
    assert "WEAKER THAN PLANNED" in found
    assert "NOT PRIVATE" in found
    assert "messages of 3,000 people to 2 questions are in w.parquet" in found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the files of people, too"),
        (("p.csv", "--task", "count"), "--task is for one question"),
        (("p.csv", "--epsilon", 1), "--epsilon is for one question"),
        (("p.csv", "--categories", "a,b"), "--categories is for one question"),
    ],
)
def test_what_randomizing_a_survey_does_not_take(shuffledp, questions, words, said):
    found = shuffledp("randomize", questions, *words, "--out", "m.parquet")
    assert found.exit_code == 2
    assert said in " ".join(found.output.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--epsilon", 1), "--epsilon is for one question"),
        (("--lower", 1), "--lower is for one question"),
        (("--on-invalid", "other"), "--on-invalid is for one question"),
        (("--plot", "a.png"), "must end in .html"),
        (("--ledger", "l.json", "--seed", 1), "a seed protects nobody"),
    ],
)
def test_what_a_survey_says_itself(shuffledp, people, questions, words, said):
    found = shuffledp("run", questions, people, *words)
    assert found.exit_code == 2
    assert said in " ".join(found.output.split())


def test_check(shuffledp, questions):
    assert "is fine: 2 questions" in shuffledp("survey", "check", questions).output
    questions.write_text(SURVEY.replace("by =", "bye ="))
    found = shuffledp("survey", "check", questions)
    assert found.exit_code == 2
    assert "line 8" in " ".join(found.output.split())


def write_new(path, *answers):
    said = "".join(f"{each}\n" for each in answers)
    return CliRunner().invoke(app, ["survey", "new", str(path)], input=said)


def test_new_writes_what_check_accepts(shuffledp, tmp_path):
    path = tmp_path / "new.toml"
    way = ("way", "", "histogram", "car, bus", "", "", "y")
    minutes = ("minutes", "long", "quantiles", 0, 240, "", 0.5, "", 2, "y")
    home = ("home", "", "count", "", "way", "", "", "n")
    found = write_new(path, 1.0, 1e-6, *way, *minutes, *home)
    assert found.exit_code == 0, found.output
    assert shuffledp("survey", "check", path).exit_code == 0
    first, second, third = sdp.Survey.load(path).questions
    assert first.options == {"categories": ["car", "bus"]}
    assert (second.name, second.weight, second.options["at"]) == ("long", 2, [0.5])
    assert (third.by, third.groups) == ("way", None)
    assert shuffledp("survey", "new", path).exit_code == 2, "it exists"


def test_new_asks_again_at_once(tmp_path):
    """A wrong answer is named where it was typed; what does not fit together, after the question."""
    path = tmp_path / "new.toml"
    promise = (-1, "many", 1.0, 2, 1e-6)
    home = ("home", "", "mode", "count", "", "", 0, 1, "y")
    again = ("home", "home", "other", "quantiles", "", "", "", "", "", "")
    mean = ("age", "", "mean", "x", 0, 120, "", "", "", "n")
    found = write_new(path, *promise, *home, *again, *mean)
    assert found.exit_code == 0, found.output
    said = " ".join(found.output.split())
    wrong = (
        "epsilon=-1 must be > 0",
        "epsilon='many' must be a number",
        "delta=2 must be",
        "task='mode' must be one of",
        "weight=0.0 must be > 0",
        "'home' is asked twice",
        "quantiles need both `lower` and `upper`",
        "lower='x' must be a number",
    )
    assert [each for each in wrong if each not in said] == []
    assert [each.task for each in sdp.Survey.load(path).questions] == ["count", "mean"]


def test_one_question_by_group(shuffledp, people):
    """`plan`, `randomize`, `tally` and `estimate` take the groups, as `run` does."""
    ways = "car,bicycle,bus,train,on foot,tram,at home,motorcycle,scooter,ferry"
    words = ("--by", "way", "--groups", ways, "--epsilon", 1, "--delta", 1e-6)
    found = shuffledp("plan", "count", *words, "--n", 3000, "--model", "shuffle")
    assert found.exit_code == 0, found.output
    assert "10 groups is a histogram over 20 pairs" in " ".join(found.output.split())
    found = shuffledp("plan", "count", "--by", "way", "--n", 3000, "--epsilon", 1, "--delta", 1e-6)
    assert "--by needs --groups" in found.output
    home = ("--task", "count", "--column", "home")
    found = shuffledp("randomize", people, *home, *words, "--out", "m.parquet")
    assert found.exit_code == 0, found.output
    assert shuffledp("tally", "m.parquet", "--out", "t.json").exit_code == 0
    answer = json.loads(shuffledp("estimate", "t.json", "--json").stdout)
    assert (answer["task"], answer["by"]) == ("count", "way")
    assert [row["label"] for row in answer["estimate"]] == ways.split(",")


def test_messages_of_fewer_people_than_planned_say_so(shuffledp, people):
    """Of one question as of a survey, and beside what became of values that nobody is told of."""
    asked = (
        "randomize",
        people,
        "--column",
        "minutes",
        "--task",
        "sum",
        "--lower",
        5,
        "--upper",
        30,
    )
    promise = ("--epsilon", 1, "--delta", "1e-6", "--on-invalid", "clamp", "--seed", 1)
    found = " ".join(shuffledp(*asked, *promise, "--n", 3100, "--out", "w.parquet").stderr.split())
    assert "WEAKER THAN PLANNED: the noise was made for 3,100 people, but 3,000 took part" in found
    assert "For you alone (exact, so not private)" in found
    found = shuffledp(*asked, *promise, "--out", "v.parquet").stderr
    assert "WEAKER" not in found
    assert "For you alone" in found
