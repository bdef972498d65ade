"""What is one step from wrong: clamped shares at the band, models at their delta, filters before a ledger, slack."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.engine import take_column
from shuffledp.planner import local_bound
from shuffledp.planner.choice import recognise
from shuffledp.planner.local_bound import local_lower_bound
from shuffledp.planner.question import Problem
from shuffledp.planner.rows import Row
from shuffledp.tasks import task_named


@pytest.mark.parametrize("sign", [1, -1])
def test_whoever_is_beyond_the_bounds_that_are_found(sign):
    """Nearly all are in the band from 64 to 128; the bands beside it are still inside, and those beside these are not."""
    magnitudes = np.repeat([20.0, 40.0, 100.0, 200.0, 300.0], [15, 15, 2000, 15, 15])
    beyond, asked = [], {"epsilon": 60.0, "model": "central", "bounds_share": 0.01}
    for seed in range(30):
        rng = sdp.SeededWords(seed)
        found = sdp.ask(
            sign * magnitudes, "mean", lower="auto", upper="auto", rng=rng, **asked
        ).bounds
        if sorted((abs(found.lower), abs(found.upper))) == [32.0, 256.0]:
            beyond.append(found.clamped.value * 2060)
            assert found.clamped.low * 2060 <= 30 <= found.clamped.high * 2060
    assert len(beyond) >= 20
    assert np.mean(beyond) == pytest.approx(30, abs=7)  # one band more or less is 15 people


def test_local_errors_are_those_of_epsilon_split_evenly_without_delta():
    text = 'epsilon = 2\n{}[questions.a]\ntask = "count"\n[questions.b]\ntask = "count"\n'
    shuffled = sdp.Survey.loads(text.format("delta = 1e-6\n")).plan(2000)
    half = math.sqrt(2000) / (2 * math.sinh(0.5))
    assert shuffled.compare("local") == pytest.approx((half, half))
    curator = sdp.Survey.loads(text.format('model = "central"\n')).plan(2000)
    assert curator.compare("local") == pytest.approx((half, half))
    alone = sdp.plan("count", n=2000, epsilon=1.0, delta=0.0, models="central").chosen.rmse
    assert all(error < alone for error in shuffled.compare("central")), "delta is worth something"
    nobody = sdp.Survey.loads(text.format('model = "local"\n')).plan(2000)
    assert nobody.compare("central") == pytest.approx((alone, alone))


def test_a_column_that_was_opened_with_a_filter_meets_the_ledger(tmp_path):
    """Its number of people is exact, and no epsilon covers that: before anything is spent."""
    table = {"v": [1, 0] * 500, "x": [1, 2] * 500}
    paid = {"ledger": tmp_path / "l.json", "budget": sdp.ledger.Budget(epsilon=9, delta=1e-5)}
    column = take_column(table, "v", where="x > 1")
    with pytest.raises(
        sdp.UnsupportedError, match="where='x > 1' makes n the exact answer to a question"
    ):
        sdp.ask(column, "count", epsilon=1.0, model="central", **paid)
    assert not (tmp_path / "l.json").exists()


def test_a_wrong_value_of_a_survey_is_named_with_its_row(tmp_path):
    """Also where files are grouped while the protocols are made."""
    path = tmp_path / "a.csv"
    path.write_text("km,way\n" + "1,a\n2,b\n" * 1000 + "7,c\n")
    survey = sdp.Survey.loads(
        'epsilon = 2\ndelta = 1e-5\n[questions.km]\ntask = "sum"\nlower = 0\nupper = 9\nby = "way"\n'
        '[questions.way]\ntask = "histogram"\ncategories = ["a", "b"]\n'
    )
    with pytest.raises(
        sdp.DataError, match=r"value 'c' in row 2001 of .*a\.csv is none of the categories"
    ):
        sdp.ask(path, survey)


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        ("count", "", "counts as no"),
        ("histogram", "k = 2\n", "is counted as 'none'"),
        ("sum", "lower = 0\nupper = 1\n", "counts as 0"),
        (
            "cdf",
            "lower = 0\nupper = 1\nat = [0]\n",
            "counts in no range and below no point, but shares are of everybody",
        ),
        (
            "mean",
            "lower = 0\nupper = 1\n",
            "is left out of the answer, and of the number of people that it is about: both have noise",
        ),
    ],
)
def test_what_becomes_of_whoever_has_no_value_is_told(task, options, said):
    """By name, unless it is the same in all questions."""
    text = 'epsilon = 9\nmodel = "central"\n{}[questions.v]\ntask = "{}"\n{}[questions.w]\ntask = "count"\n'
    data = {"v": ["1", "0", "", "1"] * 50, "w": [1, 0] * 100}
    found = sdp.ask(data, sdp.Survey.loads(text.format('on_invalid = "drop"\n', task, options)))
    lead = "Whoever" if task == "count" else "v: whoever"
    assert f"{lead} has no value {said}." in found.notes
    assert found.n == 200
    whole = {**data, "v": ["1", "0"] * 100}
    plain = sdp.ask(whole, sdp.Survey.loads(text.format("", task, options)))
    assert not any("has no value" in note for note in plain.notes)


def test_a_task_that_no_curator_answers_is_never_good_enough():
    task = task_named("uniformity").declare({"k": 3}).task
    asked = Problem.of(task, n=1000, epsilon=1.0, delta=1e-6, honest=0.9)
    good = Row(protocol="x", model=sdp.Model.SHUFFLE, rmse=1e-9, bits_per_user=1.0)
    assert not recognise(asked)(good)
    assert recognise(asked)(Row(protocol="x", model=sdp.Model.SHUFFLE, rmse=0.0, bits_per_user=1.0))


@pytest.mark.parametrize("n", [100, 10**5, 10**9])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 5.0])
def test_a_certified_bound_leaves_room_for_its_rounding_errors(n, epsilon):
    """The closed form with fifty digits: what is stated is below it by about the slack, and not more."""
    ratio = 0.25 / math.sinh(epsilon / 2) ** 2
    found = local_bound._bound_by_information(n, epsilon, ratio)
    with localcontext() as context:
        context.prec = 50
        grown = Decimal(epsilon).exp()
        flip = 1 / (grown + 1)
        F, D = flip * (1 - flip), (1 - 2 * flip) ** 2
        turn = 4 * Decimal(math.pi) ** 2
        largest = Decimal(local_bound._average_inverse(epsilon))
        whole = n * F / D
        exact = whole - n * F * F / D * largest * turn / (n * D * largest + turn)
        if exact > whole * Decimal("1e-3"):
            assert (
                exact - whole * Decimal("4e-11") < Decimal(found) < exact - whole * Decimal("5e-12")
            )


def test_nothing_is_claimed_where_the_slack_is_larger_than_the_bound():
    assert local_lower_bound(n=2 * 10**9, epsilon=1e-12) == 0.0
