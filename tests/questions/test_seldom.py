"""Roads that are seldom taken: nobody left, too few people, several values of a person, what cannot be opened."""

import os
import re

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import shuffledp as sdp
from shuffledp.core.analyzer import NormalError
from shuffledp.engine import Filter, Memory, OnInvalid, People, Reduce, find_engine, take_column
from shuffledp.engine.chunks import Job
from shuffledp.engine.codes import Coder
from shuffledp.engine.files import run_file
from shuffledp.engine.messages import Spool
from shuffledp.engine.reducing import Reduction, reduce_here
from shuffledp.numerics.intervals import TwoBinomialsError
from shuffledp.planner import growth
from shuffledp.questions.answer import QuestionAnswer
from shuffledp.tasks import task_named
from shuffledp.tasks.groups import Grouped

WORDS = sdp.Texts(alphabet="letters", max_length=3)


def test_nobody_has_a_word_that_counts():
    made = sdp.words(n=5000, alphabet="letters", max_length=3, epsilon=2.0, delta=1e-6)
    nobody = take_column(pa.array([None] * 5000, pa.string()))
    for engine in ("memory", "duckdb"):
        with pytest.raises(
            sdp.DataError, match="column 'values' has no valid value; without on_invalid"
        ):
            run_file(made, nobody, on_invalid="drop", engine=engine)
    krr = sdp.protocols.krr.make_local(k=2, epsilon=1.0)
    job = Job(column=nobody, coder=Coder(domain=sdp.Bits(), on_invalid="drop"))
    with pytest.raises(sdp.DataError, match="column 'values' has no valid value"):
        Memory().tally(job, krr, None)


def test_counts_of_another_domain():
    krr = sdp.protocols.krr.make_local(k=3, epsilon=1.0)
    with pytest.raises(sdp.MismatchError, match=r"counts of shape \(2,\) for a domain of 3 values"):
        sdp.run_counts(krr, [1, 2])


def test_a_spool_without_messages(tmp_path):
    with Spool(tmp_path, 0, sdp.SecureWords()) as spool:
        assert list(spool.read_shuffled(users=0)) == []
        assert spool.messages == 0


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(sdp.DataError, match=r"a\.csv is not a file"):
        sdp.open_column(tmp_path / "a.csv", "x")


def test_numbers_with_underscores_are_no_fractions():
    """Python reads them; nobody who writes data means 1.5 by 1_5: so they may be left out as unknown."""
    coder = Coder(domain=sdp.Integers(lower=0, upper=9), on_invalid="drop")
    assert coder.codes(pa.array(["1_0", "3"])).users == 1
    with pytest.raises(sdp.DataError, match="on_invalid does not leave out fractions"):
        coder.codes(pa.array(["1.5", "3"]))


def test_a_filter_that_everybody_is_taken_by():
    for values in (["a", "a"], [5, 5]):
        table = {"x": pa.array(values)}
        for text, taken in (
            (f"x = '{values[0]}'", [True, True]),
            (f"x != '{values[0]}'", [False, False]),
        ):
            assert Filter.read(text).choose(table.__getitem__).tolist() == taken


def test_groups_that_do_not_fit_into_memory_are_counted_row_by_row(tmp_path, monkeypatch):
    from shuffledp.engine import columns

    path = tmp_path / "a.csv"
    path.write_text("x\n1\n2\n1\n")

    def full(*_):
        raise duckdb.OutOfMemoryException("full")

    monkeypatch.setattr(columns, "aggregate", full)
    column = sdp.open_column(path, "x")
    job = Job(column=column, coder=Coder(domain=sdp.Integers(lower=0, upper=3), on_invalid="error"))
    found = find_engine("duckdb").counts(job)
    assert (found.counts.tolist(), found.rows) == ([0, 2, 1, 0], 3)


@pytest.mark.parametrize(
    ("task", "options", "usual", "allowed"),
    [
        ("count", {}, "any", "any, all, one, first, last"),
        (
            "mean",
            {"lower": 0, "upper": 9},
            "mean",
            "mean, sum, min, max, rows, one, first, last",
        ),
        (
            "sum",
            {"lower": 0, "upper": 9},
            "sum",
            "sum, mean, min, max, rows, one, first, last",
        ),
        (
            "median",
            {"lower": 0.0, "upper": 9},
            "mean",
            "mean, sum, min, max, rows, one, first, last",
        ),
        (
            "bins",
            {"edges": [0, 1, 2]},
            "mean",
            "mean, sum, min, max, rows, one, first, last",
        ),
        (
            "histogram",
            {"lower": 0, "upper": 9},
            "one",
            "one, first, last, sum, min, max, rows",
        ),
        ("histogram", {"k": 3}, "one", "one, first, last"),
        ("words", {"bits": 8}, "one", "one, first, last"),
    ],
)
def test_what_rows_of_a_person_become(task, options, usual, allowed):
    asked = task_named(task).declare(options).task
    assert People.read("who").choose(asked).value == usual
    listed = re.sub(r"(first|last)", r"'\1 by COLUMN'", allowed)
    for how in Reduce:
        order = " by day" if how in (Reduce.FIRST, Reduce.LAST) else ""
        people = People.read("who", reduce=how.value + order)
        if how.value in allowed.split(", "):
            assert people.choose(asked) is how
        else:
            with pytest.raises(
                sdp.ParameterError, match=f"reduce='{how.value}' must be one of {listed} for "
            ):
                people.choose(asked)


@pytest.mark.parametrize(
    ("more", "how", "said"),
    [
        ({}, "sum", "Rows with the same a and b are one person, who counts once, with the sum of their rows."),
        ({"reduce": "last by day"}, "last", "Rows with the same a and b are one person, who counts once, with the row "
                                            "that is last by day."),
        ({"missing_person": "drop"}, "any", "counts once, with yes if any of their rows says yes. Rows that name no "
                                            "person were left out."),
        ({"missing_person": "own"}, "rows", "the number of their rows. Each row that names no person was counted as "
                                            "a separate person, and is protected by itself."),
        ({"of": "rows", "max_rows": 2000}, "sum",
         "Rows with the same a and b are one person. The answer is about rows: at most 2,000 of each person, chosen "
         "at random if there are more."),
        ({"max_categories": 3}, "one",
         "Rows with the same a and b are one person, who counts once in each of their categories, or in 3 of them, "
         "chosen at random, if there are more."),
    ],
)  # fmt: skip
def test_what_is_told_about_people(more, how, said):
    people = People.read(["a", "b"], **more)
    assert people.tell(Reduce(how)).endswith(said)
    assert people.columns == (("a", "b", "day") if more.get("reduce") else ("a", "b"))


def test_whole_numbers_beyond_64_bits_count_as_the_end():
    table = {"who": np.array([1, 1, 2]), "v": np.array([2**64 - 1, 3, 4], dtype=np.uint64)}
    for domain, sums in ((sdp.Integers(lower=0, upper=9), [2**62, 4]),):
        column = take_column(table, "v", people=People.read("who"))
        reduction = Reduction(
            column=column, how=Reduce.SUM, domain=domain, policy=OnInvalid.read("drop"), key="k"
        )
        found = reduce_here(reduction)
        assert found.column.array.to_pylist() == sums
        assert (found.rows, found.taken) == (3, 3)
        assert found.tell() == "3 rows were read, and 3 of them count"


def test_growth_of_what_cannot_be_made():
    with pytest.raises(sdp.UnsupportedError, match=r"is not available: "):
        growth.growth_table(n=2, data=["bits"], users=(2, 3), epsilons=(0.1, 0.2))


LOCAL = 'epsilon = 4\nmodel = "local"\n[questions.home]\ntask = "count"\n[questions.km]\ntask = "{task}"\n{more}'
BY = 'lower = 0\nupper = 9\nby = "way"\ngroups = ["a", "b"]\n'


@pytest.mark.parametrize(
    ("task", "more", "said"),
    [
        ("mean", BY, "'km' is a mean by group, which one random question is not for: everybody answers everything."),
        ("quantiles", "lower = 0\nupper = 9\n", "'km' asks for quantiles, which one random question is not for: everybody answers everything."),
        ("sum", "lower = 0\nupper = 9\nweight = 2\n", "questions have different weights, which one random question is not for"),
    ],
)  # fmt: skip
def test_why_everybody_answers_everything(task, more, said):
    plan = sdp.Survey.loads(LOCAL.format(task=task, more=more)).plan(1000)
    assert said in " ".join(str(plan).split())
    assert not plan.one_question


def test_which_way_a_local_survey_takes():
    """Few people and many questions: everybody has one; the errors are those of the better way."""
    text = "".join(f'[questions.q{place}]\ntask = "count"\n' for place in range(12))
    plan = sdp.Survey.loads(f'epsilon = 1\nmodel = "local"\n{text}').plan(10_000)
    told = " ".join(str(plan).split())
    assert plan.one_question == (
        "Everybody answers one random question with all of epsilon" in told
    )
    assert plan.one_question != (
        "Everybody answers everything, and the answers share epsilon" in told
    )
    assert [row.share for row in plan.rows] == pytest.approx([1 / 12] * 12)
    wanted = (11 / 12) ** 0.5 if plan.one_question else 11 / 12
    assert [row.without for row in plan.rows] == pytest.approx([wanted] * 12)
    assert [row.messages for row in plan.rows] == pytest.approx(
        [1 / 12 if plan.one_question else 1.0] * 12
    )


ROWS = {"who": [*range(300)] * 2, "km": [1.0, 2.0, 3.0] * 200, "home": [True, False] * 300}


def test_a_mean_of_rows_beside_other_questions():
    """It is two sums on the way, and one answer in the end."""
    survey = sdp.Survey.loads(
        'epsilon = 40\nmodel = "local"\nperson = "who"\n[questions.home]\ntask = "count"\n'
        '[questions.km]\ntask = "mean"\nlower = 0.0\nupper = 9.0\nof = "rows"\nmax_rows = 2\n'
    )
    found = sdp.ask(ROWS, survey, rng=sdp.SeededWords(1))
    assert [each.name for each in found.answers] == ["home", "km"]
    assert (found["km"].task, found["km"].by) == ("mean", None)
    assert found["km"].estimate.value == pytest.approx(2.0, abs=0.5)
    assert len(survey.plan(300).rows) == 3


def test_bins_that_messages_support_together_add_their_errors():
    """Hashed bins may be supported by one message: then standard errors add up, and not variances."""
    groups = sdp.Categories(k=2, names=("a", "b"))
    task = Grouped.of(task_named("sum").declare({"lower": 0, "upper": 3}).task, groups)
    value = np.array([3.0, 4.0, 2.0, 1.0, 0.0, 5.0, 0.0, 0.0])
    observed = np.full(8, 40)
    found = {}
    for apart in (True, False):
        law = TwoBinomialsError(observed=observed, n=100, p=0.75, q=0.25, value=value, apart=apart)
        bins = sdp.Estimate(value=value, error=law, limits=(0.0, 100.0))
        found[apart] = np.asarray(task.convert(bins).stderr)
    each = np.asarray(law.stderr).reshape(2, 4)
    np.testing.assert_allclose(found[False], (each * np.arange(4)).sum(axis=1))
    np.testing.assert_allclose(
        found[True], np.sqrt((each**2 * np.arange(4) ** 2).sum(axis=1) * 8 / 7)
    )
    plain = sdp.Estimate(value=value, error=NormalError(stderr=each.ravel()), limits=(0.0, 100.0))
    np.testing.assert_allclose(np.asarray(task.convert(plain).stderr), found[True])


def test_bisection_of_very_few_people_is_not_remarked():
    task = task_named("median").declare({"lower": 0, "upper": 9}).task
    given = {"epsilon": 1.0, "delta": 1e-4, "allow_large_delta": True, "models": "shuffle"}
    assert not any(each.startswith("In rounds") for each in sdp.plan(task, n=3, **given).remarks)


def test_a_table_that_lacks_a_field_says_so():
    with pytest.raises(sdp.DataError, match=r"^survey: question 'home' has no task$"):
        sdp.Survey.read({"epsilon": 1.0, "delta": 1e-6, "questions": {"home": {}}})
    with pytest.raises(sdp.DataError, match=r"^form: epsilon='x' must be a number$"):
        sdp.Survey.read(
            {"epsilon": "x", "delta": 1e-6, "questions": {"home": {"task": "count"}}}, "form"
        )


@pytest.mark.parametrize("model", ["local", "central"])
def test_a_question_without_a_weight_has_weight_one(model):
    """Whether it is said or not, and what the parts spend is no more than all of it."""
    text = 'epsilon = 0.7\nmodel = "{}"\n[questions.a]\ntask = "count"\n{}[questions.b]\ntask = "mean"\nlower = 0\nupper = 9\nweight = 2\n'
    said, usual = (
        sdp.Survey.loads(text.format(model, more)).plan(1000) for more in ("weight = 1\n", "")
    )
    assert [row.share for row in said.rows] == [row.share for row in usual.rows]
    assert [row.error for row in said.rows] == [row.error for row in usual.rows]
    assert usual.guarantee.epsilon <= 0.7
    assert sum(part.guarantee.epsilon for part in usual.parts) <= 0.7
    assert usual.rows[1].share == pytest.approx(2 / 3)


def test_threads_are_a_positive_number():
    for threads in (0, -1, 1.5):
        with pytest.raises(sdp.ParameterError, match=f"threads={threads}"):
            sdp.ask(
                [1, 0],
                "count",
                epsilon=1.0,
                model="local",
                engine=sdp.engine.DuckDB(threads=threads),
            )


def test_whether_a_tally_was_dealt_is_told():
    given = {"epsilon": 2.0, "delta": 1e-4, "rng": sdp.SeededWords(1)}
    for name in ("correlated_count", "rr"):
        found = sdp.ask([1, 0] * 500, "count", protocol=name, **given)
        assert found.dealt == found.protocol.dealt == found.to_dict()["dealt"]
    central = sdp.ask([1, 0] * 500, "count", epsilon=1.0, model="central")
    assert not central.dealt


def test_a_filter_that_is_charged_keeps_everybody(tmp_path):
    budget = sdp.ledger.Budget(epsilon=9, delta=1e-5)
    table = {"v": [1, 0] * 500, "x": [1, 2, 3, 4] * 250}
    found = sdp.ask(
        table,
        "count",
        column="v",
        where="x > 2",
        epsilon=1.0,
        model="central",
        ledger=tmp_path / "l.json",
        budget=budget,
    )
    assert found.n == 1000
    assert found.title == "count of v, 1,000 people, of whom those with x > 2 count"
    assert (
        "The question is about the people with x > 2. Everybody stays, and people who do not match count as "
        "nothing: how many match is protected like the answer."
    ) in found.notes
    assert not any("exact number of people with" in each for each in found.not_private)
    assert found.estimate.value == pytest.approx(250, abs=25)


def test_a_guarantee_is_weaker_if_epsilon_or_delta_is():
    """Made for more people than came: either number may have become larger."""
    from types import SimpleNamespace

    for epsilon, delta, weaker in (
        (1.0, 1e-6, False),
        (1.1, 1e-6, True),
        (1.0, 2e-6, True),
        (0.5, 1e-7, False),
    ):
        protocol = SimpleNamespace(
            name="rr", parameters={"n": 1000, "epsilon": 1.0, "delta": 1e-6},
            guarantee=SimpleNamespace(epsilon=epsilon, delta=delta))  # fmt: skip
        estimate = sdp.Estimate(value=1.0, error=NormalError(stderr=1.0), limits=(0.0, 9.0))
        answer = QuestionAnswer(name="q", task="count", protocol=protocol, estimate=estimate)
        asked = {"protocol": protocol, "answers": (answer,)}
        assert bool(sdp.Answer(n=900, **asked).warnings) == weaker
        assert sdp.Answer(n=1000, **asked).warnings == []


def test_public_functions_follow_the_seed():
    """The answer of a seed is the same again, also where devices hash with functions that everybody knows."""
    given = {"epsilon": 2.0, "delta": 1e-4, "k": 8, "protocol": "count_min"}
    found = [
        sdp.ask([1, 5] * 500, "histogram", rng=sdp.SeededWords(seed), **given) for seed in (1, 1, 2)
    ]
    seeds = [each.protocol.parameters["seed"] for each in found]
    assert seeds[0] == seeds[1] != seeds[2]
    assert found[0].estimate.value.tolist() == found[1].estimate.value.tolist()


def test_messages_are_put_into_all_files_of_a_spool(tmp_path):
    with Spool(tmp_path, 1, sdp.SeededWords(1)) as spool:
        spool.put(np.arange(200))
        sizes = [len(part.payload) for part in spool.read_shuffled(users=200)]
    assert sum(sizes) == 200
    assert min(sizes) > 50


@pytest.mark.parametrize(
    "domain", [sdp.Reals(lower=0.0, upper=9.0, steps=9), sdp.Integers(lower=0, upper=9)]
)
def test_whoever_has_no_row_that_counts_adds_nothing_to_sums_of_rows(domain):
    table = {"who": [1, 1, 2], "v": ["2", "3", ""]}
    column = take_column(table, "v", people=People.read("who", of="rows", max_rows=2))
    policy = OnInvalid.read("drop")
    reduction = Reduction(column=column, how=Reduce.SUM, domain=domain, policy=policy, key="k")
    assert reduce_here(reduction).column.array.to_pylist() == pytest.approx([5, 0], abs=1e-6)
