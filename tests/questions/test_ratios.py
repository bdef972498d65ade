"""Means of rows, and means where not everybody has a value: two sums, what one person moves, and what is said."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import shuffledp as sdp
from shuffledp.engine import find_engine
from shuffledp.ledger import Budget
from shuffledp.numerics.intervals.sample import RatioError
from shuffledp.questions.people import make_people

PEOPLE = 400
MODELS: dict[str, dict[str, Any]] = {"shuffle": {"delta": 1e-6}, "central": {}, "local": {}}
KM = {"column": "km", "lower": 0, "upper": 30}


def make_table() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(PEOPLE), 1 + np.arange(PEOPLE) % 6)
    return {"who": who, "km": rng.integers(0, 12, len(who)), "far": rng.random(len(who)) < 0.3}


TABLE = make_table()


def ask(model: str = "central", table: Any = TABLE, **more: Any) -> sdp.Answer:
    given = {**KM, "epsilon": 8.0, "rng": sdp.SeededWords(1), "model": model, **MODELS[model]}
    return sdp.ask(table, "mean", **{**given, **more})


def of_rows(model: str = "central", most: int = 6, **more: Any) -> sdp.Answer:
    return ask(model, person="who", of="rows", max_rows=most, **more)


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    "model", ["central", "local", pytest.param("shuffle", marks=pytest.mark.slow)]
)
def test_the_mean_of_rows(model: str, real: bool) -> None:
    table = {**TABLE, "km": TABLE["km"].astype(float)} if real else TABLE
    answer = of_rows(model, table=table)
    low, high = answer.estimate.interval(0.999)
    assert low <= TABLE["km"].mean() <= high
    assert (answer.n, answer.unit, answer.task) == (PEOPLE, "person", "mean")
    assert high - low < (0.5 if model == "central" else 25)
    assert answer.estimate.limits == (0.0, 30.0)
    assert "ratio of two sums" in str(answer)


def test_rows_beyond_the_most_are_left_out_and_rows_are_limited() -> None:
    table = {"who": [0] * 50 + [*range(1, 300)], "km": [90] * 50 + [10] * 299}
    few = of_rows(table=table, most=1, epsilon=90.0).estimate.value
    assert few == pytest.approx((30 + 2990) / 300, abs=0.02)
    many = of_rows(table=table, most=50, epsilon=90.0).estimate.value
    assert many == pytest.approx((50 * 30 + 2990) / 349, abs=0.5)


@pytest.mark.parametrize("rows", [[30] * 9, [0] * 9, [30], [0, 30], [-5], [99] * 4, [None]])
@pytest.mark.parametrize("others", [[30, 30, 30], [0, 0, 0], [15], [None]])
def test_one_person_moves_both_sums_by_what_the_noise_covers(
    rows: list[int | None], others: list[int | None]
) -> None:
    """Numerator, in units of half, and denominator: by at most twice the most, together."""

    def find(own: list[int | None]) -> tuple[int, int, int]:
        table = {"who": [1] * len(own) + [2, 3], "km": [*own, 4, 7]}
        question = sdp.Question(
            name="km",
            task="mean",
            column="km",
            options={"lower": 0, "upper": 30},
            people=sdp.engine.People.read("who", of="rows", max_rows=3),
        )
        survey = sdp.Survey.of(question, epsilon=1.0, model="central", on_invalid="drop")
        made = make_people(survey, survey.open(table), find_engine("memory"), sdp.SeededWords(1))
        ratio = made.ratios["km"]
        tops, counts = ratio.tops.array.to_numpy(), ratio.rows.array.to_numpy()
        assert np.all(np.abs(tops) <= ratio.half * counts)
        assert counts.max() <= 3
        return int(tops.sum()), int(counts.sum()), ratio.people

    (top, count, n), (top2, count2, n2) = find(rows), find(others)
    assert n == n2 == 3
    assert abs(top - top2) / 30 + abs(count - count2) <= 6


def test_the_noise_of_a_curator_covers_what_a_person_moves() -> None:
    protocol = of_rows(most=3).protocol
    assert protocol.name == "geometric"
    assert protocol.parameters["k"] == 2
    assert protocol.parameters["sensitivity"] == 2 * 3 * 2**30


def test_a_private_filter_has_narrow_intervals(tmp_path: Path) -> None:
    """Two sums, and not a histogram of values by group, whose bins all have noise of their own."""
    rng = np.random.default_rng(1)
    values, taken = rng.integers(0, 101, 20_000), rng.random(20_000) < 0.3
    table = {"v": values, "f": taken}
    for model, narrow in (("central", 0.4), ("shuffle", 0.8)):
        answer = sdp.ask(
            table,
            "mean",
            column="v",
            lower=0,
            upper=100,
            where="f = true",
            epsilon=1.0,
            model=model,
            ledger=tmp_path / f"{model}.json",
            budget=Budget(epsilon=1.0, delta=1e-5),
            **MODELS[model],
        )
        low, high = answer.estimate.interval(1 - 1e-6)
        assert low <= values[taken].mean() <= high
        low, high = answer.estimate.interval(0.95)
        assert high - low < narrow
        assert answer.n == 20_000


def test_people_without_a_value_are_counted_in_neither_sum() -> None:
    table = {"who": [*range(500)], "km": [20] * 400 + [None] * 100}
    answer = ask(table=table, person="who", on_invalid="drop", epsilon=90.0)
    assert answer.estimate.value == pytest.approx(20, abs=0.05)
    assert answer.n == 500


@pytest.mark.parametrize("model", MODELS)
def test_values_of_people_are_moved_to_the_ends_and_left_out(model) -> None:
    table = {"who": [*range(500)], "km": [20] * 300 + [99] * 100 + [None] * 100}
    answer = ask(table=table, person="who", on_invalid="clamp,drop", epsilon=90.0, model=model)
    assert answer.estimate.value == pytest.approx(22.5, abs=0.5)
    assert (answer.n, answer.invalid, answer.rows) == (500, None, None)


def test_nothing_is_known_of_a_mean_of_few_rows() -> None:
    table = {"who": [*range(20)], "km": [5] + [None] * 19}
    answer = of_rows(table=table, most=5, epsilon=0.1, on_invalid="drop")
    assert answer.estimate.interval(0.95) == (0.0, 30.0)
    assert "nothing is known about the mean" in str(answer)
    assert "nothing is known" not in str(of_rows())


def test_dates_have_a_mean_of_rows() -> None:
    days = np.array(["2024-03-01", "2024-03-31"], dtype="datetime64[D]").repeat(300)
    table = {"who": [*range(300)] * 2, "day": days}
    answer = of_rows(
        table=table, most=2, column="day", lower="2024-01-01", upper="2024-12-31", epsilon=90.0
    )
    assert "2024-03-16" in str(answer)


def test_everybody_who_trusts_nobody_is_asked_about_one_of_the_sums() -> None:
    question = sdp.Question(
        name="km",
        task="mean",
        column="km",
        options={"lower": 0, "upper": 30},
        people=sdp.engine.People.read("who", of="rows", max_rows=6),
    )
    survey = sdp.Survey.of(question, epsilon=1.0, model="local")
    ready = survey.prepare(TABLE, rng=sdp.SeededWords(1))
    assert ready.protocol.name == "one_question"
    first, second = ready._draw_questions()
    assert first is not None
    assert second is not None
    assert not np.any(first & second)
    assert isinstance(ready.answer().estimate.error, RatioError)


@pytest.mark.parametrize(
    ("model", "runs"),
    [
        ("local", 12),
        pytest.param("local", 200, marks=pytest.mark.slow),
        pytest.param("shuffle", 200, marks=pytest.mark.slow),
    ],
)
def test_intervals_of_ratios_cover(model: str, runs: int, record_property: Any) -> None:
    """Drawn again and again, at three levels: never less often than they say, by the law of that many runs."""
    question = sdp.Question(
        name="km",
        task="mean",
        column="km",
        options={"lower": 0, "upper": 12},
        people=sdp.engine.People.read("who", of="rows", max_rows=6),
    )
    asked = {"epsilon": 4.0 if model == "local" else 1.0, "model": model, **MODELS[model]}
    ready = sdp.Survey.of(question, **asked).prepare(TABLE)
    truth = TABLE["km"].mean()
    covered = dict.fromkeys((0.5, 0.8, 0.95), 0)
    lengths = dict.fromkeys(covered, 0.0)
    for seed in range(runs):
        estimate = replace(ready, rng=sdp.SeededWords(seed)).answer().estimate
        for level in covered:
            low, high = estimate.interval(level)
            covered[level] += int(low <= truth <= high)
            lengths[level] += (high - low) / runs
    record_property("covered", {level: count / runs for level, count in covered.items()})
    for level, count in covered.items():
        assert count >= stats.binom.ppf(1e-9, runs, level)
    assert lengths[0.5] < lengths[0.8] < lengths[0.95] < 12


@pytest.mark.slow
def test_surveys_have_means_of_rows() -> None:
    text = (
        "epsilon = 8.0\ndelta = 1e-6\nperson = 'who'\n"
        "[questions.km]\ntask = 'mean'\nlower = 0\nupper = 30\nof = 'rows'\nmax_rows = 6\n"
        "[questions.far]\ntask = 'count'\n"
    )
    survey = sdp.Survey.loads(text)
    answer = sdp.ask(TABLE, survey, rng=sdp.SeededWords(1))
    assert [each.name for each in answer.answers] == ["km", "far"]
    low, high = answer["km"].estimate.interval(0.999)
    assert low <= TABLE["km"].mean() <= high
    assert answer["km"].task == "mean"
    assert [row.question for row in survey.plan(PEOPLE).rows] == ["km", "km (rows)", "far"]


def test_what_two_sums_cannot_do_is_refused() -> None:
    with pytest.raises(sdp.UnsupportedError, match="is for one sum"):
        of_rows("shuffle", protocol="split_and_mix")
    with pytest.raises(sdp.ParameterError, match="max_rows=1000000 must be <= "):
        of_rows(most=10**6)
    question = sdp.Question(
        name="km",
        task="mean",
        column="km",
        options={"lower": 0, "upper": 30},
        people=sdp.engine.People.read("who", of="rows", max_rows=6),
    )
    survey = sdp.Survey.of(question, epsilon=1.0, delta=1e-6)
    with pytest.raises(sdp.UnsupportedError, match="messages cannot be collected"):
        survey.prepare(TABLE, sent=True)


@pytest.mark.slow
def test_two_sums_have_no_messages(tmp_path: Path) -> None:
    text = (
        "epsilon = 8.0\ndelta = 1e-6\nperson = 'who'\n"
        "[questions.km]\ntask = 'mean'\nlower = 0\nupper = 30\nof = 'rows'\nmax_rows = 6\n"
    )
    with pytest.raises(sdp.UnsupportedError, match="has no messages"):
        sdp.Survey.loads(text).prepare(TABLE).randomize(tmp_path / "sent.parquet")
    with pytest.raises(sdp.UnsupportedError, match="this mean is two sums"):
        of_rows("shuffle", max_messages=9)


@pytest.mark.parametrize(("lower", "upper"), [(-2, 5), (-2.0, 5.0), (1, 5), (1.0, 5.0)])
def test_the_sum_of_rows_has_room_for_the_most_that_a_person_adds(
    lower: float, upper: float
) -> None:
    """And for nothing: who has no row that counts adds 0, whatever the ends are."""
    table = {"who": [0] * 4 + [*range(1, 100)], "km": [5] * 4 + [1] * 99}
    given = {"column": "km", "person": "who", "of": "rows", "max_rows": 3}
    answer = sdp.ask(table, "sum", lower=lower, upper=upper, epsilon=60.0, model="central", **given)
    assert answer.estimate.value == pytest.approx(3 * 5 + 99, abs=2)
    assert answer.estimate.limits == (100 * min(3 * lower, 0), 100 * 3 * upper)
    count = sdp.ask(
        {**table, "km": ["yes", "no", "yes", "yes", *["no"] * 99]}, "count", epsilon=60.0, model="central", **given
    )  # fmt: skip
    assert count.estimate.limits == (0.0, 300.0)
    assert count.estimate.value in (2.0, 3.0)
