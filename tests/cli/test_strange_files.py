"""Files of other people: what a newcomer meets, and what the errors advise."""

import json
import math
import re

import pytest

from shuffledp.questions import LEFT_OUT

PROMISE = ("--epsilon", "1", "--delta", "1e-6")
HEAD = '"Patient ID";"Raucher?";"Größe, cm";"Stadt";"Besuch am"'


@pytest.fixture
def clinic(tmp_path):
    """A file as a spreadsheet writes it elsewhere: semicolons, decimal commas, dates with dots, a mark."""
    rows = [
        f"{i};{('Ja', 'Nein')[i % 2]};{170 + i % 9},5;{('東京', 'New York, NY')[i % 2]};{1 + i % 28:02d}.03.2024"
        for i in range(600)
    ]
    path = tmp_path / "clinic.csv"
    path.write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8-sig")
    return path


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("run", "count"), "choose one of 'Patient ID', 'Raucher?', 'Größe, cm', 'Stadt'"),
        (("run", "count", "--column", "Raucher?"), "(--true-value says which one is yes)"),
        (("run", "mean", "--column", "Größe, cm", "--lower", "100", "--upper", "220"), "(decimals have a point; "
                                                                                       "--decimal declares commas)"),
        (
            ("run", "mean", "--column", "Größe, cm", "--lower", "100", "--upper", "220", "--on-invalid", "drop"),
            "has no valid value; without --on-invalid, the first invalid one is named",
        ),
        (
            ("run", "mean", "--column", "Besuch am", "--lower", "2024-01-01", "--upper", "2024-12-31"),
            "(dates are written 2024-12-31; for files, --dates declares other orders: ymd 2024/12/31, dmy "
            "31.12.2024, mdy 12/31/2024)",
        ),
        (("learn", "--column", "stadt", "--k", "2"), "it has 'Patient ID'"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(shuffledp, clinic, words, advice):
    place = 2 if words[0] == "run" else 1
    result = shuffledp(*words[:place], clinic, *words[place:], *PROMISE)
    assert result.exit_code == 2
    assert advice in result.stderr


def test_other_spellings_are_declared(shuffledp, clinic, tmp_path):
    """A clinic's file in the encoding of its country, with decimal commas and another delimiter."""
    text = clinic.read_text(encoding="utf-8-sig").replace(";", "^").replace("東京", "Málaga")
    (tmp_path / "c.csv").write_text(text, encoding="latin-1")
    said = ("--encoding", "latin-1", "--delimiter", "^", "--decimal", ",")
    height = ("--column", "Größe, cm", "--lower", "100.0", "--upper", "220.0")
    seeded = (*PROMISE, "--model", "central", "--seed", "1")
    result = shuffledp("run", "mean", "c.csv", *height, *said, *seeded)
    assert result.exit_code == 0, result.output
    assert re.search(r"mean\s+│\s+17[45]\.", result.stdout), result.stdout
    by = ("--by", "Stadt", "--groups", 'Málaga,"New York, NY"')
    assert shuffledp("run", "mean", "c.csv", *height, *said, *by, *PROMISE).exit_code == 0
    cities = ("--column", "Stadt", "--categories", 'Málaga,"New York, NY"')
    assert shuffledp("learn", "c.csv", *cities, *said, *PROMISE).exit_code == 0
    few = ("--where", '"Patient ID" < 500', "--where-public", "--column", "Stadt")
    assert shuffledp("frequencies", "c.csv", *few, *said, "--epsilon", "1").exit_code == 0
    (tmp_path / "s.toml").write_text(
        'epsilon = 1.0\ndelta = 1e-6\n[questions.h]\ntask = "mean"\ncolumn = "Größe, cm"\n'
        'lower = 100.0\nupper = 220.0\n[questions.c]\ntask = "histogram"\ncolumn = "Stadt"\n'
        'categories = ["Málaga", "New York, NY"]\n'
    )
    assert shuffledp("run", "s.toml", "c.csv", *said).exit_code == 0
    wrong = shuffledp("run", "count", "c.csv", "--encoding", "latin-99", *PROMISE)
    assert (wrong.exit_code, "encoding='latin-99' must be" in wrong.stderr) == (2, True)


def test_what_is_right_works(shuffledp, clinic):
    yes = ("--column", "Raucher?", "--true-value", "Ja")
    assert shuffledp("run", "count", clinic, *yes, *PROMISE).exit_code == 0
    cities = ("--column", "Stadt", "--categories", '東京,"New York, NY"')
    result = shuffledp("learn", clinic, *cities, *PROMISE)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("東京          ")], "columns line up"


def test_counts_are_whole_people_with_shares(shuffledp, people):
    """Also where noise is not: a local estimate has decimals."""
    asked = ("run", "count", "people.csv", "--column", "home", "--epsilon", "3", "--model", "local")
    seeded = (*asked, "--seed", "1")
    (row,) = json.loads(shuffledp(*seeded, "--json").stdout)["estimate"]
    assert row["value"] != round(row["value"])
    text = shuffledp(*seeded).stdout
    low, high = math.ceil(row["low"]), math.floor(row["high"])
    assert re.search(rf"count │ +{round(row['value']):,} │ .*│ +{low:,} \.\. {high:,} │", text), (
        text
    )
    assert f"{row['value'] / 3000:.1%}" in text
    ways = ("--column", "way", "--categories", "car,bicycle,bus,train,other,tram,foot")
    bars = shuffledp(
        "run", "histogram", "people.csv", *ways, *PROMISE, "--on-invalid", "drop"
    ).stdout
    assert len(re.findall(r"█.*  [0-9]+\.[0-9]%", bars)) >= 3, bars


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (
            "12%",
            "write numbers without units and spaces, as 1234.5; for files, --strip '%' ",
        ),
        ("€12.50", "--strip '€' removes them"),
        ("1 234", "--strip ' ' removes them"),
        ('"$1,234.50"', "--strip '$,' removes them"),
        ('"1,234"', "write thousands without commas; for files, --strip ',' removes them"),
        ('"12,5"', "decimals have a point; --decimal declares commas"),
        ("2024-07-05 00:13:00", "it is a date"),
    ],
)
def test_no_hint_would_leave_out_numbers_that_are_written_in_another_way(
    shuffledp, tmp_path, value, hint
):
    (tmp_path / "x.csv").write_text(f"x\n{value}\n" + "7\n" * 100)
    result = shuffledp("run", "mean", "x.csv", "--lower", "0.0", "--upper", "9999", *PROMISE)
    assert result.exit_code == 2
    assert hint in result.stderr
    assert "drop" not in result.stderr


def read_estimate(result):
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["estimate"]
    return row


@pytest.mark.parametrize(
    ("texts", "said", "truth"),
    [
        (["$27.60", "$12.40"], ("--strip", "$"), 20),
        (['"$1,027.60"', "12.40"], ("--strip", "$,"), 520),
        (["10 %", "30%"], ("--strip", "%"), 20),
        (['"27,60 €"', '"1.012,40 €"'], ("--strip", "€", "--decimal", ","), 520),
        (["10 kg", "NA", "30 kg"], ("--strip", "kg", "--on-invalid", "drop"), 20),
    ],
)
def test_units_are_left_out_if_that_is_said(shuffledp, tmp_path, texts, said, truth):
    """The advice of the errors above, followed; a word that is no number stays what it is."""
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(texts * 400) + "\n")
    ends = ("--lower", "0.0", "--upper", "1100.0", "--model", "central", "--epsilon", "9", "--json")
    row = read_estimate(shuffledp("run", "mean", "x.csv", *ends, *said, "--seed", "1"))
    assert abs(row["value"] - truth) < 2


@pytest.mark.parametrize(
    ("order", "text"),
    [("dmy", "{day}.3.2024"), ("mdy", "03/{day:02d}/2024"), ("ymd", "2024/3/{day}")],
)
def test_dates_are_read_in_the_order_that_is_said(shuffledp, tmp_path, order, text):
    """The median of days 1 to 21 of March is the 11th; a filter compares dates, too."""
    days = [text.format(day=day) for day in range(1, 22)] * 50
    (tmp_path / "x.csv").write_text("day\n" + "\n".join(days) + "\n")
    asked = ("run", "median", "x.csv", "--lower", "2024-01-01", "--upper", "2024-12-31", "--json")
    noise = ("--model", "central", "--epsilon", "9", "--seed", "1", "--dates", order)
    assert read_estimate(shuffledp(*asked, *noise))["value"] == "2024-03-11"
    later = ("--where", "day >= '2024-03-11'")
    assert read_estimate(shuffledp(*asked, *noise, *later))["value"] == "2024-03-16"
    assert "which cannot be compared with a date" in shuffledp(*asked, *noise[:-2], *later).stderr
    ordered = ("--where", "day >= '11.03.2024'")
    assert (
        "'11.03.2024': in a filter, dates are written 2024-12-31"
        in shuffledp(*asked, *noise, *ordered).stderr
    )
    wrong = shuffledp(*asked, *noise[:-1], "german")
    assert "dates='german' must be one of iso, ymd, dmy, mdy" in wrong.stderr


def test_hints_can_be_pasted_into_a_shell(shuffledp, tmp_path):
    """Names with blanks stand in quotes, for a shell and for a filter."""
    (tmp_path / "x.csv").write_text("user id,party vote\n" + "1,yes\n2,no\n" * 200)
    asked = ("run", "count", "x.csv", "--column", "party vote", *PROMISE)
    assert "add --person 'user id'." in shuffledp(*asked).stderr
    assert "'party vote': give its name, --column" in shuffledp(*asked[:3], *PROMISE).stderr
    wrong = shuffledp(*asked, "--where", "party vote = 'yes'").stderr
    assert 'a column name with blanks goes in double quotes: "party vote")' in wrong
    assert shuffledp(*asked, "--where", "\"party vote\" = 'yes'").exit_code == 0
    ends = ("--lower", "31.12.2023", "--upper", "31.12.2024")
    dated = shuffledp("run", "median", "x.csv", "--column", "user id", *ends, *PROMISE).stderr
    assert "lower='31.12.2023' must be a number (dates are written 2024-12-31)" in dated


def test_words_and_codes_may_be_left_out(shuffledp, tmp_path):
    (tmp_path / "x.csv").write_text("x\nA4\n" + "7\n" * 100)
    asked = ("run", "mean", "x.csv", "--lower", "0.0", "--upper", "9999", *PROMISE)
    assert "to go on: --on-invalid unknown=drop" in shuffledp(*asked).stderr


def test_missing_values_get_no_hint_about_yes(shuffledp, tmp_path):
    (tmp_path / "x.csv").write_text("x\nNA\n" + "5\n" * 100)
    result = shuffledp("run", "count", "x.csv", "--true-value", "5", *PROMISE)
    assert "is missing; to go on: --on-invalid null=drop" in result.stderr


def test_a_question_is_not_a_command(shuffledp):
    result = shuffledp("histogram", "people.csv")
    assert result.exit_code == 2
    assert "Did you mean 'run histogram'?" in result.stderr


def test_a_tally_of_nobody_is_named(shuffledp, people, tmp_path):
    asked = ("--column", "home", "--task", "count", *PROMISE, "--out", "m.parquet")
    assert shuffledp("randomize", "people.csv", *asked).exit_code == 0
    assert shuffledp("tally", "m.parquet", "--out", "t.json").exit_code == 0
    tally = json.loads((tmp_path / "t.json").read_text())
    tally |= {"users": 0, "shuffles": [0], "counts": [0] * len(tally["counts"])}
    (tmp_path / "z.json").write_text(json.dumps(tally))
    result = shuffledp("estimate", "t.json", "z.json")
    assert result.exit_code == 2
    assert "z.json has the tally of a shuffle without people" in result.stderr


def test_plans_take_categories(shuffledp):
    asked = ("--n", "1e4", *PROMISE)
    few = shuffledp("plan", "histogram", "--categories", "a,b,c", *asked)
    assert few.exit_code == 0, few.output
    known = shuffledp("plan", "histogram", "--k", "3", *asked).stdout
    assert few.stdout.splitlines()[:5] == known.splitlines()[:5]


@pytest.mark.parametrize("quiet", [(), ("--quiet",), ("--json",)])
@pytest.mark.parametrize(
    "asked",
    [
        ("run", "mean", "--lower", "0", "--upper", "9"),
        ("run", "histogram", "--k", "10"),
        ("run", "mean", "--lower", "0", "--upper", "9", "--by", "g", "--groups", "a,b"),
        ("learn", "--k", "10"),
        ("test", "--k", "10", "--distance", "0.3"),
        ("robust", "mean", "--lower", "0", "--upper", "9"),
    ],
)
def test_every_output_says_how_many_were_left_out(shuffledp, tmp_path, asked, quiet):
    rows = (f"{'ab'[i % 2]},{i % 10 if i % 4 else 'NA'}\n" for i in range(2000))
    (tmp_path / "x.csv").write_text("g,x\n" + "".join(rows))
    place = 2 if asked[0] in ("run", "robust") else 1
    told = (*asked[:place], "x.csv", "--column", "x", *asked[place:], "--on-invalid", "drop")
    result = shuffledp(*told, *PROMISE, *quiet)
    assert result.exit_code == 0, result.output
    assert re.search(r"(?<![0-9,.])500(?![0-9,.][0-9])", result.stdout), result.stdout


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "dictionary"])
def test_units_and_dates_are_read_alike_in_every_format(shuffledp, tmp_path, kind):
    """Text is text, whichever file it stands in."""
    import pandas as pd

    frame = pd.DataFrame({"x": ["$27.60", "$12.40"] * 400, "day": ["1.3.2024", "11.3.2024"] * 400})
    path = tmp_path / f"x.{'parquet' if kind == 'dictionary' else kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        (frame.astype("category") if kind == "dictionary" else frame).to_parquet(path)
    said = ("--strip", "$", "--dates", "dmy", "--where", "day >= '2024-03-05'", "--json")
    ends = ("--column", "x", "--lower", "0.0", "--upper", "100.0", "--model", "central")
    row = read_estimate(
        shuffledp("run", "mean", path, *ends, *said, "--epsilon", "9", "--seed", "1")
    )
    assert abs(row["value"] - 12.4) < 0.5


def test_what_a_cluster_reads_keeps_what_was_said_about_it():
    """Spark refuses spellings that it does not know, so it must hear of them."""
    from shuffledp.engine.formats import Files, find_files

    (found,) = find_files(Files("s3://bucket/x.csv", decimal=","))
    assert found.spelling.decimal == ","


def test_a_plan_is_tried_on_a_file_as_run_reads_it(shuffledp, tmp_path):
    """`collection simulate`: who was left out is said, in JSON as a number, and quietly, too."""
    (tmp_path / "s.toml").write_text(
        'epsilon = 1.0\ndelta = 1e-6\n[questions.home]\ntask = "count"\n[collection]\npeople = 100\n'
    )
    (tmp_path / "x.csv").write_text("Home;day\n" + "ja;1.3.2024\nno;1.3.2024\nyes;1.3.2024\n" * 200)
    asked = ("collection", "simulate", "s.toml", "x.csv", "--column", "home=Home")
    wrong = shuffledp(*asked)
    assert wrong.exit_code == 2
    hint = "is neither no nor yes (or true or false); to go on: --on-invalid unknown=drop"
    assert hint in wrong.stderr, "devices know no true value"
    said = ("--on-invalid", "drop", "--dates", "dmy", "--where", "day < '2024-04-01'")
    found = json.loads(shuffledp(*asked, *said, "--json").stdout)
    assert (found["left_out"], found["questions"]["home"]["of"]) == (200, 400)
    exact = [
        "n is the exact number of people with day < '2024-04-01': no noise protects who they are"
    ]
    assert found["not_private"] == [*exact, LEFT_OUT]
    told = shuffledp(*asked, *said)
    assert "200 of 600 people had a value that no device would send" in told.stdout
    warned = " ".join(told.stderr.split())
    assert all(f"NOT PRIVATE: {text}." in warned for text in found["not_private"])
    spoken = 'task = "count"\nasked = { answers = ["no", "ja"] }'
    (tmp_path / "s.toml").write_text(
        (tmp_path / "s.toml").read_text().replace('task = "count"', spoken)
    )
    found = json.loads(shuffledp(*asked, "--json").stdout)
    assert (found["left_out"], found["questions"]["home"]["of"]) == (0, 600)
    assert found["not_private"] == []
    (row,) = found["questions"]["home"]["estimate"]
    assert abs(row["value"] - 400) < 5 * row["stderr"]
