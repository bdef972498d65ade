"""Surveys: files with errors that name the line, one guarantee for all questions, answers by name."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.csv import write_csv

import shuffledp as sdp
from shuffledp.ledger import Budget, Ledger
from shuffledp.tasks import Count, Histogram, Mean, Sum
from shuffledp.tasks.groups import Grouped
from survey_support import PEOPLE, N

TEXT = """epsilon = 1.0
delta = 1e-6

[questions.way]
task = "histogram"
column = "way"
categories = ["car", "bus", "other"]

[questions.minutes]
task = "quantiles"
column = "minutes"
lower = 0
upper = 15
at = [0.25, 0.5]
weight = 2

[questions.home_by_way]
task = "count"
column = "home"
by = "way"
"""


@pytest.fixture(scope="module")
def survey():
    return sdp.Survey.loads(TEXT)


@pytest.fixture(scope="module")
def answer(survey):
    return sdp.ask(PEOPLE, survey, rng=sdp.SeededWords(1))


def test_answers_are_right(answer):
    way = PEOPLE["way"].to_numpy(zero_copy_only=False)
    home, minutes = PEOPLE["home"].to_numpy(), PEOPLE["minutes"].to_numpy()
    found = answer["way"].estimate
    assert found.labels == ("car", "bus", "other")
    truth = np.array([(way == name).sum() for name in found.labels])
    assert np.all(np.abs(found.value - truth) < 8 * np.asarray(found.stderr))
    by_way = answer["home_by_way"].estimate
    assert by_way.labels == found.labels
    truth = np.array([home[way == name].sum() for name in found.labels])
    assert np.all(np.abs(by_way.value - truth) < 8 * np.asarray(by_way.stderr))
    low, high = answer["minutes"].estimate.interval(1 - 1e-9)
    wanted = np.quantile(minutes, [0.25, 0.5], method="inverted_cdf")
    assert np.all((low <= wanted) & (wanted <= high))


def test_guarantee_is_that_of_the_survey(answer):
    promise = answer.guarantee
    assert (promise.epsilon, promise.delta) == (1.0, 1e-6)
    joint = answer.protocol.accountant.delta(promise.honest, 1.0)
    assert 0.5e-6 < joint <= 1e-6, "the budget is used up, and no more"


def test_json_has_exactly_these_fields(answer):
    found = json.loads(json.dumps(answer.to_dict()))
    assert set(found) == {
        *("epsilon", "delta", "n", "questions", "guarantee", "not_private", "version"),
        *("where", "shuffles", "guarantee_of_sum", "unit", "notes"),
    }
    assert (found["shuffles"], found["guarantee_of_sum"]) == ([], None)
    assert found["n"] == N
    assert list(found["questions"]) == ["way", "minutes", "home_by_way"]
    for question in found["questions"].values():
        assert set(question) == {"task", "protocol", "estimate"}
        shares = {"share"} if question["task"] == "histogram" else set()
        for row in question["estimate"]:
            assert set(row) == {"label", "value", "stderr", "low", "high"} | shares
    assert found["questions"]["minutes"]["protocol"] == "tree"


def test_code_in_remarks_is_code_on_the_page(answer, tmp_path):
    first, *others = answer.answers
    noted = replace(first, notes=("`steps` chooses another grid, < 9",))
    page = replace(answer, answers=(noted, *others)).plot(tmp_path / "r.html").read_text()
    assert "<p><code>steps</code> chooses another grid, &lt; 9</p>" in page


def test_answer_can_be_read(answer, tmp_path):
    text = str(answer)
    assert "home_by_way: count by way" in text
    assert "NOT PRIVATE: the noise is seeded" in text
    page = answer.plot(tmp_path / "report.html").read_text()
    assert "<h2>minutes: quantiles</h2>" in page
    assert "The promise" in page
    assert "<script" not in page
    assert "`" not in page
    assert list(answer.to_pandas().columns) == [
        "question",
        "label",
        "value",
        "stderr",
        "low",
        "high",
    ]
    with pytest.raises(sdp.ParameterError, match="must be one of way"):
        answer["age"]


def test_plan_says_what_each_question_costs(survey):
    plan = survey.plan(N)
    shares = {row.question: row.share for row in plan.rows}
    assert shares == pytest.approx({"way": 1 / 6, "minutes": 4 / 6, "home_by_way": 1 / 6})
    assert "The most expensive question is minutes" in str(plan)
    assert plan.to_dict()["messages_per_user"] == pytest.approx(
        sum(row.messages for row in plan.rows)
    )


def test_without_weights_relative_errors_are_evened_out():
    questions = (
        sdp.Question(name="home", task="count", column="home"),
        sdp.Question(name="m", task="mean", column="minutes", options={"lower": 0, "upper": 15}),
    )
    survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=questions)
    first, second = survey.plan(N).rows
    assert 0.5 < first.relative / second.relative < 2


def test_one_charge_to_the_ledger(tmp_path):
    questions = (sdp.Question(name="home", task="count", column="home"),)
    survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=questions)
    path = tmp_path / "ledger.json"
    sdp.ask(PEOPLE, survey, ledger=path, budget=Budget(epsilon=1.5, delta=1e-5))
    spent = Ledger(path).spent()
    assert (spent.releases, spent.epsilon) == (1, 1.0)
    with pytest.raises(sdp.BudgetError):
        sdp.ask(PEOPLE, survey, ledger=path)
    with pytest.raises(sdp.UnsupportedError, match="seed"):
        sdp.ask(PEOPLE, survey, ledger=path, rng=sdp.SeededWords(1))


def test_a_spent_budget_is_noticed_before_anybody_is_asked(tmp_path, monkeypatch):
    questions = (sdp.Question(name="home", task="count", column="home"),)
    survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=questions)
    monkeypatch.setattr("shuffledp.questions.prepared.run_file", lambda *_, **__: 1 / 0)
    with pytest.raises(sdp.BudgetError):
        sdp.ask(PEOPLE, survey, ledger=tmp_path / "a.json", budget=Budget(epsilon=0.5, delta=1e-5))


def test_what_no_epsilon_covers_is_refused():
    way = sdp.Question(
        name="way", task="histogram", column="way", options={"categories_from_data": True}
    )
    with pytest.raises(sdp.UnsupportedError, match="declares its categories"):
        sdp.Survey(epsilon=1.0, delta=1e-6, questions=(way,))


def test_the_share_of_honest_people_is_that_of_the_survey():
    question = sdp.Question(name="home", task="count", column="home")
    for honest in (0.5, 1.0):
        survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=(question,), honest=honest)
        assert survey.plan(n=1000).protocol.guarantee.honest == 1000 * honest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilon = 1.0", "epsilon = -1", "line 1: epsilon=-1 must be > 0"),
        ("delta = 1e-6", "delta = 2", "line 2: delta=2 must be > 0 and < 1"),
        ("epsilon = 1.0", "", "epsilon is missing"),
        ("delta = 1e-6", "delta = 1e-6\ncolour = 3", "line 3: 'colour' is not a field of a survey"),
        (
            'task = "count"',
            'task = "mode"',
            "line 18: question 'home_by_way': task='mode' must be one",
        ),
        (
            "weight = 2",
            "wait = 2",
            "line 15: question 'minutes': 'wait' is not a field of quantiles",
        ),
        ("weight = 2", "weight = 0", "line 15: question 'minutes': weight=0 must be > 0"),
        ("weight = 2", "weight = nan", "line 15: question 'minutes': weight=nan must be finite"),
        ("at = [0.25, 0.5]", "at = [0.25, 1.5]", "line 14: question 'minutes': at=1.5 must be > 0"),
        ("upper = 15", "upper = -3", "line 13: question 'minutes': upper=-3 must be > lower=0"),
        ("upper = 15", "", "line 9: question 'minutes': quantiles need both `lower` and `upper`"),
        ("[questions.minutes]", "[questions.way]", "survey.toml: Cannot declare"),
        ('task = "quantiles"', "", "line 9: question 'minutes' has no task"),
        ('categories = ["car", "bus", "other"]', 'categories = ["car"]', "must be at least two"),
        ("epsilon = 1.0", "epsilon = ", "survey.toml: Invalid value"),
        ("at = [0.25, 0.5]", "at = [0]", "line 14: question 'minutes': at=0.0 must be > 0 and < 1"),
        ("at = [0.25, 0.5]", "at = [nan]", "line 14: question 'minutes': at=nan must be finite"),
        ("at = [0.25, 0.5]", "at = []", "line 14: question 'minutes': at=() must be at least one"),
        ("upper = 15", "upper = nan", "line 13: question 'minutes': upper=nan must be finite"),
        ("lower = 0", "lower = 20", "line 13: question 'minutes': upper=15 must be > lower=20"),
        ('by = "way"', 'by = "way"\ngroups = []', "line 21: question 'home_by_way': groups=[]"),
        (
            'by = "way"',
            'by = "way"\ngroups = "car"',
            "line 21: question 'home_by_way': groups='car' must be a list",
        ),
        (
            'by = "way"',
            "by = 3",
            "line 20: question 'home_by_way': by=3 must be a text",
        ),
        ('column = "way"', "column = 3", "line 6: question 'way': column=3 must be a text"),
        ("epsilon = 1.0", "epsilon = nan", "line 1: epsilon=nan must be finite"),
        ("weight = 2", 'weight = "much"', "line 15: question 'minutes': weight='much' must be a"),
    ],
)
def test_errors_name_the_line(old, new, said):
    with pytest.raises(sdp.DataError) as error:
        sdp.Survey.loads(TEXT.replace(old, new, 1))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('by = "way"', 'by = "home"', "needs its groups from public knowledge"),
        (
            'column = "home"',
            'column = "house"',
            "line 17: question 'home_by_way': the table has no column",
        ),
        ('by = "way"', 'by = "way"\ngroups = ["car", "bus"]', "is none of the categories"),
        ("delta = 1e-6", "delta = 0.01", "must be at most 1/n"),
    ],
)
def test_data_that_do_not_fit_are_refused(old, new, said):
    survey = sdp.Survey.loads(TEXT.replace(old, new, 1))
    with pytest.raises(sdp.ShuffledpError, match=said):
        sdp.ask(PEOPLE, survey)


def test_one_person_is_not_enough(survey):
    with pytest.raises(sdp.ShuffledpError):
        sdp.ask(PEOPLE.slice(0, 1), survey)


def test_a_question_twice_is_refused():
    question = sdp.Question(name="home", task="count", column="home")
    with pytest.raises(sdp.ParameterError, match="is asked twice"):
        sdp.Survey(epsilon=1.0, delta=1e-6, questions=(question, question))


def test_files_and_tables_are_asked_alike(tmp_path):
    questions = (
        sdp.Question(name="home", task="count", column="home"),
        sdp.Question(
            name="both", task="count", column="home", by="way", groups=("car", "bus", "other")
        ),
    )
    survey = sdp.Survey(epsilon=1.0, delta=1e-6, questions=questions)

    path = tmp_path / "people.csv"
    write_csv(PEOPLE, path)
    for data in (PEOPLE, path, str(path)):
        found = sdp.ask(data, survey, rng=sdp.SeededWords(3))
        assert abs(found["home"].estimate.value - PEOPLE["home"].to_numpy().sum()) < 60
        assert found.n == N
    with pytest.raises(sdp.ParameterError, match="a survey states its own"):
        sdp.ask(PEOPLE, survey, epsilon=1.0)


class TestGroups:
    groups = sdp.Categories(k=2, names=("a", "b"))

    @pytest.mark.parametrize(
        ("task", "truth"),
        [
            (Count(domain=sdp.Bits()), [2, 0]),
            (Sum(domain=sdp.Integers(lower=0, upper=1)), [2, 0]),
            (Mean(domain=sdp.Integers(lower=0, upper=1)), [2 / 3, 0]),
            (Histogram(domain=sdp.Categories(k=2)), [1, 2, 1, 0]),
        ],
    )
    def test_truth(self, task, truth):
        by_group = Grouped.of(task, self.groups)
        values = ([1, 0, 1, 0], ["a", "a", "a", "b"])
        assert by_group.truth(values) == pytest.approx(truth)

    @pytest.mark.parametrize("name", ["sum", "mean"])
    def test_intervals_of_numbers_by_group_cover(self, name):
        task = {"sum": Sum, "mean": Mean}[name](domain=sdp.Integers(lower=2, upper=9))
        by_group = Grouped.of(task, self.groups)
        rng = np.random.default_rng(2)
        values = (rng.integers(2, 10, 3000), rng.choice(["a", "b"], 3000, p=[0.7, 0.3]))
        protocol = sdp.protocols.dummies_histogram.make(
            n=3000, k=by_group.domain.size, epsilon=1.0, delta=1e-5
        )
        truth, source = by_group.truth(values), sdp.SeededWords(4)
        counts = np.bincount(by_group.domain.codes(values), minlength=by_group.domain.size)
        hits = np.zeros(2)
        for _ in range(300):
            bins = protocol.analyzer.estimate(protocol.randomizer.deal(counts, source))
            low, high = by_group.convert(bins).interval(0.9)
            hits += (low <= truth) & (truth <= high)
        assert hits.min() > 230

    def test_ranges_have_no_groups(self):
        task = sdp.tasks.Range(domain=sdp.Integers(lower=0, upper=9))
        with pytest.raises(sdp.UnsupportedError, match="by is for count, histogram, bins, sum"):
            Grouped.of(task, self.groups)

    def test_many_values_are_rounded_to_a_grid(self):
        by_group = Grouped.of(Mean(domain=sdp.Integers(lower=0, upper=10_000)), self.groups)
        assert by_group.domain.parts[0].size == 65
        few, many = (by_group.fit(n, 1.0).domain.parts[0].size for n in (100, 10**6))
        assert 2 < few < many < 65
        assert "at random, without bias" in by_group.remarks()[0]


def test_a_plan_has_its_three_models(survey):
    """A curator is better, and people who trust nobody are much worse; the table says both."""
    plan = survey.plan(N)
    central, local = plan.compare("central"), plan.compare("local")
    third = sdp.plan("histogram", n=N, epsilon=survey.epsilon / 3, delta=0, k=3, models="central")
    # A few questions are hardly worth composing; a curator may use the shuffler's noise as well.
    assert central[0] == pytest.approx(min(third.rows[0].rmse, plan.rows[0].error), rel=0.01)
    for row, curator, nobody in zip(plan.rows, central, local, strict=True):
        assert curator is not None
        assert curator <= row.error
        assert nobody > row.error
    found = plan.to_dict()["questions"][plan.rows[0].question]
    assert (found["central_rmse"], found["local_rmse"]) == (central[0], local[0])
    assert "A trusted curator would be off by: way" in str(plan)


class TestErrors:
    """An error for each question: the smallest epsilon is found."""

    TEXT = """delta = 1e-6
[questions.home]
task = "count"
error = 0.002
[questions.way]
task = "histogram"
categories = ["car", "bus", "other"]
error = 0.001
"""

    def test_every_error_is_reached_and_nothing_is_wasted(self):
        plan = sdp.Survey.loads(self.TEXT).plan(N)
        for row, error in zip(plan.rows, (0.002, 0.001), strict=True):
            assert 0.98 * error < row.relative <= error
        assert plan.guarantee.delta == 1e-6
        assert 0.05 < plan.guarantee.epsilon < 3
        # An epsilon in the file is the most that may be spent.
        again = sdp.Survey.loads("epsilon = 3\n" + self.TEXT).plan(N)
        assert again.guarantee.epsilon == pytest.approx(plan.guarantee.epsilon, rel=0.01)

    def test_answers_are_charged_what_was_found(self):
        answer = sdp.ask(PEOPLE, sdp.Survey.loads(self.TEXT), rng=sdp.SeededWords(3))
        assert abs(answer["home"].estimate.value - PEOPLE["home"].to_numpy().sum()) < 7 * 0.002 * N
        assert answer.guarantee.epsilon == sdp.Survey.loads(self.TEXT).plan(N).guarantee.epsilon

    @pytest.mark.parametrize(
        ("task", "n", "error"),
        [("mean", 500, 0.1), pytest.param("quantiles", 4000, 0.02, marks=pytest.mark.slow)],
    )
    def test_the_grid_is_that_of_the_epsilon_which_is_found(self, task, n, error):
        """One question, so that it starts at epsilon = 1 and ends far from there."""
        survey = sdp.Survey.loads(
            f"delta = 1e-6\n[questions.x]\ntask = '{task}'\nlower = 0.0\nupper = 10.0\nerror = {error}"
        )
        values = np.random.default_rng(2).random(n) * 10
        answer = sdp.ask({"x": values}, survey, rng=sdp.SeededWords(4))
        assert answer.guarantee.epsilon < 0.5
        low, high = answer["x"].estimate.interval(1 - 1e-9)
        wanted = values.mean() if task == "mean" else np.median(values)
        assert np.all(np.asarray(low) <= wanted)
        assert np.all(wanted <= np.asarray(high))

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("error = 0.001\n", "", "error must be given for every question or for none: 'way'"),
            ("error = 0.001", "error = 0", "line 8: question 'way': error=0 must be > 0 and < 1"),
            ("error = 0.001", "error = 0.1\nweight = 2", "leave out weight"),
        ],
    )
    def test_files_that_are_refused(self, old, new, said):
        with pytest.raises(sdp.DataError) as error:
            sdp.Survey.loads(self.TEXT.replace(old, new, 1))
        assert said in str(error.value)

    def test_more_than_the_survey_may_spend(self):
        with pytest.raises(sdp.DataError, match=r"these errors need epsilon = .* 'way'"):
            sdp.Survey.loads("epsilon = 0.01\n" + self.TEXT).plan(N)

    def test_out_of_reach(self):
        text = self.TEXT.replace("error = 0.001", "error = 1e-9")
        with pytest.raises(
            sdp.DataError, match=r"line 5: question 'way': error=1e-09 cannot be reached"
        ):
            sdp.Survey.loads(text).plan(N)


def test_leaving_a_question_out_wins_what_the_plan_says():
    """The plan composes what the others spend; here the others are planned anew."""
    text = "epsilon = 1.0\ndelta = 1e-6\n" + "".join(
        f'[questions.q{i}]\ntask = "histogram"\nprotocol = "dummies_histogram"\nlower = 1\nupper = 4\n'
        for i in range(3)
    )
    plan = sdp.Survey.loads(text).plan(N)
    fewer = sdp.Survey.loads(text.partition("[questions.q2]")[0]).plan(N)
    assert plan.rows[2].without == pytest.approx(fewer.rows[0].error / plan.rows[0].error, rel=0.03)
    assert plan.to_dict()["questions"]["q2"]["others_without"] == plan.rows[2].without
    assert sdp.Survey.loads(text.partition("[questions.q1]")[0]).plan(N).rows[0].without is None


def test_many_histograms_have_dummies():
    """As good as correlated noise among six parts, at half of the messages."""
    text = "epsilon = 1.0\ndelta = 1e-6\n" + "".join(
        f'[questions.q{i}]\ntask = "histogram"\nlower = 1\nupper = 4\n' for i in range(6)
    )
    assert {row.protocol for row in sdp.Survey.loads(text).plan(N).rows} == {"dummies_histogram"}
    few = sdp.Survey.loads(text.partition("[questions.q2]")[0]).plan(N)
    assert {row.protocol for row in few.rows} == {"correlated_histogram"}


def test_very_many_cells_are_refused_with_their_cost():
    survey = sdp.Survey.loads(TEXT.replace("upper = 15", f"upper = 15\nsteps = {2**30}", 1))
    with pytest.raises(
        sdp.DataError, match=r"line 9: .*1,073,741,824 cells are too many: .* messages"
    ):
        survey.plan(10**6)


def test_people_who_are_not_numbers_or_in_no_group(survey):
    blank = PEOPLE.set_column(1, "minutes", pa.array([float("nan")] * N))
    with pytest.raises(sdp.DataError, match="line 9: question 'minutes': value nan at position 0"):
        sdp.ask(blank, survey)
    flown = PEOPLE.set_column(0, "way", pa.array(["plane"] * N))
    with pytest.raises(sdp.DataError, match="line 4: question 'way': value 'plane' at position 0"):
        sdp.ask(flown, survey)


def test_a_distribution_is_drawn_with_its_band(tmp_path):
    survey = sdp.Survey.loads(
        "epsilon = 1.0\ndelta = 1e-6\n[questions.minutes]\ntask = 'cdf'\nlower = 0\nupper = 15\n"
    )
    answer = sdp.ask(PEOPLE, survey, rng=sdp.SeededWords(4))
    page = answer.plot(tmp_path / "report.html").read_text()
    assert page.count("stroke-dasharray") == 3  # quartiles
    assert 'fill-opacity=".25"' in page
    assert "nan" not in page.partition("<svg")[2].partition("</svg>")[0]


def test_files_are_read_while_the_protocols_are_made(tmp_path):
    """What was read early is what is answered from, and an error in it names the question."""
    write_csv(PEOPLE, tmp_path / "people.csv")
    survey = sdp.Survey.loads(TEXT)
    late = survey.prepare(tmp_path / "people.csv", rng=sdp.SeededWords(1))
    early = survey.prepare(tmp_path / "people.csv", read_early=True, rng=sdp.SeededWords(1))
    assert [part.early for part in late.parts] == [None] * len(late.parts)
    read = {part.question.name for part in early.parts if part.early is not None}
    assert read == {"way", "minutes", "home_by_way"}
    answers = [each.answer().to_dict() for each in (early, late)]
    assert answers[0] == answers[1]
    wrong = sdp.Survey.loads(TEXT.replace("upper = 15", "upper = 7"))
    prepared = wrong.prepare(tmp_path / "people.csv", read_early=True)
    with pytest.raises(sdp.DataError, match=r"question 'minutes': value .* in row"):
        prepared.answer()


def test_parts_that_are_beaten_are_not_calibrated(monkeypatch):
    """Too large budgets, and still no better than dummies: the same plan as without the short cut."""
    from shuffledp.questions.plans import _Maker

    tried = []
    fit = _Maker.fit
    monkeypatch.setattr(_Maker, "fit", lambda self, parts: tried.append(parts) or fit(self, parts))
    survey = sdp.Survey.loads(TEXT)
    quick = survey.plan(N)
    assert len(tried) == 1
    monkeypatch.setattr(_Maker, "is_beaten", lambda *_: False)
    assert survey.plan(N).protocol == quick.protocol
    assert len(tried) == 3


class TestInvalid:
    """Numbers out of range and unknown categories, in a CSV file as people have them."""

    TEXT = """epsilon = 1
delta = 1e-6
on_invalid = "other,clamp"

[questions.age]
task = "mean"
column = "age"
lower = 0
upper = 120

[questions.way]
task = "histogram"
column = "way"
categories = ["car", "other"]
"""

    @pytest.fixture
    def people(self, tmp_path):
        path = tmp_path / "people.csv"
        path.write_text("age,way\n" + "30,car\n" * 1000 + "300,boat\n" + "30,\n" * 9)
        return path

    def test_the_policy_of_a_survey_is_for_each_question_what_it_can_be(self, people):
        answer = sdp.ask(people, sdp.Survey.loads(self.TEXT), rng=sdp.SeededWords(1))
        assert answer.n == 1010
        assert abs(answer["way"].estimate.value[1] - 10) < 60

    def test_an_error_names_the_question_and_what_a_survey_can_do(self, people):
        people.write_text(people.read_text() + ",car\n")
        with pytest.raises(sdp.DataError, match=r"question 'age': .*missing.*null=drop"):
            sdp.ask(people, sdp.Survey.loads(self.TEXT))

    def test_a_question_of_its_own_policy_is_taken_at_its_word(self, people):
        wrong = self.TEXT.replace('column = "age"', 'column = "age"\non_invalid = "other"')
        with pytest.raises(sdp.ShuffledpError, match="needs a declared category 'other'"):
            sdp.ask(people, sdp.Survey.loads(wrong))


def test_one_random_question_is_never_better_with_a_shuffler(survey):
    assert "Asking each person one random question would be worse" in str(survey.plan(N))
    assert not survey.plan(N).one_question


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'epsilon = 1.0\nmodel = "trusted"',
            "line 2: model='trusted' must be 'shuffle', 'local' or 'central'",
        ),
        ('epsilon = 1.0\nmodel = "local"\ndelta = 1e-6', "takes no delta"),
        ('model = "local"', "epsilon is missing"),
    ],
)
def test_what_a_local_survey_says(text, said):
    with pytest.raises(sdp.DataError) as error:
        sdp.Survey.loads(f'{text}\n[questions.home]\ntask = "count"\n')
    assert said in str(error.value)


def test_a_curve_on_a_page_is_never_wider_than_the_page(tmp_path):
    text = TEXT.replace('task = "quantiles"', 'task = "cdf"').replace("at = [0.25, 0.5]\n", "")
    answer = sdp.ask(PEOPLE, sdp.Survey.loads(text), rng=sdp.SeededWords(1))
    page = answer.plot(tmp_path / "r.html").read_text()
    assert re.search('<svg role="img"[^>]*max-width:100%', page)


RECODED = """epsilon = 4.0
delta = 1e-6
on_invalid = "other,clamp"

[questions.way]
task = "histogram"
categories = ["car", "other"]

[questions.minutes]
task = "mean"
lower = 0
upper = 10

[questions.home_by_way]
task = "count"
column = "home"
by = "way"
groups = ["car", "other"]
"""


def test_the_operator_alone_learns_how_many_values_became_something_else():
    answer = sdp.ask(PEOPLE, sdp.Survey.loads(RECODED), rng=sdp.SeededWords(1))
    buses = sum(each == "bus" for each in PEOPLE["way"].to_pylist())
    above = sum(each > 10 for each in PEOPLE["minutes"].to_pylist())
    assert answer.for_operator == (
        "For you alone (exact, so not private): "
        f"way: {buses:,} invalid values (unknown {buses:,}) became other; "
        f"minutes: {above:,} invalid values (out_of_range {above:,}) were moved to the nearest end; "
        f"home_by_way: {buses:,} invalid values (unknown {buses:,}) became other."
    )
    shown = [str(answer), json.dumps(answer.to_dict()), answer._repr_html_(), answer._page_body()]
    for text in shown:
        assert f"{buses:,} invalid" not in text
        assert "For you alone" not in text
    assert sdp.ask(PEOPLE, sdp.Survey.loads(TEXT), rng=sdp.SeededWords(1)).for_operator is None


def test_a_filter_of_a_survey_is_a_release(tmp_path):
    survey = sdp.Survey.loads(RECODED)
    path = tmp_path / "ledger.json"
    charged = {"ledger": path, "budget": Budget(epsilon=9.0, delta=1e-5)}
    private = sdp.ask(PEOPLE, survey, where="minutes < 5", **charged)
    repeated = "the words of the filter (minutes < 5), which the answer and the ledger repeat"
    assert (private.n, private.not_private) == (N, (repeated,))
    assert "of whom those with minutes < 5 count" in private.title
    answer = sdp.ask(PEOPLE, survey, where="minutes < 5")
    assert answer.not_private == (
        "n is the exact number of people with minutes < 5: no noise protects who they are",
    )
    assert "people with minutes < 5" in answer.title
    public = sdp.ask(PEOPLE, replace(survey, where_public=True), where="minutes < 5", **charged)
    assert public.not_private == ()
    first, second = Ledger(path).entries()
    assert first.note["where_private"] is True
    assert second.note["where_public"] is True
    assert sdp.Survey.loads("where_public = true\nmissing = ['-9']\n" + RECODED).where_public


class TestCentral:
    """A trusted curator answers a survey: exact answers with noise, one guarantee for all of them."""

    def test_answers_are_right_and_better_than_the_shufflers(self, survey, answer):
        curated = sdp.ask(PEOPLE, survey, model="central", rng=sdp.SeededWords(1))
        promise = curated.guarantee
        assert (promise.epsilon, promise.model.value) == (1.0, "central")
        assert 0.5e-6 < promise.delta <= 1e-6, "the budget is used up, and no more"
        for name in ("way", "home_by_way"):
            found, shuffled = curated[name].estimate, answer[name].estimate
            assert found.labels == shuffled.labels
            spread = np.asarray(found.stderr)
            assert np.all(np.abs(found.value - shuffled.value) < 8 * (spread + shuffled.stderr))
        assert curated["way"].protocol.name == "geometric"
        assert curated["minutes"].protocol.name == "geometric_tree"
        low, high = curated["minutes"].estimate.interval(1 - 1e-9)
        wanted = np.quantile(PEOPLE["minutes"].to_numpy(), [0.25, 0.5], method="inverted_cdf")
        assert np.all((low <= wanted) & (wanted <= high))
        assert "a trusted curator" in str(curated)
        assert "machine that holds everybody's values" in curated.explain()
        json.dumps(curated.to_dict())

    def test_without_delta_epsilons_add_up_by_weight(self):
        text = TEXT.replace("delta = 1e-6\n", 'model = "central"\n')
        plan = sdp.Survey.loads(text).plan(N)
        epsilons = [part.guarantee.epsilon for part in plan.parts]
        assert epsilons == pytest.approx([0.25, 0.5, 0.25], rel=1e-6)
        assert sum(epsilons) <= 1.0
        assert (plan.guarantee.epsilon, plan.guarantee.delta) == (1.0, 0.0)
        assert "sequential composition of 3 answers" in str(plan.guarantee)

    def test_a_plan_states_the_error_that_runs_have(self, survey):
        plan = survey.trust("central").plan(N)
        shown = {row.question: row for row in plan.rows}
        way = PEOPLE["way"].to_numpy(zero_copy_only=False)
        truth = np.array([(way == name).sum() for name in ("car", "bus", "other")])
        runs = [
            sdp.ask(PEOPLE, survey, model="central", rng=sdp.SeededWords(seed))["way"].estimate
            for seed in range(60)
        ]
        spread = np.sqrt(np.mean([(run.value - truth) ** 2 for run in runs]))
        assert spread == pytest.approx(shown["way"].error, rel=0.25)
        assert np.asarray(runs[0].stderr) == pytest.approx(shown["way"].error, rel=1e-6)
        assert plan.to_dict()["messages_per_user"] == 0.0
        assert plan.to_dict()["questions"]["way"]["central_rmse"] == shown["way"].error
        assert "nobody sends messages" in str(plan)
        assert "A trusted curator would" not in str(plan)
        assert shown["way"].error < {r.question: r for r in survey.plan(N).rows}["way"].error
        assert all(0 < row.without < 1 for row in plan.rows)

    def test_words_need_a_delta_of_their_own(self):
        text = 'epsilon = 4.0\nmodel = "central"\n[questions.home]\ntask = "count"\n'
        text += '[questions.word]\ntask = "words"\nalphabet = "letters"\nmax_length = 8\n'
        people = {"home": [True, False] * 500, "word": ["tea"] * 700 + ["mate"] * 300}
        with pytest.raises(sdp.DataError, match=r"question 'word'.*delta"):
            sdp.ask(people, sdp.Survey.loads(text))
        survey = sdp.Survey.loads("delta = 1e-6\n" + text)
        found = sdp.ask(people, survey, rng=sdp.SeededWords(1))
        assert found["word"].estimate.labels == ("tea", "mate")
        own = found["word"].protocol.guarantee.delta
        assert 0 < own <= 0.5e-6
        assert own < found.guarantee.delta <= 1e-6

    def test_nobody_sends_messages(self, survey, tmp_path):
        with pytest.raises(sdp.UnsupportedError, match="nobody sends messages in the central"):
            survey.trust("central").prepare(PEOPLE).randomize(tmp_path / "m.parquet")

    def test_errors_are_for_shufflers(self):
        with pytest.raises(sdp.DataError, match="error is for the shuffle model"):
            sdp.Survey.loads(TestErrors.TEXT, model="central")


def test_one_end_without_the_other_is_refused_before_anybody_plans():
    text = 'epsilon = 1.0\ndelta = 1e-6\n[questions.age]\ntask = "mean"\n{}\n'
    for end in ("lower = 0", "upper = 9"):
        with pytest.raises(sdp.DataError, match="question 'age': a mean needs both `lower`"):
            sdp.Survey.loads(text.format(end))
    assert sdp.Survey.loads(text.format("")).questions[0].options == {}  # of yes and no


def test_groups_are_named_by_their_column_whatever_is_made_of_it():
    text = """
        epsilon = 9.0
        delta = 1e-6
        [questions.way]
        task = "histogram"
        categories = ["car", "bus"]
        on_invalid = "drop"
        [questions.home]
        task = "count"
        by = "way"
    """
    people = {"way": ["car", None] * 300 + ["bus"] * 600, "home": [True, False] * 600}
    for rng in (sdp.SeededWords(1), sdp.SeededWords(2)):
        survey = sdp.Survey.loads(text + '    on_invalid = "drop"')
        answer = sdp.ask(people, survey, rng=rng)
        assert answer["home"].by == "way"
