"""A survey from beginning to end: real processes, real HTTP, real stores."""

import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.live.wire.question import Question

SURVEY = """
epsilon = 1.0
delta = 1e-6
[questions.way]
task = "histogram"
categories = ["car", "bicycle", "bus"]
"""


@pytest.fixture
def survey(tmp_path):
    path = tmp_path / "work.toml"
    path.write_text(SURVEY)
    return path


def call(*words):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.mark.xdist_group("servers")
def test_a_rehearsal_with_hostile_people(survey):
    result = call("collection", "rehearse", survey, "--people", 400, "--hostile", 0.05, "--json")
    assert result.exit_code == 0, result.output
    played = json.loads(result.stdout)
    assert list(played) == [
        *("people", "accepted", "rejected", "lost", "doubled", "epsilon", "delta"),
        *("local_epsilon", "noise", "bytes_per_report", "seconds", "questions"),
    ]
    assert (played["people"], played["accepted"]) == (400, 380)
    assert (played["lost"], played["doubled"]) == (0, 0)
    assert played["rejected"] == {"malformed": 12, "out_of_range": 0, "undecryptable": 4} or (
        played["rejected"]["malformed"] == 12 and played["rejected"]["undecryptable"] == 4
    )
    assert played["epsilon"] <= 1.0
    assert played["local_epsilon"] <= 3.0
    (rows,) = played["questions"].values()
    assert [row["label"] for row in rows] == ["car", "bicycle", "bus"]
    assert set(rows[0]) == {"label", "truth", "value", "low", "high"}
    assert sum(row["truth"] for row in rows) == 380


@pytest.mark.parametrize("task", ["quantiles", "std", "range", "cdf"])
def test_a_rehearsal_knows_the_truth_about_integers(task):
    """The made-up people of a question about integers have integers."""
    points = {"range": [2, 5], "cdf": [3]}.get(task)
    given = {"lower": 0, "upper": 9, "task": task, "epsilon": 2.0}
    protocol = sdp.protocols.make("local_tree", **given, **({"at": points} if points else {}))
    question = Question(name="q", text="?", task=task, protocol=protocol)
    places = np.array([0, 4, 9, 4])
    wanted = {"quantiles": 4.0, "std": np.std(places), "range": 2.0, "cdf": 0.25}
    truth = question.asks.truth(question.read_values(places))
    assert np.atleast_1d(truth) == pytest.approx([wanted[task]])


def test_the_table_of_a_rehearsal_stands_below_its_heads():
    row = {"label": "car", "truth": 600.0, "value": 650.3, "low": 551.0, "high": 753.0}
    played = sdp.live.serve.Rehearsal(
        **dict.fromkeys(
            ("people", "accepted", "lost", "doubled", "bytes_per_report", "seconds"), 1
        ),
        **dict.fromkeys(("epsilon", "delta", "local_epsilon"), 0.5),
        noise="devices",
        rejected={},
        questions={"way": [row], "how_many_minutes_it_takes_you": [row]},
    )
    _, _, _, *tables = str(played).splitlines()
    for head, numbers in (tables[:2], tables[3:]):
        assert head.index("truth") + len("truth") == numbers.index("600") + len("600")
        assert head.index("interval") == numbers.index("551 .. 753")


@pytest.mark.xdist_group("servers")
def test_from_a_new_collection_to_its_results(survey, tmp_path, monkeypatch):
    """Roles as processes with disjoint keys; a device and a file of people answer; a result."""
    monkeypatch.setenv("HOME", str(tmp_path))
    port = sdp.live.serve.find_port()
    folder = tmp_path / "survey"
    made = call(
        "collection",
        "new",
        survey,
        "--out",
        folder,
        "--people",
        200,
        "--url",
        f"http://127.0.0.1:{port}",
    )
    assert made.exit_code == 0, made.output
    assert "Who may learn what" in made.output
    home = sdp.live.serve.Home(folder)
    collection = home.collection()
    people = tmp_path / "people.csv"
    people.write_text("way\n" + "car\nbus\nbicycle\ncar\n" * 50)
    with sdp.live.serve.play_roles(home, sdp.live.serve.find_port(), workers=1):
        answered = call("report", collection.link, "--answer", "way=bus", "--explain")
        assert answered.exit_code == 0, answered.output
        assert "acknowledged" in answered.output
        again = call("report", collection.link, "--answer", "way=bus")
        assert again.exit_code == 2
        assert "answered" in again.output
        sent = call("report", collection.link, "--simulate", people)
        assert sent.exit_code == 0, sent.output
        assert "200 reports" in sent.output
        status = json.loads(call("collection", "status", folder, "--json").output)
        assert status["windows"] == [{"window": 0, "state": "open", "reports": 201}]
        assert "sealed" in call("collection", "close", folder).output or home.collection()
        checked = call("collection", "check", collection.link)
        assert "The promise holds" in checked.output
        analyzer = home.open_analyzer()
        end = time.monotonic() + 400
        while not analyzer.results() and time.monotonic() < end:
            time.sleep(0.1)
        (result,) = analyzer.results()
    assert result["reports"] == 201
    assert "201 people" in call("collection", "results", folder).output
    assert json.loads(call("collection", "results", folder, "--json").output)["results"] == [result]
    # Whatever is in the shuffler's folder decrypts no answer, and it has no key of the analyzer.
    mine = json.loads((home.shuffler / "keys.json").read_text())
    theirs = json.loads((home.analyzer / "keys.json").read_text())
    kept = b"".join(path.read_bytes() for path in home.shuffler.iterdir() if path.is_file())
    assert not {*mine["outer"].values(), mine["sign"]} & {*theirs.values()}
    for key in theirs.values():
        assert key.encode() not in kept
        assert bytes.fromhex(key) not in kept


def test_two_operators_make_their_keys_apart(survey, tmp_path):
    keys = call("collection", "keys", tmp_path / "analysis")
    public = tmp_path / "public.json"
    public.write_text(keys.stdout)
    made = call(
        *("collection", "new", survey, "--out", tmp_path / "survey", "--analyzer", public),
        *("--url", "https://shuffler.example"),
    )
    assert made.exit_code == 0, made.output
    assert "central model" not in made.output
    assert not (tmp_path / "survey" / "analyzer").exists()
    document = tmp_path / "survey" / "collection.json"
    (tmp_path / "analysis" / "collection.json").write_bytes(document.read_bytes())
    assert call("collection", "check", tmp_path / "analysis").exit_code == 0
    sdp.live.serve.Home(tmp_path / "analysis").open_analyzer()
    assert call("serve", tmp_path / "survey").exit_code == 2


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (("weight", 0), "weight"),
        (("by", "home"), "needs its groups"),
        (("error", 0.1), "cannot aim at an error yet"),
        (("protocol", "zsum"), "zsum"),
        (("colour", "red"), "is not a field of a histogram"),
        (("categories_from_data", True), "declares its categories"),
    ],
)
def test_questions_that_cannot_be_collected(tmp_path, change, match):
    import tomllib

    name, value = change
    content = tomllib.loads(SURVEY)
    content["questions"]["way"][name] = value
    lines = [f"{key} = {json.dumps(each)}" for key, each in content["questions"]["way"].items()]
    path = tmp_path / "bad.toml"
    path.write_text("epsilon = 1.0\ndelta = 1e-6\n[questions.way]\n" + "\n".join(lines) + "\n")
    result = call("collection", "new", path)
    assert result.exit_code == 2
    assert match in result.output.replace("\n", " ")


@pytest.mark.parametrize(
    "text",
    [
        "epsilon = ",
        "epsilon = 1\ndelta = 1e-6",
        SURVEY + "[collection]\nminbatch = 5\n",
        SURVEY + "[collection]\npeople = 'x'\n",
        "x = 1",
    ],
)
def test_survey_files_that_are_none(tmp_path, text):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    assert call("collection", "new", path).exit_code == 2
    assert call("collection", "new", tmp_path / "missing.toml").exit_code == 2


@pytest.mark.parametrize(
    ("more", "name"), [((), "server_noise"), (("--noise", "devices"), "local_tree")]
)
def test_quantiles_are_collected_live(tmp_path, more, name):
    path = tmp_path / "quantiles.toml"
    path.write_text(
        "epsilon = 1.0\ndelta = 1e-6\n[questions.q]\ntask = 'quantiles'\nlower = 0\nupper = 9\n"
        "[collection]\npeople = 2000\n"
    )
    result = call("collection", "new", path, *more)
    assert result.exit_code == 0, result.output
    assert f"by {name}" in result.output
    assert call("collection", "check", tmp_path / "quantiles").exit_code == 0


def test_too_few_people_for_the_promise(survey):
    survey.write_text(SURVEY + "[collection]\nmin_batch = 1000\n")
    result = call("collection", "rehearse", survey, "--people", 500)
    assert result.exit_code == 2
    assert "min_batch" in result.output
