"""What answers, surveys and plans tell, field by field and sentence by sentence, for made-up and for real ones."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp import Bins, Tally
from shuffledp.core.analyzer import NormalError
from shuffledp.engine import Collected, Filter, Form, OnInvalid, People, Reading
from shuffledp.questions import QuestionAnswer
from shuffledp.tasks import task_named

RR = sdp.protocols.rr.make_local(epsilon=1.0)
KRR = sdp.protocols.krr.make_local(k=2, epsilon=1.0)


def estimate(*values, labels=None, stderr=10.0, most=1000.0):
    value = np.array(values) if len(values) > 1 else values[0]
    law = NormalError(stderr=np.full(len(values), stderr) if len(values) > 1 else stderr)
    return sdp.Estimate(value=value, error=law, limits=(0.0, most), labels=labels)


def answer(**more):
    asked = {"name": "it", "task": "count", "protocol": RR, "estimate": estimate(400.0), **more}
    own = ("name", "task", "by", "protocol", "estimate", "level", "moments", "bounds")
    question = QuestionAnswer(**{name: asked[name] for name in own if name in asked})
    beside = {name: each for name, each in more.items() if name not in own}
    return sdp.Answer(
        **{"protocol": asked["protocol"], "answers": (question,), "n": 1000, **beside}
    )


PROMISE = f"rr: {RR.guarantee}."
ROW = "Each row is taken to be one person, so the promise protects one row."
PERSON = "The promise protects one person with all their rows."
ABOUT = "The interval is about these 1,000 people: it covers the noise, but not sampling error."
PUBLIC = Filter.read("age > 18", public=True)
OPEN = Filter.read("age > 18")
WHO = People.read("who")


class TestAnswer:
    @pytest.mark.parametrize(
        ("more", "title"),
        [
            ({}, "count, 1,000 people"),
            ({"column": "home"}, "count of home, 1,000 people"),
            ({"column": "home", "by": "way"}, "count of home by way, 1,000 people"),
            ({"where": OPEN}, "count, 1,000 people with age > 18"),
            ({"invalid": {"null": 3, "nan": 1}, "rows": 1004}, "count, 1,000 people (4 left out)"),
            ({"invalid": {"null": 0}}, "count, 1,000 people"),
        ],
    )
    def test_titles(self, more, title):
        made = answer(**more)
        assert made.title == title
        assert repr(made) == f"Answer({title}, rr)"
        assert str(made).splitlines()[0] == title

    def test_a_private_filter(self):
        from dataclasses import replace

        made = answer(where=replace(OPEN, private=True))
        assert made.title == "count, 1,000 people, of whom those with age > 18 count"

    @pytest.mark.parametrize(
        ("more", "lines"),
        [
            ({}, [ABOUT, PROMISE, ROW]),
            ({"unit": "person"}, [ABOUT, PROMISE, PERSON]),
            ({"people": WHO}, [ABOUT, PROMISE, PERSON]),
            ({"notes": ("one", "two")}, ["one", "two", ABOUT, PROMISE, ROW]),
            ({"not_private": ("a list",)}, ["NOT PRIVATE: a list.", ABOUT, PROMISE, ROW]),
            ({"invalid": {"null": 1, "nan": 0}, "rows": 1001, "n": 1000},
             ["1 of 1,001 values were invalid (null 1) and were left out: n is 1,000, and the promise is made for that many. "
              "These numbers are exact: that somebody's value was left out is not protected.", ABOUT, PROMISE, ROW]),
            ({"for_operator": "secret"}, [ABOUT, PROMISE, ROW]),
        ],
    )  # fmt: skip
    def test_lines_below_the_numbers(self, more, lines):
        made = answer(**more)
        assert str(made).splitlines()[-len(lines) :] == lines
        shown = made._repr_html_()
        assert all(
            f"{line}".replace("'", "&#x27;")[:40] in shown.replace("&#39;", "&#x27;")
            for line in lines
        )

    def test_json_of_a_plain_answer(self):
        said = answer().to_dict()
        row = said.pop("estimate")
        assert said == {
            "task": "count", "protocol": "rr", "parameters": dict(RR.parameters), "engine": None, "dealt": False,
            "column": None, "files": [], "by": None, "where": None, "n": 1000, "unit": "row", "rows": None, "invalid": None,
            "on_invalid": None, "epsilon": 1.0, "delta": 0.0, "level": 0.95, "guarantee": RR.guarantee.to_dict(),
            "shuffles": [], "guarantee_of_sum": None, "not_private": [], "seed": None, "notes": [ABOUT],
            "version": sdp.__version__,
        }  # fmt: skip
        (low, high) = estimate(400.0).interval(0.95)
        assert row == [
            {
                "label": "count",
                "value": 400.0,
                "stderr": 10.0,
                "low": low,
                "high": high,
                "share": 0.4,
            }
        ]

    def test_json_of_everything(self):
        made = answer(
            column="home", by="way", files=("a.csv",), where=OPEN, rows=1003, invalid={"null": 3}, level=0.9,
            on_invalid=OnInvalid.DROP, seed=5, notes=("one",), not_private=("x",), shuffles=(400, 600), dealt=True,
            engine=SimpleNamespace(name="duckdb"), guarantee_of_sum=RR.guarantee, unit="person", task="histogram",
            estimate=estimate(1.0, 2.0, labels=("a", "b")))  # fmt: skip
        said = made.to_dict()
        assert {key: said[key] for key in ("column", "by", "files", "where", "rows", "invalid", "level", "on_invalid", "seed",
                                           "not_private", "shuffles", "dealt", "engine", "unit", "notes")} == {
            "column": "home", "by": "way", "files": ["a.csv"], "where": "age > 18", "rows": 1003, "invalid": {"null": 3},
            "level": 0.9, "on_invalid": "drop", "seed": 5, "not_private": ["x"], "shuffles": [400, 600], "dealt": True,
            "engine": "duckdb", "unit": "person", "notes": ["one", ABOUT],
        }  # fmt: skip
        assert said["guarantee_of_sum"] == {
            "against": "readers of nothing but the sum", "epsilon": 1.0, "delta": 0.0, **RR.guarantee.to_dict()}  # fmt: skip
        assert [row["label"] for row in said["estimate"]] == ["a", "b"]
        low, _ = made.estimate.interval(0.9)
        assert [row["low"] for row in said["estimate"]] == low.tolist()
        apart = made.promised[2:]
        assert apart == (
            "This is the guarantee of the smallest of 2 shuffles, with 400 people: whoever has the files sees each of them by itself.",
            f"For readers of nothing but the sum: {RR.guarantee}.",
        )

    def test_levels_are_between_none_and_all(self):
        for level in (0.0, 1.0, 95):
            with pytest.raises(sdp.ParameterError, match="level"):
                answer(level=level)
        assert answer().level == 0.95

    def test_shares_of_a_population(self):
        """Half of the error probability for the noise, half for the sample: Clopper and Pearson at the ends."""
        from scipy.stats import beta

        exact = sdp.run_counts(RR, [600, 400], rng=sdp.SeededWords(1))
        made = answer(estimate=exact, population=True, level=0.9)
        (row,) = made.shares
        low, high = exact.exact_interval(0.95)
        value = float(exact.value)
        assert row.value == pytest.approx(value / 1000)
        assert row.stderr == pytest.approx(
            math.hypot(float(exact.stderr) / 1000, math.sqrt(value / 1000 * (1 - value / 1000) / 1000)))  # fmt: skip
        least, most = math.ceil(max(low, 0)), math.floor(min(high, 1000))
        assert row.low == pytest.approx(beta.ppf(0.025, least, 1000 - least + 1), abs=0.002)
        assert row.high == pytest.approx(beta.ppf(0.975, most + 1, 1000 - most), abs=0.002)
        (about,) = made.remarks
        assert about == (
            "If these 1,000 people are a random sample, the shares of the population are, with intervals that cover noise "
            f"and sampling: count {row.value:.4f} ({row.low:.4f} .. {row.high:.4f}). The interval of the count is about "
            "these people alone."
        )
        assert made.to_dict()["population"] == [row.to_dict()]
        beyond = answer(
            estimate=sdp.run_counts(RR, [1000, 0], rng=sdp.SeededWords(3)), population=True
        )
        assert beyond.shares[0].stderr >= 0
        assert 0.0 <= beyond.shares[0].low <= beyond.shares[0].high <= 1.0

    def test_weaker_than_planned(self):
        planned = sdp.protocols.zsum_sparse.make(n=100_000, epsilon=1.0, delta=1e-6)
        few = planned.with_people(90_000)
        said = (
            "WEAKER THAN PLANNED: the noise was made for 100,000 people, but 90,000 took part; the guarantee below "
            "is for that number"
        )
        assert answer(protocol=few, n=90_000).warnings == [said]
        assert answer(protocol=few, n=90_000, not_private=("x",)).warnings == [
            "NOT PRIVATE: x",
            said,
        ]
        assert answer(protocol=planned, n=100_000).warnings == []
        apart = answer(protocol=few, n=180_000, shuffles=(90_000, 90_000)).warnings
        assert apart == [said.replace("90,000 took part", "the smallest shuffle had 90,000")]
        assert answer(protocol=few, n=90_000, shuffles=(90_000,)).warnings == [said]
        assert answer(n=10).warnings == [], "the local promise needs nobody else"

    def test_what_happened_in_the_run(self):
        machine = SimpleNamespace(name="duckdb")
        trusted = (
            "Anybody who can read that machine is trusted. The promise is to the people in the file"
        )
        plain = answer().explain()
        assert "In this run." not in plain
        assert ROW in plain
        dealt = answer(engine=machine, dealt=True).explain()
        assert (
            "In this run. One machine (duckdb) held the raw column. It counted the people with each value and dealt"
            in dealt
        )
        assert trusted in dealt
        played = answer(engine=machine, invalid={"null": 1}, rows=1001).explain()
        assert (
            "In this run. One machine (duckdb) held the raw column and played all devices, the shuffler and"
            in played
        )
        assert "1 of 1,001 values were invalid (null 1)" in played
        curated = answer(
            engine=machine, protocol=sdp.mechanisms.geometric.make(epsilon=1.0, sensitivity=1)
        ).explain()
        assert "computed the exact answer and added the noise to it." in curated
        covered = answer(engine=machine, on_invalid=OnInvalid.read("other,clamp")).explain()
        assert (
            "Missing and unknown values were counted as 'other'. They are protected like all others"
            in covered
        )
        assert (
            "Numbers out of range were moved to the nearest end. They are protected like all others"
            in covered
        )
        assert (
            "counted as 'other'" not in answer(engine=machine, on_invalid=OnInvalid.DROP).explain()
        )

    def test_of_a_tally(self):
        tally = Tally(counts=np.array([30, 10]), users=40)
        bare = sdp.Answer.of(Collected(protocol=KRR, tally=tally), level=0.8, files=("t.json",))
        assert (bare.task, bare.n, bare.level, bare.files, bare.unit, bare.shuffles) == (
            "histogram", 40, 0.8, ("t.json",), "row", (40,))  # fmt: skip
        assert (bare.by, bare.moments, bare.notes, bare.guarantee_of_sum) == (None, None, (), None)
        reading = Reading(name="day", task="histogram", by="way", bins=sdp.Categories(k=2, names=("x", "y")),
                          notes=("about it",), moments="days")  # fmt: skip
        form = Form(readings=(reading,), unit="person")
        told = sdp.Answer.of(Collected(protocol=KRR, tally=tally, form=form))
        assert (told.by, told.moments, told.notes, told.unit, told.level) == (
            "way",
            "days",
            ("about it",),
            "person",
            0.95,
        )
        assert told.estimate.labels == ("x", "y")

    def test_files_and_tables(self, tmp_path):
        made = answer(task="histogram", estimate=estimate(1.0, 2.0, labels=("a", "b")))
        path = made.write(tmp_path / "r.json")
        assert json.loads(path.read_text()) == json.loads(json.dumps(made.to_dict()))
        assert made.to_arrow().to_pydict()["label"] == ["a", "b"]
        assert list(made.to_pandas().columns) == ["label", "value", "stderr", "low", "high"]


HOME = sdp.Question(name="home", task="count", column="home")
TWO = 'epsilon = 4\n{more}[questions.home]\ntask = "count"\n[questions.pet]\ntask = "histogram"\ncategories = ["cat", "dog", "emu"]\n'
DATA = {"home": [True, False] * 100, "pet": ["cat", "dog"] * 100}


class TestAnswersOfASurvey:
    @pytest.fixture(scope="class")
    @staticmethod
    def found():
        survey = sdp.Survey.loads(TWO.format(more='model = "central"\ntitle = "Ours"\n'))
        return sdp.ask(DATA, survey, rng=sdp.SeededWords(1))

    def test_json(self, found):
        said = found.to_dict()
        assert list(said) == [
            "epsilon", "delta", "n", "unit", "where", "questions", "guarantee", "shuffles", "guarantee_of_sum", "not_private",
            "notes", "version"]  # fmt: skip
        assert (said["epsilon"], said["delta"], said["n"], said["unit"], said["where"]) == (
            4.0,
            0.0,
            200,
            "row",
            None,
        )
        assert said["shuffles"] == []
        assert said["guarantee"] == found.guarantee.to_dict()
        assert any("seed" in each for each in said["not_private"])
        assert said["questions"]["pet"]["task"] == "histogram"
        assert [row["label"] for row in said["questions"]["pet"]["estimate"]] == [
            "cat",
            "dog",
            "emu",
        ]
        assert said["questions"]["home"]["protocol"] == found["home"].protocol.name

    def test_text(self, found):
        lines = str(found).splitlines()
        assert lines[:3] == ["Ours: 2 questions, 200 people", "", "home: count"]
        assert "pet: histogram" in lines
        assert lines[-2:] == [f"{found.guarantee}.", ROW] or lines[-1] == ROW
        assert (
            "The intervals are about these 200 people: they cover the noise, but not sampling error."
            in lines
        )
        assert any(line.startswith("NOT PRIVATE: the noise is seeded") for line in lines)
        assert repr(found) == "SurveyAnswer(Ours: 2 questions, 200 people)"
        with pytest.raises(sdp.ParameterError, match="question='x' must be one of home, pet"):
            found["x"]
        assert found["home"].title == "home: count"

    def test_page(self, found, tmp_path):
        page = found.plot(tmp_path / "p.html").read_text()
        for part in ("<h1>Ours: 2 questions, 200 people</h1>", "<h2>home: count</h2>", "<h2>The promise</h2>",
                     f"For all questions together: {found.guarantee}."):  # fmt: skip
            assert part in page

    def test_titles_of_whom_it_is_about(self):
        survey = sdp.Survey.loads(TWO.format(more='model = "central"\n'))
        found = sdp.ask({**DATA, "x": [1, 2] * 100}, survey, where="x > 1")
        assert found.title == "survey: 2 questions, 100 people with x > 1"
        assert found.to_dict()["where"] == "x > 1"

    def test_of_a_tally_that_is_none_of_a_survey(self):
        plain = Collected(protocol=KRR, tally=Tally(counts=np.array([3, 1]), users=4))
        with pytest.raises(sdp.ParameterError, match="collected='krr' must be of a survey"):
            sdp.SurveyAnswer.of(plain)


class TestPlans:
    @pytest.mark.parametrize("more", ['model = "central"\n', 'model = "local"\n', "delta = 1e-6\n"])
    def test_json_is_what_the_rows_say(self, more):
        survey = sdp.Survey.loads(TWO.format(more=more))
        plan = survey.plan(2000)
        said = plan.to_dict()
        assert list(said) == [
            "epsilon", "delta", "n", "questions", "one_question", "messages_per_user", "bits_per_user", "guarantee", "version"]  # fmt: skip
        assert (said["epsilon"], said["delta"], said["n"]) == (
            plan.guarantee.epsilon,
            plan.guarantee.delta,
            2000,
        )
        central, local = plan.compare("central"), plan.compare("local")
        for place, row in enumerate(plan.rows):
            assert said["questions"][row.question] == {
                "task": row.task, "protocol": row.protocol, "rmse": row.error, "relative": row.relative, "share": row.share,
                "messages_per_user": row.messages, "others_without": row.without, "central_rmse": central[place],
                "local_rmse": local[place],
            }  # fmt: skip
            assert row.error == pytest.approx(row.relative * plan.tasks[place].relate(2000))
            assert 0 < row.without < 1
        assert math.fsum(row.share for row in plan.rows) == pytest.approx(1)
        cost = plan.cost
        if "central" in more:
            assert cost is None
            assert (said["messages_per_user"], said["bits_per_user"]) == (0.0, 0.0)
            assert [row.messages for row in plan.rows] == [0.0, 0.0]
            assert central == tuple(row.error for row in plan.rows)
        else:
            assert said["messages_per_user"] == cost.messages_mean
            assert said["bits_per_user"] == cost.messages_mean * cost.bits_per_message
        text = str(plan).splitlines()
        assert text[0] == f"{survey.title}: 2 questions, 2,000 people"
        assert text[-1] == f"{plan.guarantee}."
        assert all(len(line) <= 80 for line in text[1:4])
        told = " ".join(text)
        assert ("A trusted curator has everybody's values" in told) == ("central" in more)
        assert ("Asking each person one random question would be worse" in told) == (
            "delta" in more
        )
        assert ("A trusted curator would be off by: home" in told) == ("central" not in more)
        assert ("People who trust nobody would be off by: home" in told) == ("local" not in more)
        dearest = max(plan.rows, key=lambda row: row.share)
        assert (
            f"The most expensive question is {dearest.question}: without it, they would be about "
            f"{100 * (1 - dearest.without):.0f} % smaller." in told
        )

    def test_weights_are_shares(self):
        for more in ('model = "central"\n', 'model = "local"\n', "delta = 1e-6\n"):
            even = sdp.Survey.loads(
                TWO.format(more=more).replace('"count"\n', '"count"\nweight = 1\n') + "weight = 1\n"
            ).plan(2000)
            odd = sdp.Survey.loads(
                TWO.format(more=more).replace('"count"\n', '"count"\nweight = 3\n') + "weight = 1\n"
            ).plan(2000)
            assert odd.rows[0].error < even.rows[0].error
            assert odd.rows[1].error > even.rows[1].error

    def test_one_question_has_nothing_to_leave_out(self):
        for more in ('model = "central"\n', 'model = "local"\n', "delta = 1e-6\n"):
            plan = sdp.Survey.loads(TWO.format(more=more).split("[questions.pet]")[0]).plan(2000)
            (row,) = plan.rows
            assert (row.without, row.share) == (None, pytest.approx(1.0))
            assert "The most expensive question" not in str(plan)

    def test_a_plan_of_bounds_and_a_large_delta(self):
        auto = sdp.Question(
            name="q", task="mean", column="q", options={"lower": "auto", "upper": "auto"}
        )
        survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=(auto,))
        with pytest.raises(
            sdp.UnsupportedError,
            match="'auto' is found in data, and a plan has none: declare",
        ):
            survey.plan(1000)
        large = sdp.Survey(epsilon=1.0, delta=0.01, questions=(HOME,))
        with pytest.raises(sdp.ParameterError, match=r"delta=0\.01 must be at most 1/n = 0\.001"):
            large.plan(1000)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"model": "central", "rng": sdp.SeededWords(1)},
            "the noise is seeded: whoever knows the seed can undo it",
        ),
        (
            {"model": "central", "where": "x > 0"},
            "n is the exact number of people with x > 0: no noise protects who they are",
        ),
        (
            {"model": "central", "on_invalid": "drop"},
            "how many values were left out, and so n, is exact",
        ),
    ],
)
def test_what_no_noise_protects_is_listed(given, said):
    found = sdp.ask({"v": [1, 0] * 50, "x": [1] * 100}, "count", column="v", epsilon=1.0, **given)
    assert any(each.startswith(said) for each in found.not_private)
    assert any(each.startswith(f"NOT PRIVATE: {said}") for each in found.warnings)
    plain = sdp.ask(
        {"v": [1, 0] * 50, "x": [1] * 100}, "count", column="v", epsilon=1.0, model="central"
    )
    assert plain.not_private == ()
    assert plain.seed is None


def test_every_argument_of_a_question_counts(tmp_path):
    """One at a time: what is asked for is in the answer."""
    table = {"v": ["1", "0", "-9", "1"] * 100, "g": ["a", "b"] * 200, "x": [1, 2] * 200}
    base = {"column": "v", "epsilon": 2.0, "delta": 1e-4, "on_invalid": "drop", "missing": "-9"}

    def ask(**more):
        return sdp.ask(table, "count", **{**base, **more})

    plain = ask()
    assert (plain.n, plain.rows, plain.invalid["null"], plain.level, plain.unit) == (
        300,
        400,
        100,
        0.95,
        "row",
    )
    assert (plain.guarantee.epsilon <= 2.0, plain.guarantee.honest) == (True, 270)
    assert ask(honest=0.5).guarantee.honest == 150
    assert ask(level=0.5).level == 0.5
    assert ask(protocol="rr").protocol.name == "rr"
    assert ask(engine="memory").engine.name == "memory"
    assert ask(model="local", delta=None).guarantee.model.value == "local"
    assert ask(model="central", delta=None).guarantee.model.value == "central"
    assert ask(rng=sdp.SeededWords(7)).seed == 7
    assert ask(where="x = 1").n == 100
    public = ask(where="x = 1", where_public=True)
    assert not any("exact number of people with" in each for each in public.not_private)
    assert any("because it was declared public." in each for each in public.notes)
    assert any(each.endswith("is not protected.") for each in ask(where="x = 1").notes)
    assert ask(by="g", groups=["a", "b"]).estimate.labels == ("a", "b")
    assert ask(population=True).population
    assert ask(max_messages=1.5).protocol.cost.messages_mean <= 1.5
    with pytest.raises(sdp.ParameterError, match="must be at most 1/n"):
        ask(delta=0.01)
    assert ask(delta=0.01, allow_large_delta=True).n == 300
    told = []
    ask(report=told.append)
    assert told[-1].rows >= 300
    people = ask(person="x", reduce="any")
    assert (people.n, people.unit) == (2, "person") if people.n == 2 else True


DAYS = ("2013-07-03", "2013-07-04")


@pytest.mark.parametrize(
    ("task", "options", "labels"),
    [
        ("histogram", {"lower": "2013-07-03", "upper": "2013-07-04"}, DAYS),
        ("bins", {"edges": ["2013-07-03", "2013-07-04", "2013-07-06"]}, ("2013-07-03 to 2013-07-04", "2013-07-04 to 2013-07-06")),
        ("cdf", {"lower": "2013-07-01", "upper": "2013-07-09", "at": "2013-07-03,2013-07-04"}, ("<= 2013-07-03", "<= 2013-07-04")),
    ],
)  # fmt: skip
def test_dates_have_their_names(task, options, labels):
    days = ["2013-07-03"] * 20 + ["2013-07-04"] * 30
    found = sdp.ask(days, task, epsilon=50.0, model="central", **options)
    assert found.estimate.labels == labels
    assert any(
        "Dates count as whole days: times of day are left out." in note for note in found.notes
    )
    if task == "histogram":
        table = {"d": days, "g": ["x", "y"] * 25}
        by = sdp.ask(
            table,
            task,
            column="d",
            by="g",
            groups=["x", "y"],
            epsilon=50.0,
            model="central",
            **options,
        )
        assert by.estimate.labels == tuple(f"{group}, {day}" for group in "xy" for day in DAYS)


def test_bins_of_dates_keep_their_names_in_files(tmp_path):
    days = ["2013-07-03"] * 200 + ["2013-07-04"] * 300
    question = sdp.Question(
        name="d",
        task="bins",
        column="d",
        options={"edges": ["2013-07-03", "2013-07-04", "2013-07-06"]},
    )
    survey = sdp.Survey.of(question, epsilon=2.0, delta=1e-4)
    sent = survey.prepare({"d": days}, sent=True).randomize(tmp_path / "m.parquet")
    found = sdp.Answer.of(sdp.tally_file(sent.path))
    assert found.estimate.labels == ("2013-07-03 to 2013-07-04", "2013-07-04 to 2013-07-06")
    assert task_named("bins").declare(question.options).task.domain == Bins(
        edges=(15889.0, 15890.0, 15892.0)
    )


def test_one_person_is_not_one_people():
    answer = sdp.ask([True], "count", epsilon=1.0, model="central")
    assert answer.title == "count of values, 1 person"
    assert "The interval is about this one person: " in str(answer)
