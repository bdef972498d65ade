"""The promise is about people: every question, model and engine, filters, surveys, messages and the ledger."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from file_support import write

PEOPLE = 300
WAYS = ("bus", "car", "walk")


def trips(seed=3, people=PEOPLE):
    rng = np.random.default_rng(seed)
    who = rng.permutation(np.repeat(np.arange(people), rng.geometric(0.3, size=people)))
    rows = len(who)
    return {
        "who": who.tolist(),
        "km": rng.integers(0, 30, size=rows).tolist(),
        "hours": rng.uniform(0, 8, size=rows).round(3).tolist(),
        "way": rng.choice(WAYS, size=rows).tolist(),
        "late": (rng.uniform(size=rows) < 0.1).tolist(),
        "day": rng.permutation(rows).tolist(),
    }


TRIPS = trips()
ASKED = {
    "count": {"column": "late"},
    "sum": {"column": "km", "lower": 0, "upper": 300},
    "mean": {"column": "km", "lower": 0, "upper": 30},
    "histogram": {"column": "way", "categories": WAYS},
    "quantiles": {"column": "hours", "lower": 0.0, "upper": 8.0},
    "variance": {"column": "km", "lower": 0, "upper": 30},
    "cdf": {"column": "km", "lower": 0, "upper": 30, "at": [10]},
    "bins": {"column": "km", "edges": [0, 10, 30]},
    "words": {"column": "way", "alphabet": "letters", "max_length": 4, "on_invalid": "clamp"},
}
MODELS = {"shuffle": {"delta": 1e-6}, "local": {}, "central": {}}


def ask(data, task, *, person="who", model="shuffle", epsilon=1.0, seed=1, **more):
    rng = None if seed is None else sdp.SeededWords(seed)
    given = {**MODELS[model], **more}
    return sdp.ask(data, task, epsilon=epsilon, model=model, rng=rng, person=person, **given)


def group(table, column):
    rows = {}
    for who, value in zip(table["who"], table[column], strict=True):
        rows.setdefault(who, []).append(value)
    return [rows[who] for who in sorted(rows, key=str)]


REDUCED = {
    "count": lambda: [any(rows) for rows in group(TRIPS, "late")],
    "sum": lambda: [sum(rows) for rows in group(TRIPS, "km")],
    "mean": lambda: [float(np.mean(rows)) for rows in group(TRIPS, "km")],
    "quantiles": lambda: [float(np.mean(rows)) for rows in group(TRIPS, "hours")],
    "variance": lambda: [float(np.mean(rows)) for rows in group(TRIPS, "km")],
}


EVERY = [
    (task, model) for task in ASKED for model in MODELS if (task, model) != ("words", "central")
]


@pytest.mark.parametrize(("task", "model"), EVERY)
def test_every_question_in_every_model_is_about_people(task, model):
    options = ASKED[task]
    answer = ask(TRIPS, task, model=model, epsilon=8.0, **options)
    assert (answer.n, answer.unit) == (PEOPLE, "person")
    assert answer.to_dict()["unit"] == "person"
    assert answer.to_dict()["rows"] is answer.to_dict()["invalid"] is None
    assert "The promise protects one person with all their rows." in str(answer)
    assert f"{len(TRIPS['who']):,} rows were read" in answer.for_operator
    assert str(len(TRIPS["who"])) not in json.dumps(answer.to_dict())


@pytest.mark.parametrize("task", REDUCED)
def test_the_answer_is_that_of_the_reduced_column(task):
    """The same words, the same answer as about a column that has one row for each person already."""
    options = {key: value for key, value in ASKED[task].items() if key != "column"}
    found = ask(TRIPS, task, **ASKED[task]).estimate
    values = np.array(REDUCED[task]())
    plain = sdp.ask(values, task, epsilon=1.0, delta=1e-6, rng=sdp.SeededWords(1), **options)
    np.testing.assert_array_equal(found.value, plain.estimate.value)


def test_without_a_person_each_row_is_taken_to_be_one():
    answer = ask(TRIPS, "count", column="late", person=None)
    assert (answer.n, answer.unit) == (len(TRIPS["who"]), "row")
    assert "Each row is taken to be one person, so the promise protects one row." in str(answer)
    assert "Each row is taken to be one person" in answer.explain()


EVENTS = {"one row": 1, "a thousand rows": 1000}


@pytest.mark.parametrize("rows", EVENTS.values(), ids=EVENTS)
@pytest.mark.parametrize("task", ["count", "sum", "mean", "histogram", "variance"])
def test_one_person_moves_nothing_public(task, rows):
    """With one seed: whatever somebody's rows are, n and everything but the estimate are the same."""
    keep = [place for place, who in enumerate(TRIPS["who"]) if who != 7]
    other = {name: [column[place] for place in keep] for name, column in TRIPS.items()}
    for name, value in {"who": 7, "km": 1, "hours": 1.0, "way": "car", "late": True}.items():
        other[name] = [*([value] * rows), *other[name]]
    other["day"] = [0] * len(other["who"])
    drop = {"on_invalid": "drop"} if task != "variance" else {}
    before, after = (ask(each, task, **drop, **ASKED[task]).to_dict() for each in (TRIPS, other))
    for each in (before, after):
        del each["estimate"]
    assert before == after
    gone = {**other, "km": [None] * rows + other["km"][rows:]}
    if task in ("sum", "mean"):
        public = ask(gone, task, **drop, **ASKED[task]).to_dict()
        del public["estimate"]
        assert public == before


def test_nobody_is_left_out():
    """Who has no valid value counts as nothing: no, 0, a category or a group of their own."""
    table = {
        "who": [1, 1, 2, 3, 4],
        "km": [5, 5, None, 10, None],
        "way": ["car", None, None, "bus", None],
    }
    table = {name: column * 100 for name, column in table.items()}
    table["who"] = [who + 10 * place for place in range(100) for who in [1, 1, 2, 3, 4]]
    exact = {"epsilon": 90.0, "model": "central", "on_invalid": "drop"}
    answer = ask(table, "sum", column="km", lower=5, upper=20, **exact)
    assert answer.n == 400
    assert answer.estimate.value == pytest.approx(100 * (10 + 10), abs=3)
    assert answer.estimate.limits[0] == 0.0
    answer = ask(table, "histogram", column="way", categories=["car", "bus"], **exact)
    assert answer.estimate.labels == ("car", "bus", "none")
    assert answer.estimate.value.tolist() == pytest.approx([100, 100, 200], abs=3)
    answer = ask(table, "mean", column="km", lower=0, upper=20, **exact)
    assert answer.estimate.value == pytest.approx(7.5, abs=0.5)
    assert np.ndim(answer.estimate.value) == 0
    assert answer.by is None
    low, high = answer.estimate.interval(1 - 1e-9)
    assert low <= 7.5 <= high
    answer = ask(table, "cdf", column="km", lower=0, upper=20, at=[9, 20], **exact)
    assert answer.estimate.value.tolist() == pytest.approx([0.25, 0.5], abs=0.02)
    assert (
        "Whoever has no value counts in no range and below no point, but shares are of everybody."
        in (answer.notes)
    )
    by_way = {"by": "way", "groups": ["car", "bus"]}
    answer = ask(table, "sum", column="km", lower=0, upper=20, **by_way, **exact)
    assert answer.estimate.labels == (
        "car",
        "bus",
    )  # who names neither is in a group that is not shown
    assert answer.estimate.value.tolist() == pytest.approx([500, 1000], abs=20)


def test_a_category_that_is_called_none():
    table = {"who": [*range(200)] * 2, "way": [*["none", None, "car", "bus"] * 50] * 2}
    given = {"epsilon": 90.0, "model": "central", "on_invalid": "drop"}
    found = ask(
        table, "histogram", column="way", categories=["none", "car", "bus"], missing=["-"], **given
    )
    assert found.estimate.labels == ("none", "car", "bus", "(none)")
    assert found.estimate.value.tolist() == pytest.approx([50] * 4, abs=3)


def charged(tmp_path):
    return {
        "ledger": tmp_path / "l.json",
        "budget": sdp.ledger.Budget(epsilon=1000, delta=1e-3),
        "seed": None,
    }


@pytest.mark.parametrize("person", ["who", None])
@pytest.mark.parametrize("task", ["count", "sum", "mean", "histogram"])
def test_a_filter_under_a_ledger_keeps_everybody(tmp_path, task, person):
    """n is that of all people, the answer that of those who match, and their number is not told."""
    exact = {"epsilon": 90.0, "model": "central", "where": "day < 300", **charged(tmp_path)}
    answer = ask(TRIPS, task, person=person, **exact, **ASKED[task])
    assert answer.n == (PEOPLE if person else len(TRIPS["who"]))
    assert answer.not_private == (
        "the words of the filter (day < 300), which the answer and the ledger repeat",
    )
    assert "of whom those with day < 300 count" in answer.title
    taken = [place for place, day in enumerate(TRIPS["day"]) if day < 300]
    kept = {name: [column[place] for place in taken] for name, column in TRIPS.items()}
    column = ASKED[task]["column"]
    rows = group(kept, column) if person else [[value] for value in kept[column]]
    if task == "count":
        assert answer.estimate.value == pytest.approx(sum(map(any, rows)), abs=3)
    elif task == "sum":
        assert answer.estimate.value == pytest.approx(sum(map(sum, rows)), abs=60)
    elif task == "mean":
        assert answer.estimate.value == pytest.approx(
            np.mean([np.mean(each) for each in rows]), abs=0.8
        )
    else:
        assert sum(answer.estimate.value[:-1]) == pytest.approx(len(rows), abs=8)
    assert (
        json.loads((tmp_path / "l.json").read_text())["events"][1]["note"]["where_private"] is True
    )


@pytest.mark.parametrize("task", ["count", "sum", "mean", "histogram"])
def test_a_value_that_is_left_out_under_a_ledger_does_not_change_n(tmp_path, task):
    """Or n would be the exact answer to a question: of categories a and b, how many people have one of them."""
    exact = {"epsilon": 90.0, "model": "central", "on_invalid": "drop", "person": None}
    column, said = ASKED[task]["column"], []
    for gone in (400, 401):
        table = {column: [None if row < gone else value for row, value in enumerate(TRIPS[column])]}
        answer = ask(table, task, **exact, **charged(tmp_path), **ASKED[task])
        told = answer.to_dict()
        assert told["n"] == len(TRIPS["who"])
        assert (told["invalid"], told["rows"]) == (None, None)
        said.append({name: each for name, each in told.items() if name != "estimate"})
    assert said[0] == said[1]
    kept = TRIPS[column][401:]
    wanted = {"count": sum, "sum": sum, "mean": np.mean, "histogram": len}[task](kept)
    found = np.sum(np.atleast_1d(answer.estimate.value)[:3])
    assert found == pytest.approx(wanted, rel=0.02, abs=3)
    groups = {"by": "late", "groups": ("true", "false")}
    if task == "sum":
        grouped = ask(TRIPS, task, **exact, **groups, **charged(tmp_path), **ASKED[task])
        assert grouped.n == len(TRIPS["who"])
    if task == "histogram":
        own = {**ASKED[task], "categories": WAYS[:2]}
        fewer = ask(TRIPS, task, **exact, **charged(tmp_path), **own)
        assert fewer.n == len(TRIPS["who"])


@pytest.mark.parametrize("task", ["words"])
def test_what_has_no_place_for_nobody_is_refused_under_a_ledger(tmp_path, task):
    given = {**ASKED[task], **charged(tmp_path)}
    with pytest.raises(sdp.UnsupportedError, match="no place for people without a value"):
        ask(TRIPS, task, where="day < 300", **given)
    given = {"column": "km", "lower": "auto", "upper": "auto", **charged(tmp_path)}
    with pytest.raises(sdp.UnsupportedError, match="no place for people without a value"):
        ask(TRIPS, "sum", person=None, on_invalid="drop", **given)


@pytest.mark.parametrize("more", [{}, {"reduce": "one"}, {"person": None, "where": "day >= 0"}])
def test_which_value_is_a_yes(tmp_path, more):
    """It is asked of the rows, and not again of the people that they become."""
    given = {"epsilon": 90.0, "model": "central", "true_value": "bus", "column": "way"}
    given |= charged(tmp_path) if "where" in more else {}
    table = {**TRIPS, "who": list(range(len(TRIPS["who"])))}
    answer = ask(table, "count", **given, **more)
    assert answer.estimate.value == pytest.approx(TRIPS["way"].count("bus"), abs=3)


def test_a_public_filter_selects_people(tmp_path):
    given = {"where": "day < 300", "where_public": True, **charged(tmp_path)}
    answer = ask(TRIPS, "count", column="late", **given)
    taken = {who for who, day in zip(TRIPS["who"], TRIPS["day"], strict=True) if day < 300}
    assert answer.n == len(taken)


def test_what_a_private_filter_does_not_take_is_not_looked_at(tmp_path):
    wrong = {
        **TRIPS,
        "km": [
            "far" if day >= 300 else km for km, day in zip(TRIPS["km"], TRIPS["day"], strict=True)
        ],
    }
    answer = ask(wrong, "sum", where="day < 300", **charged(tmp_path), **ASKED["sum"])
    assert answer.n == PEOPLE
    with pytest.raises(sdp.DataError, match="'far' at position"):
        ask(wrong, "sum", where="day < 301", **charged(tmp_path), **ASKED["sum"])


def test_a_ledger_does_not_mix_units(tmp_path):
    given = charged(tmp_path)
    ask(TRIPS, "count", column="late", **given)
    with pytest.raises(
        sdp.LedgerError, match="protect one person each, and this one protects one row"
    ):
        ask(TRIPS, "count", column="late", person=None, **given)
    by_visit = {**TRIPS, "visit": list(range(len(TRIPS["who"])))}
    for other in ("visit", ["who", "visit"]):
        with pytest.raises(
            sdp.LedgerError,
            match=r"in earlier releases of .* each value of who is one person, and in this one each "
            "value of",
        ):
            ask(by_visit, "count", column="late", person=other, **given)
    ask(by_visit, "sum", person=["who"], **given, **ASKED["sum"])
    ask(TRIPS, "count", column="late", person=None, dataset="rows", **given)
    ledger = sdp.ledger.Ledger(tmp_path / "l.json")
    assert [entry.unit for name in ledger.datasets for entry in ledger.entries(name)] == [
        "person",
        "person",
        "row",
    ]


def test_of_rows():
    """At most so many rows of a person, each limited to the declared ends."""
    exact = {"epsilon": 90.0, "model": "central", "of": "rows"}
    rows = group(TRIPS, "late")
    answer = ask(TRIPS, "count", column="late", max_rows=1000, **exact)
    assert answer.estimate.value == pytest.approx(sum(map(sum, rows)), abs=60)
    assert "at most 1,000 of each person" in str(answer)
    few = ask(TRIPS, "count", column="late", max_rows=2, **exact)
    assert few.estimate.value < answer.estimate.value
    assert few.estimate.limits == (0.0, 2.0 * PEOPLE)
    answer = ask(TRIPS, "sum", column="km", lower=5, upper=10, max_rows=3, **exact)
    assert answer.estimate.limits == (0.0, 30.0 * PEOPLE)
    for task in ("quantiles",):
        with pytest.raises(sdp.UnsupportedError, match="of='rows' is for counts, sums, means"):
            ask(TRIPS, task, of="rows", max_rows=2, **ASKED[task])
    groups = {"by": "way", "groups": WAYS, "of": "rows", "max_rows": 2}
    with pytest.raises(sdp.UnsupportedError, match="not by group: groups are of people"):
        ask(TRIPS, "mean", **groups, **ASKED["mean"])


def test_the_noise_of_rows_grows_with_how_many_count():
    one, four = (
        ask(
            TRIPS, "count", column="late", model="central", of="rows", max_rows=most
        ).estimate.stderr
        for most in (1, 4)
    )
    assert four == pytest.approx(4 * one, rel=0.1)


def test_by_group():
    answer = ask(TRIPS, "mean", column="km", lower=0, upper=30, by="way", groups=WAYS, epsilon=8.0)
    assert answer.n == PEOPLE
    assert answer.estimate.labels == WAYS
    assert answer.estimate.value == pytest.approx([14.5] * 3, abs=2.5)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_engines_and_files_agree(tmp_path, engine, kind):
    path = write(TRIPS, tmp_path / f"trips.{kind}")
    for task in ("count", "sum", "histogram"):
        expected = ask({**TRIPS, "who": [f"{who:03}" for who in TRIPS["who"]]}, task, **ASKED[task])
        table = write({**TRIPS, "who": [f"{who:03}" for who in TRIPS["who"]]}, path)
        found = ask(table, task, engine=engine, **ASKED[task])
        np.testing.assert_array_equal(found.estimate.value, expected.estimate.value)
        assert found.files == (str(path),)


def test_a_person_that_no_question_can_reduce():
    with pytest.raises(
        sdp.ParameterError,
        match="reduce='mean' must be one of one, 'first by COLUMN', 'last by COLUMN' for a histogram",
    ):
        ask(TRIPS, "histogram", column="way", categories=WAYS, reduce="mean")
    with pytest.raises(sdp.UnsupportedError, match="reduce needs person"):
        ask(TRIPS, "count", column="late", person=None, reduce="any")


SURVEY = """epsilon = 8.0
delta = 1e-6
person = "who"
[questions.late]
task = "count"
[questions.longest]
task = "mean"
column = "km"
reduce = "max"
lower = 0
upper = 30
[questions.km]
task = "sum"
of = "rows"
max_rows = 3
lower = 0
upper = 30
[questions.way]
task = "histogram"
reduce = "last by day"
categories = ["bus", "car", "walk"]
[questions.late_by_way]
task = "count"
column = "late"
by = "way"
"""


def test_a_survey_has_one_unit_and_a_reduction_for_each_question():
    survey = sdp.Survey.loads(SURVEY)
    answer = sdp.ask(TRIPS, survey, rng=sdp.SeededWords(1))
    assert (answer.n, answer.unit) == (PEOPLE, "person")
    assert answer.to_dict()["unit"] == "person"
    assert "The promise protects one person with all their rows." in str(answer)
    late = sum(map(any, group(TRIPS, "late")))
    assert answer["late"].estimate.value == pytest.approx(late, abs=12)
    longest = np.mean([max(rows) for rows in group(TRIPS, "km")])
    assert answer["longest"].estimate.value == pytest.approx(longest, abs=1.5)
    assert sum(answer["late_by_way"].estimate.value) == pytest.approx(late, abs=40)
    assert "at most 3 of each person" in str(answer)
    assert len(TRIPS["who"]) not in answer.to_dict().values()
    assert survey.plan(PEOPLE).rows[2].task == "sum"


def test_a_survey_leaves_out_who_has_no_answer_to_a_question():
    """Per question, with n as it is: missing answers count as nothing."""
    text = (
        'epsilon = 90.0\ndelta = 1e-6\non_invalid = "drop"\n[questions.way]\ntask = "histogram"\n'
    )
    text += 'categories = ["bus", "car"]\n[questions.km]\ntask = "mean"\nlower = 0\nupper = 10\n'
    table = {"way": ["bus", None, "car", "car"] * 100, "km": [2, 4, None, 6] * 100}
    answer = sdp.ask(table, sdp.Survey.loads(text), rng=sdp.SeededWords(1))
    assert (answer.n, answer.unit) == (400, "row")
    assert answer["way"].estimate.labels == ("bus", "car", "none")
    assert answer["way"].estimate.value.tolist() == pytest.approx([100, 200, 100], abs=8)
    assert answer["km"].estimate.value == pytest.approx(4.0, abs=0.6)


def test_questions_of_two_units_are_refused():
    survey = sdp.Survey.loads(SURVEY)
    mixed = (survey.questions[0], replace(survey.questions[1], people=None))
    with pytest.raises(sdp.UnsupportedError, match="person must be the same for every question"):
        replace(survey, questions=mixed)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            SURVEY.replace('reduce = "max"', 'reduce = "median"'),
            "line 9: question 'longest': reduce='median'",
        ),
        (SURVEY.replace('person = "who"\n', ""), "reduce needs person"),
        (SURVEY.replace("max_rows = 3\n", ""), "needs max_rows"),
        (SURVEY.replace('person = "who"', "person = 7"), "line 3: person=7 must be"),
        (
            SURVEY.replace('reduce = "last by day"', 'reduce = "sum"'),
            "reduce='sum' must be one of one, 'first by COLUMN', 'last by COLUMN'",
        ),
    ],
)
def test_mistakes_in_a_survey_file(text, complaint):
    with pytest.raises(sdp.DataError, match=complaint):
        sdp.ask(TRIPS, sdp.Survey.loads(text), rng=sdp.SeededWords(1))


@pytest.mark.parametrize("survey", [True, False])
def test_messages_carry_the_unit(tmp_path, survey):
    out = tmp_path / "sent.parquet"
    if survey:
        asked = sdp.Survey.loads(SURVEY)
    else:
        people = sdp.engine.People.read("who")
        question = sdp.Question(name="late", task="count", column="late", people=people)
        asked = sdp.Survey.of(question, epsilon=4.0, delta=1e-6)
    prepared = asked.prepare(TRIPS, rng=sdp.SeededWords(1), sent=True)
    sent = prepared.randomize(out)
    assert sent.n == PEOPLE
    collected = sdp.tally_file(out)
    answer = (sdp.SurveyAnswer if survey else sdp.Answer).of(collected)
    assert (answer.n, answer.unit) == (PEOPLE, "person")
    record, told = prepared.describe_sent(sent)
    assert record["unit"] == "person"
    assert record.get("rows") is None
    assert "rows were read" in told


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_survey_of_files_is_that_of_the_table(tmp_path, kind):
    """Files are read once, as rows, and never again as if rows were people."""
    table = {**TRIPS, "who": [f"{who:03}" for who in TRIPS["who"]]}
    path = write(table, tmp_path / f"trips.{kind}")
    survey = sdp.Survey.loads(SURVEY)
    found, expected = (sdp.ask(each, survey, rng=sdp.SeededWords(1)) for each in (path, table))
    for mine, other in zip(found.answers, expected.answers, strict=True):
        np.testing.assert_array_equal(mine.estimate.value, other.estimate.value)


BITS = {
    ("count", None): lambda rows: any(rows),
    ("count", "all"): lambda rows: all(rows),
    ("sum", "max"): lambda rows: max(rows),
    ("sum", "mean"): lambda rows: np.mean(rows),
    ("mean", None): lambda rows: np.mean(rows),
    ("mean", "min"): lambda rows: min(rows),
}


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize(("task", "reduce"), BITS)
def test_booleans_of_people_need_no_ends(task, reduce, dropped):
    """Yes is 1, no is 0, and so is what becomes of somebody's rows."""
    late = [
        None if dropped and who == 3 else yes
        for who, yes in zip(TRIPS["who"], TRIPS["late"], strict=True)
    ]
    table = pa.table({"who": TRIPS["who"], "late": pa.array(late, pa.bool_())})
    given = {"epsilon": 60.0, "model": "central", **({"on_invalid": "drop"} if dropped else {})}
    answer = ask(table, task, column="late", reduce=reduce, **given)
    values = [BITS[task, reduce](rows) for rows in group(TRIPS, "late")]
    if dropped:
        del values[sorted(map(str, {*TRIPS["who"]})).index("3")]
    truth = np.mean(values) if task == "mean" else np.sum(values)
    assert answer.estimate.value == pytest.approx(
        truth, abs=0.003 * (1 if task == "mean" else PEOPLE)
    )
    assert answer.n == PEOPLE


def test_a_sum_of_yes_and_no_of_each_person_has_ends():
    table = pa.table({"who": TRIPS["who"], "late": pa.array(TRIPS["late"], pa.bool_())})
    for reduce in (None, "rows"):
        with pytest.raises(
            sdp.UnsupportedError, match="to more than 1: declare lower and upper for a"
        ):
            ask(table, "sum", column="late", reduce=reduce)
    answer = ask(table, "sum", column="late", lower=0, upper=9, epsilon=60.0, model="central")
    truth = sum(min(sum(rows), 9) for rows in group(TRIPS, "late"))
    assert answer.estimate.value == pytest.approx(truth, abs=3)


@pytest.mark.parametrize(
    ("task", "asked"),
    [
        ("count", {"column": "late"}),
        ("histogram", {"column": "late", "categories": ["True", "False"]}),
    ],
)
def test_rows_are_no_share_of_the_most_that_there_could_be(task, asked):
    """Nobody knows how many rows there are."""
    table = {"who": [*range(200)] * 3, "late": [True, False, False] * 200}
    if task == "histogram":
        table["late"] = [str(each) for each in table["late"]]
    rows = {"person": "who", "of": "rows", "max_rows": 10}
    answer = sdp.ask(table, task, epsilon=4.0, model="central", **asked, **rows)
    assert "share" not in answer.to_dict()["estimate"][0]
    assert answer.picture.people is None
