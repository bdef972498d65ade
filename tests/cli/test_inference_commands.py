"""`shuffledp learn` and `shuffledp test`: what Python's functions answer, for columns of files."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import shuffledp as sdp

PROMISE = ("--epsilon", "1", "--delta", "1e-8")
WAYS = ("--column", "way", "--categories-from-data")
BUDGET = ("--ledger", "l.json", "--budget-epsilon", "2", "--budget-delta", "1e-6")


@pytest.fixture
def codes(people, survey):
    """Everybody's `home` in the order of the file."""
    return survey.home.astype(np.int64)


HOME = ("people.csv", "--column", "home", "--categories", "false,true")


class TestLearn:
    @pytest.mark.parametrize("model", ["shuffle", "local", "central"])
    def test_is_the_function_of_python(self, shuffledp, codes, model):
        delta = ("--delta", "1e-8") if model == "shuffle" else ()
        words = ("learn", *HOME, "--epsilon", "1", *delta, "--model", model, "--seed", 5, "--json")
        told = json.loads(shuffledp(*words).stdout)
        learned = sdp.learn(
            codes, k=2, epsilon=1.0, delta=1e-8, model=model, rng=sdp.SeededWords(5)
        ).label(sdp.Categories(k=2, names=("false", "true")))
        mine = learned.to_dict()
        assert {name: told[name] for name in mine} == json.loads(json.dumps(mine))
        assert [row["label"] for row in told["estimate"]] == ["false", "true"]
        assert told["seed"] == 5
        assert "seeded" in told["not_private"][0]

    def test_without_privacy_says_so(self, shuffledp, codes):
        result = shuffledp("learn", *HOME, "--model", "none")
        share = codes.mean()
        assert result.exit_code == 0, result.output
        assert f"{share:.4f}" in result.stdout
        assert "nothing is promised" in result.stdout
        assert "NOT PRIVATE: the model 'none'" in result.stderr.replace("\n", " ")

    def test_a_ledger_is_charged_once_and_refuses_the_third(self, shuffledp, people):
        words = ("learn", *HOME, *PROMISE)
        first = shuffledp(*words, *BUDGET)
        assert first.exit_code == 0, first.output
        assert "epsilon 1 of 2" in first.stdout
        (entry,) = sdp.ledger.Ledger(people.parent / "l.json").entries()
        assert entry.released
        assert entry.note["task"] == "learn"
        assert shuffledp(*words, "--ledger", "l.json").exit_code == 0
        refused = shuffledp(*words, "--ledger", "l.json")
        assert refused.exit_code == 3
        assert refused.stdout == ""

    @pytest.mark.parametrize(
        "more",
        [("--seed", "1"), ("--model", "none"), ("--categories-from-data",)],
        ids=["seed", "none", "from data"],
    )
    def test_what_promises_nothing_cannot_be_charged(self, shuffledp, people, more):
        home = HOME[:3] if "--categories-from-data" in more else HOME
        result = shuffledp("learn", *home, *PROMISE, *BUDGET, *more)
        assert result.exit_code == 2
        assert "a ledger cannot charge it" in result.stderr
        assert not (people.parent / "l.json").exists()

    def test_writes_tables(self, shuffledp, people):
        for name in ("r.csv", "r.parquet", "r.json"):
            result = shuffledp("learn", *HOME, *PROMISE, "--out", name, "--json")
            told = json.loads(result.stdout)["estimate"]
            assert self.read(people.parent / name) == told

    def read(self, path):
        if path.suffix == ".json":
            return json.loads(path.read_text())["estimate"]
        if path.suffix == ".parquet":
            return pq.read_table(path).to_pylist()
        rows = csv.DictReader(path.read_text().splitlines())
        return [{k: v if k == "label" else float(v) for k, v in row.items()} for row in rows]

    def test_a_large_delta_is_refused(self, shuffledp, people):
        result = shuffledp("learn", *HOME, "--epsilon", "1", "--delta", "0.01")
        assert result.exit_code == 2
        assert "--allow-large-delta" in result.stderr
        allowed = shuffledp(
            "learn", *HOME, "--epsilon", "1", "--delta", "0.01", "--allow-large-delta"
        )
        assert allowed.exit_code == 0
        assert "delta = 0.01 is large" in allowed.stdout

    def test_who_is_left_out_is_said(self, shuffledp, people):
        words = ("people.csv", "--column", "way", "--categories", "car,bus", "--on-invalid", "drop")
        result = shuffledp("learn", *words, *PROMISE)
        assert "were left out" in result.stdout
        paid = ("--ledger", "l.json", "--budget-epsilon", "9", "--budget-delta", "1e-3")
        refused = shuffledp("learn", *words, *PROMISE, *paid)
        assert refused.exit_code != 0
        assert "makes n the exact number of people" in " ".join(refused.stderr.split())
        other = ("--categories", "car,other", "--on-invalid", "other")
        told = shuffledp("learn", *words[:3], *other, *PROMISE, "--json")
        assert json.loads(told.stdout)["invalid"] is None
        assert "For you alone" in told.stderr

    def test_needs_its_parameters(self, shuffledp, people):
        assert "epsilon must be given" in shuffledp("learn", *HOME).stderr
        assert "needs its categories" in shuffledp("learn", *HOME[:3], *PROMISE).stderr


class TestTest:
    def test_is_the_function_of_python(self, shuffledp, codes):
        words = ("test", *HOME, *PROMISE, "--distance", "0.2", "--seed", 7, "--json")
        told = json.loads(shuffledp(*words).stdout)
        found = sdp.uniformity_test(
            codes, k=2, alpha=0.2, epsilon=1.0, delta=1e-8, rng=sdp.SeededWords(7)
        )
        mine = found.to_dict()
        assert {name: told[name] for name in mine} == json.loads(json.dumps(mine))
        assert told["law"] == "uniform"
        assert told["accept"] is False

    def test_a_known_law(self, shuffledp, codes):
        share = round(float(codes.mean()), 2)
        law = f"{1 - share:.2f},{share:.2f}"
        words = (
            "test",
            *HOME,
            *PROMISE,
            "--distance",
            "0.3",
            "--error",
            "1e-3",
            "--seed",
            "3",
            "--law",
            law,
        )
        result = shuffledp(*words)
        assert result.exit_code == 0, result.output
        assert f"Is the law {law}? Accepted" in result.stdout
        wrong = shuffledp(*words[:-1], "1/2,1/4,1/4")
        assert wrong.exit_code == 2
        assert "must have one number for each of the 2 categories" in wrong.stderr

    def test_a_law_sums_to_one(self, shuffledp, people):
        result = shuffledp("test", *HOME, *PROMISE, "--distance", "0.3", "--law", "0.5,0.4")
        assert result.exit_code == 2
        assert "law='0.5,0.4' must sum to 1, and its sum is 9/10" in result.stderr

    @pytest.mark.parametrize("text", ["a half", "1/0", ""])
    def test_numbers_are_numbers(self, shuffledp, people, text):
        result = shuffledp("test", *HOME, *PROMISE, "--distance", "0.3", "--law", f"{text},1/2")
        assert result.exit_code == 2
        assert "must be numbers such as" in result.stderr

    def test_the_distance_had_another_name(self, shuffledp, people):
        words = ("test", *HOME, *PROMISE, "--seed", 7, "--json")
        old, new = (shuffledp(*words, each, "0.2") for each in ("--alpha", "--distance"))
        assert json.loads(old.stdout) == json.loads(new.stdout)
        assert "--alpha is now called --distance" in old.stderr
        assert new.stderr.startswith("NOT PRIVATE")
        assert json.loads(new.stdout)["level"] <= 0.05
        assert "--distance" in shuffledp(*words).stderr
        both = shuffledp(*words, "--alpha", "0.2", "--distance", "0.2")
        assert both.exit_code == 2

    def test_a_public_coin_is_named(self, shuffledp, people):
        more = ("--coin", "public", "--public-seed", "9", "--json")
        result = shuffledp("test", *HOME, *PROMISE, "--distance", "0.2", *more)
        assert json.loads(result.stdout)["public_seed"] == 9

    def test_a_ledger_is_charged(self, shuffledp, people):
        result = shuffledp("test", *HOME, *PROMISE, "--distance", "0.2", *BUDGET)
        assert result.exit_code == 0, result.output
        (entry,) = sdp.ledger.Ledger(people.parent / "l.json").entries()
        assert entry.note["task"] == "test"
        assert entry.released


def test_codes_come_in_the_order_of_the_rows(people, survey):
    """A public coin puts people into groups by their place: nobody's group may depend on others' values."""
    column = sdp.open_column(people, "way")
    ways = survey.way.domain
    found = sdp.engine.read_codes(column, ways)
    assert (found.codes == survey.way.codes).all()
    dropped = sdp.engine.read_codes(column, sdp.Categories(k=2, names=ways.labels[:2]), "drop")
    assert (dropped.codes == survey.way.codes[survey.way.codes < 2]).all()
    assert dropped.rows == len(survey.way.codes)
    assert dropped.invalid["unknown"] == dropped.rows - len(dropped.codes)


def test_nobody_is_an_error(people):
    column = sdp.open_column(people, "way")
    with pytest.raises(sdp.DataError, match="no valid value"):
        sdp.engine.read_codes(column, sdp.Categories(k=2, names=("x", "y")), "drop")


ROBUST_OPTIONS = (
    "true-value",
    "lower",
    "categories",
    "k",
    "honest",
    "model",
    "at",
    "edges",
    "bits",
)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("learn", "--model", "central", "--epsilon", 1, "--max-messages", 2), "no --max-messages"),
        (("learn", "--model", "local", *PROMISE), "the model local takes no --delta"),
        (("learn", "--model", "none", "--epsilon", 1), "the model none takes no --epsilon"),
        (
            ("test", "--distance", 0.2, "--model", "central", *PROMISE, "--honest", 1),
            "no --delta, --honest",
        ),
    ],
)
def test_what_a_model_has_no_use_for_is_refused(shuffledp, people, words, said):
    command, *more = words
    result = shuffledp(command, *HOME, *more)
    assert result.exit_code == 2
    assert said in result.stderr.replace("\n", " ")


class TestRobust:
    def test_is_the_function_of_python(self, shuffledp, codes):
        words = ("robust", "count", "people.csv", "--column", "home", "--groups", 3, *PROMISE)
        told = json.loads(shuffledp(*words, "--seed", 5, "--json").stdout)
        n = len(codes)

        def make(people):
            honest = sdp.inference.count_honest(people, n, honest=int(0.9 * n), chance=0.5e-8)
            return sdp.count(n=people, epsilon=1.0, delta=0.5e-8, honest=honest / people)

        found = sdp.inference.median_of_groups(make, codes, groups=3, rng=sdp.SeededWords(5))
        assert told["estimate"] == [{"label": "answer", "value": found.value}]
        assert (told["groups"], told["tolerates"], told["n"]) == (3, 1, len(codes))
        assert found.guarantee.delta + 0.5e-8 <= told["delta"] <= 1.0000001e-8
        assert told["epsilon"] == found.guarantee.epsilon
        assert f"{int(0.9 * n):,} honest users" in told["guarantee"]
        assert f"with {found.guarantee.honest:,} honest people in a group" in told["guarantee"]
        assert "seeded" in told["not_private"][0]
        assert "one liar cannot" in shuffledp(*words, "--seed", 5).stdout.replace("\n", " ")

    def test_if_everybody_is_honest_groups_are(self, shuffledp, codes):
        words = ("robust", "count", "people.csv", "--column", "home", "--groups", 3, *PROMISE)
        told = json.loads(shuffledp(*words, "--honest", 1, "--json").stdout)
        assert told["delta"] <= 1e-8
        assert f"{len(codes):,} honest users" in told["guarantee"]
        assert "Hoeffding" not in told["guarantee"]

    @pytest.mark.parametrize(("column", "ends"), [("minutes", ()), ("hours", ("--steps", 50))])
    def test_means_are_of_numbers(self, shuffledp, people, survey, column, ends):
        """Of integers, and of reals between the points of a grid."""
        top = 240 if column == "minutes" else 4
        words = ("robust", "mean", "people.csv", "--column", column, "--lower", 0, "--upper", top)
        told = json.loads(shuffledp(*words, *ends, *PROMISE, "--groups", 3, "--json").stdout)
        (answer,) = told["estimate"]
        truth = survey.minutes.mean() / (1 if column == "minutes" else 60)
        assert answer["value"] == pytest.approx(truth, rel=0.2)
        assert told["not_private"] == []

    def test_histograms_have_labels_and_a_ledger_is_charged(self, shuffledp, people):
        words = ("robust", "histogram", *HOME, *PROMISE, "--groups", 3)
        result = shuffledp(*words, *BUDGET)
        assert result.exit_code == 0, result.output
        assert "false: " in result.stdout
        assert "epsilon 1 of 2" in result.stdout
        (entry,) = sdp.ledger.Ledger(people.parent / "l.json").entries()
        assert entry.note["task"] == "robust histogram"
        assert entry.released

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("quantiles", "--epsilon", 1, "--delta", "1e-8"), "must be one of count"),
            (("count", "--epsilon", 1), "delta must be given"),
            (("count", "--delta", 1e-6), "epsilon must be given"),
            (("count", *PROMISE, "--lower", 0), "a count takes no lower"),
            (("count", "--epsilon", 1, "--delta", 0), "must be > 0: a random group"),
            (("count", *PROMISE, "--groups", 4000), "too few for 4000 groups"),
        ],
    )
    def test_what_is_refused(self, shuffledp, people, words, said):
        task, *more = words
        result = shuffledp("robust", task, "people.csv", "--column", "home", *more)
        assert result.exit_code != 0
        assert said in result.stderr.replace("\n", " ")

    def test_offers_the_options_of_its_questions_alone(self, shuffledp):
        help_ = shuffledp("robust", "--help").stdout
        offered = {name for name in ROBUST_OPTIONS if f"--{name} " in help_}
        assert offered == {"true-value", "lower", "categories", "k", "honest"}

    @pytest.mark.parametrize("option", ["model", "at", "edges", "alphabet"])
    def test_knows_no_option_of_other_questions(self, shuffledp, people, option):
        words = ("robust", "count", "people.csv", "--column", "home", *PROMISE)
        result = shuffledp(*words, f"--{option}", "none")
        assert result.exit_code == 2
        assert f"No such option: --{option}" in result.stderr


class TestFrequencies:
    @pytest.fixture
    def passwords(self, people):
        path = people.parent / "passwords.csv"
        path.write_text("password\n" + "123456\n" * 30 + "letmein\n" * 10 + "a\nb\nc\nd\n")
        return path

    WORDS = ("frequencies", "passwords.csv", "--column", "password", "--epsilon", 1)

    def test_is_the_mechanism(self, shuffledp, passwords):
        told = json.loads(shuffledp(*self.WORDS, "--seed", 5, "--json").stdout)
        made = sdp.mechanisms.frequency_list.FrequencyList(n=44, epsilon=1.0)
        released = made.release([30, 10, 1, 1, 1, 1], sdp.SeededWords(5))
        assert [row["value"] for row in told["estimate"]] == released[released > 0].tolist()
        assert (told["n"], told["epsilon"], told["delta"], told["model"]) == (44, 1, 0, "central")
        assert "seeded" in told["not_private"][0]

    def test_names_no_password(self, shuffledp, passwords):
        result = shuffledp(*self.WORDS)
        assert result.exit_code == 0, result.output
        assert "std. error" in result.stdout
        assert "central model" in result.stdout
        assert "letmein" not in result.output

    def test_is_charged_and_written(self, shuffledp, passwords):
        result = shuffledp(*self.WORDS, *BUDGET, "--out", "list.csv", "--quiet")
        assert result.exit_code == 0, result.output
        assert result.output == ""
        with (passwords.parent / "list.csv").open() as file:
            assert [*next(csv.DictReader(file))] == ["label", "value", "stderr", "low", "high"]
        (entry,) = sdp.ledger.Ledger(passwords.parent / "l.json").entries()
        assert (entry.note["task"], entry.note["n"], entry.released) == ("frequencies", 44, True)
        seeded = shuffledp(*self.WORDS, "--ledger", "l.json", "--seed", 1)
        assert "a seed protects nobody" in seeded.stderr

    def test_says_what_may_be_noise(self, shuffledp, tmp_path):
        rows = ["setosa"] * 50 + ["versicolor"] * 50 + ["virginica"] * 50
        (tmp_path / "iris.csv").write_text("species\n" + "\n".join(rows) + "\n")
        asked = ("frequencies", "iris.csv", "--epsilon", 1, "--seed", 1)
        told = json.loads(shuffledp(*asked, "--json").stdout)
        assert (told["certain"], told["level"]) == (3, 0.95)
        assert len(told["estimate"]) > 3
        assert all(row["low"] <= 50 <= row["high"] for row in told["estimate"][:3])
        text = " ".join(shuffledp(*asked).stdout.split())
        assert "std. error 95% interval" in text
        assert "At least 3 different values with 95% confidence" in text
        narrow = json.loads(shuffledp(*asked, "--level", 0.5, "--json").stdout)
        assert narrow["estimate"][0]["low"] > told["estimate"][0]["low"]

    @pytest.mark.parametrize(("missing", "values"), [((), 2), (("--missing", "-"), 4)])
    def test_missing_values_are_one_value(self, shuffledp, tmp_path, missing, values):
        (tmp_path / "a.csv").write_text("id,a\n" + "1,NA\n2,null\n3,\n4,cat\n" * 50)
        asked = ("frequencies", "a.csv", "--column", "a", "--epsilon", 40, "--seed", 1, "--json")
        told = json.loads(shuffledp(*asked, *missing).stdout)
        assert len(told["estimate"]) == values

    def test_what_is_refused(self, shuffledp, passwords):
        many = shuffledp("frequencies", "people.csv", "--column", "way", "--epsilon", 1)
        assert "n=3000 must be <= 1000" in many.stderr
        nobody = shuffledp(*self.WORDS, "--where", "password = 'nobody'")
        assert "has no rows" in nobody.stderr


class TestPeopleNeeded:
    ASKED = ("people-needed", "count", "--alpha", "0.01", "--epsilon", "1")

    def test_is_the_function_of_python(self, shuffledp):
        told = json.loads(
            shuffledp(*self.ASKED, "--delta", "1e-6", "--beta", "0.1", "--json").stdout
        )
        assert [row["model"] for row in told["rows"]] == ["none", "central", "shuffle", "local"]
        for row in told["rows"]:
            found = sdp.sample_complexity(
                "count", alpha=0.01, beta=0.1, epsilon=1.0, delta=1e-6, model=row["model"]
            )
            assert (row["n"], row["protocol"]) == (found.n, found.protocol)

    def test_says_what_it_is(self, shuffledp):
        result = shuffledp(*self.ASKED, "--delta", "1e-6", "--model", "central", "--model", "local")
        assert result.exit_code == 0, result.output
        text = " ".join(result.stdout.split())
        assert "central 300 people (geometric; exact)" in text
        assert "These numbers are enough" in text
        assert "shuffle" not in text.split("These numbers")[0]

    def test_tests_and_laws(self, shuffledp):
        words = ("people-needed", "identity_test", "--law", "1/2,1/4,1/4", "--alpha", "0.3")
        told = json.loads(shuffledp(*words, "--epsilon", "1", "--model", "none", "--json").stdout)
        same = sdp.sample_complexity("uniformity_test", k=4, alpha=0.3, model="none")
        assert told["rows"][0]["n"] == same.n

    def test_a_model_that_lacks_something_says_so(self, shuffledp):
        text = " ".join(shuffledp(*self.ASKED).stdout.split())
        assert "shuffle not available: delta must be given" in text

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (("--error", "1/3"), "error"),
            (("--k", "4"), "k=4 is not an option of count"),
            (("--model", "cloud"), "model='cloud'"),
            (("--coin", "public"), "coin"),
            (("--beta", "2"), "beta=2.0"),
        ],
    )
    def test_bad_options(self, shuffledp, more, message):
        result = shuffledp(*self.ASKED, *more)
        assert result.exit_code != 0
        assert message in result.output


ASKED = {
    "learn": ("learn", *HOME, *PROMISE),
    "test": ("test", *HOME, "--epsilon", "1", "--model", "local", "--distance", "0.5"),
    "robust": ("robust", "count", "people.csv", "--column", "home", "--groups", "3", *PROMISE),
    "frequencies": ("frequencies", "few.csv", "--column", "way", "--epsilon", "1"),
}


class TestWhomTheyProtect:
    """No column says which person a row is about: the promise is to a row, and every answer says so."""

    @pytest.fixture(autouse=True)
    def few(self, people):
        people.with_name("few.csv").write_text("way\n" + "car\nbus\ncar\n" * 10)

    @pytest.mark.parametrize("words", ASKED.values(), ids=ASKED)
    def test_it_is_said_and_charged(self, shuffledp, people, words):
        said = shuffledp(*words, *BUDGET)
        assert said.exit_code == 0, said.output
        unit = "Each row is taken to be one person, so the promise protects one row."
        assert " ".join(said.stdout.split()).count(unit) == 1
        (entry,) = sdp.ledger.Ledger(people.parent / "l.json").entries()
        assert entry.note["unit"] == "row"
        assert json.loads(shuffledp(*words, "--json").stdout)["unit"] == "row"

    def test_nobody_is_protected_by_no_promise(self, shuffledp, people):
        said = shuffledp("learn", *HOME, "--model", "none")
        assert "one row" not in " ".join(said.stdout.split())

    def test_whom_intervals_are_about(self, shuffledp, people):
        """A share of the population is off by the sampling error, too."""
        said = " ".join(shuffledp(*ASKED["learn"]).stdout.split())
        assert "about the raw shares among these people, too: they cover the noise, and no" in said
        told = json.loads(shuffledp(*ASKED["learn"], "--json").stdout)
        assert told["intervals_about"] == "these people"


def test_quietly_too_it_is_said_who_was_left_out(shuffledp, people):
    words = ("people.csv", "--column", "way", "--categories", "car,bus", "--on-invalid", "drop")
    said = " ".join(shuffledp("learn", *words, *PROMISE, "--quiet").stdout.split())
    assert "were left out: n is" in said
    assert "Each row is" not in said


@pytest.mark.parametrize(("groups", "said"), [(1, "1 group"), (2, "2 random groups")])
def test_few_groups_help_against_no_liar(shuffledp, people, groups, said):
    words = ("robust", "count", "people.csv", "--column", "home", "--groups", groups, *PROMISE)
    found = " ".join(shuffledp(*words).stdout.split())
    assert f"The median of {said}: it withstands no liar." in found
    assert "cannot move" not in found


def test_a_group_of_one_has_one_honest_person(shuffledp, tmp_path):
    (tmp_path / "few.csv").write_text("home\ntrue\nfalse\ntrue\n")
    words = ("robust", "count", "few.csv", "--column", "home", "--groups", 3, "--epsilon", 1)
    found = " ".join(shuffledp(*words, "--delta", 0.1).stdout.split())
    assert "with 1 honest person in a group" in found
