"""`--person` on the command line: the unit in every output, and a question where a column looks like a person."""

import json

import pytest

import shuffledp as sdp
from file_support import write

ROWS = {
    "user_id": [who for who in range(200) for _ in range(1 + who % 4)],
    "km": [row % 10 for who in range(200) for row in range(1 + who % 4)],
    "late": [row == 3 for who in range(200) for row in range(1 + who % 4)],
    "day": [row for who in range(200) for row in range(1 + who % 4)],
}
COMMON = ("--epsilon", 4, "--delta", 1e-6, "--seed", 1)
PERSON = ("--person", "user_id")


@pytest.fixture
def trips(tmp_path):
    return write(ROWS, tmp_path / "trips.csv")


def test_json_has_people_and_their_unit(shuffledp, trips):
    said = shuffledp("run", "count", trips, "--column", "late", *PERSON, *COMMON, "--json")
    found = json.loads(said.stdout)
    assert (found["n"], found["unit"]) == (200, "person")
    assert found["estimate"][0]["value"] == pytest.approx(50, abs=5)
    assert "500 rows were read" in said.stderr
    assert "500" not in said.stdout
    assert "Does" not in said.stderr


def test_the_terminal_says_what_is_protected(shuffledp, trips, tmp_path):
    said = shuffledp(
        "run", "sum", trips, "--column", "km", "--lower", 0, "--upper", 9, *PERSON, *COMMON
    )
    assert "The promise protects one person with all their rows." in said.stdout
    assert "who counts once, with the sum" in said.stdout
    page = tmp_path / "r.html"
    words = ("run", "count", trips, "--column", "late", *PERSON, *COMMON, "--plot", page)
    assert shuffledp(*words).exit_code == 0
    assert "one person with all their rows" in page.read_text()
    drawn = tmp_path / "r.svg"
    assert shuffledp(*words[:-1], drawn).exit_code == 0


def test_a_column_that_looks_like_a_person_is_asked_about(shuffledp, trips):
    """By its name, on standard error; a column of another name is not."""
    said = shuffledp("run", "count", trips, "--column", "late", *COMMON)
    assert "Does 'user_id' say which person a row is about?" in said.stderr
    assert "add --person user_id" in said.stderr
    assert "Each row is taken to be one person, so the promise protects one row." in said.stdout
    plain = write({"late": ROWS["late"], "day": ROWS["day"]}, trips.with_name("plain.csv"))
    assert "Does" not in shuffledp("run", "count", plain, "--column", "late", *COMMON).stderr


def test_of_rows(shuffledp, trips):
    more = ("--of", "rows", "--max-rows", 2, "--json")
    found = json.loads(
        shuffledp("run", "count", trips, "--column", "late", *PERSON, *COMMON, *more).stdout
    )
    assert found["task"] == "count"
    assert any("at most 2 of each person" in note for note in found["notes"])


def test_messages_of_rows_have_no_shares(shuffledp, trips, tmp_path):
    """How many rows there are is not known, only how many there may be at most."""
    sent, tally = tmp_path / "sent.parquet", tmp_path / "tally.json"
    about = ("--column", "late", "--task", "count", *PERSON, *COMMON)
    asked = tmp_path / "asked.toml"
    question = 'task = "count"\ncolumn = "late"\nof = "rows"\nmax_rows = 2\n'
    asked.write_text(
        'epsilon = 8.0\ndelta = 1e-4\nperson = "user_id"\n'
        f"[questions.late]\n{question}[questions.again]\n{question}"
    )
    for given, shared in (
        (("randomize", trips, *about, "--of", "rows", "--max-rows", 2), False),
        (("randomize", trips, *about), True),
        (("randomize", asked, trips), False),
    ):
        assert shuffledp(*given, "--out", sent, "--force").exit_code == 0
        shuffledp("tally", sent, "--out", tally, "--force")
        found = json.loads(shuffledp("estimate", tally, "--json").stdout)
        for each in found.get("questions", {"": found}).values():
            assert all(("share" in row) is shared for row in each["estimate"])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--reduce", "any"), "reduce needs person"),
        (
            (*PERSON, "--reduce", "sum"),
            "reduce='sum' must be one of any, all, one, 'first by COLUMN', 'last by COLUMN' for a count",
        ),
        ((*PERSON, "--of", "rows"), "needs --max-rows"),
        ((*PERSON, "--max-rows", 2), "--max-rows is for answers about rows"),
        (("--person", "visitor"), "has no column 'visitor'"),
    ],
)
def test_what_is_refused(shuffledp, trips, words, complaint):
    said = shuffledp("run", "count", trips, "--column", "late", *COMMON, *words)
    assert said.exit_code != 0
    assert complaint in " ".join(said.stderr.split())


def test_a_survey_says_it_itself(shuffledp, trips, tmp_path):
    survey = tmp_path / "s.toml"
    survey.write_text(
        'epsilon = 4.0\ndelta = 1e-6\nperson = "user_id"\n[questions.late]\ntask = "count"\n'
    )
    found = json.loads(shuffledp("run", survey, trips, "--seed", 1, "--json").stdout)
    assert (found["n"], found["unit"]) == (200, "person")
    said = shuffledp("run", survey, trips, *PERSON)
    assert "--person is for one question: a survey file states it" in " ".join(said.stderr.split())


def test_messages_tallies_and_estimates(shuffledp, trips):
    words = (
        "--column",
        "late",
        "--task",
        "count",
        *PERSON,
        *COMMON,
        "--out",
        "sent.parquet",
        "--json",
    )
    sent = json.loads(shuffledp("randomize", trips, *words).stdout)
    assert (sent["n"], sent["unit"], sent["rows"]) == (200, "person", None)
    assert shuffledp("tally", "sent.parquet", "--out", "t.json").exit_code == 0
    found = json.loads(shuffledp("estimate", "t.json", "--json").stdout)
    assert (found["n"], found["unit"], found["task"]) == (200, "person", "count")


def test_a_ledger_charges_people(shuffledp, trips):
    budget = ("--ledger", "l.json", "--budget-epsilon", 9, "--budget-delta", 1e-3)
    words = ("run", "count", trips, "--column", "late", "--epsilon", 1, "--delta", 1e-6, *budget)
    assert shuffledp(*words, *PERSON, "--where", "day > 0").exit_code == 0
    refused = shuffledp(*words)
    assert refused.exit_code != 0
    assert "protect one person each, and this one protects one row" in " ".join(
        refused.stderr.split()
    )
    (entry,) = sdp.ledger.Ledger("l.json").entries()
    assert (entry.unit, entry.note["where_private"]) == ("person", True)


def test_options_that_are_left_out_are_not_given(shuffledp, tmp_path):
    """The grid is chosen as `sdp.ask` chooses it, and yes and no need no bounds."""
    some = {**ROWS, "km": [None if row == 0 else row / 4 for row in ROWS["km"]]}
    path = write(some, tmp_path / "some.parquet")
    asked = {"column": "km", "lower": 0.0, "upper": 3.0, "person": "user_id", "reduce": "mean"}
    words = [each for name, value in asked.items() for each in (f"--{name}", value)]
    said = shuffledp("run", "mean", path, *words, "--on-invalid", "drop", *COMMON, "--json")
    answer = sdp.ask(path, "mean", **asked, on_invalid="drop", epsilon=4, delta=1e-6)
    assert json.loads(said.stdout)["parameters"] == answer.to_dict()["parameters"]
    late = ("--column", "late", *PERSON, "--reduce", "max", *COMMON, "--json")
    found = json.loads(shuffledp("run", "mean", path, *late).stdout)
    assert found["estimate"][0]["value"] == pytest.approx(0.25, abs=0.05)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_dates_that_begin_with_the_day_are_not_ordered_by_their_letters(
    shuffledp, tmp_path, suffix
):
    """31.01. is before 01.12. of the same year."""
    days = ["31.01.2024", "01.12.2024"] * 100
    rows = {"who": [who // 2 for who in range(200)], "day": days, "late": [True, False] * 100}
    path = write(rows, tmp_path / f"days.{suffix}")
    asked = ("run", "count", path, "--column", "late", "--person", "who", *COMMON, "--json")
    said = shuffledp(*asked, "--reduce", "last by day")
    assert said.exit_code == 2
    assert "'day' has the value '31.01.2024', which cannot be ordered" in said.stderr
    assert "--dates declares other orders" in said.stderr
    if suffix == "csv":
        known = shuffledp(*asked, "--reduce", "last by day", "--dates", "dmy")
        assert json.loads(known.stdout)["estimate"][0]["value"] == pytest.approx(0, abs=5)
    fine = write({**rows, "day": ["2024-01-31", "2024-12-01"] * 100}, tmp_path / f"iso.{suffix}")
    asked = ("run", "count", fine, "--column", "late", "--person", "who", *COMMON, "--json")
    found = json.loads(shuffledp(*asked, "--reduce", "first by day").stdout)
    assert found["estimate"][0]["value"] == pytest.approx(100, abs=5)
