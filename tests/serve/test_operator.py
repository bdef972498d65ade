"""The planner behind the operator's desk."""

import pytest

from shuffledp.core.errors import DataError, UnsupportedError
from shuffledp.serve.operator import Planner, read_form

SURVEY = {
    "epsilon": 1.0,
    "delta": 1e-8,
    "questions": {"way": {"task": "histogram", "categories": ["car", "bus", "foot"]}},
    "collection": {"people": 5000},
}


def survey(**changes):
    return {**SURVEY, **changes}


def test_error_bars_shrink_with_the_floor():
    def widths(floor):
        content = survey(collection={"people": 5000, "local_epsilon": floor})
        found = Planner().preview(content)["questions"]
        return [row["high"] - row["low"] for each in found for row in each["estimate"]]

    assert all(wide > narrow for wide, narrow in zip(widths(1.0), widths(4.0), strict=True))


def test_a_sum_has_people_times_the_error_of_the_mean():
    one = survey(questions={"total": {"task": "sum", "lower": 0, "upper": 10}})
    mean = survey(questions={"total": {"task": "mean", "lower": 0, "upper": 10}})
    (of_sum,), (of_mean,) = (
        each["questions"][0]["estimate"] for each in map(Planner().preview, (one, mean))
    )
    assert of_sum["value"] == pytest.approx(5000 * of_mean["value"], rel=1e-6)
    wide = of_sum["high"] - of_sum["value"]
    assert wide == pytest.approx(5000 * (of_mean["high"] - of_mean["value"]), rel=0.05)


def test_solves_for_the_smallest_floor():
    wanted = Planner().preview(survey(error=0.05))
    tighter = Planner().preview(survey(error=0.03))
    assert wanted["local_epsilon"] < tighter["local_epsilon"]
    with pytest.raises(UnsupportedError, match="cannot be reached"):
        Planner().preview(survey(error=1e-6))


def test_what_the_page_sends_is_read_strictly():
    with pytest.raises(DataError, match="epsilon='one' must be a number"):
        read_form(b'{"epsilon": "one"}')
    assert read_form(b'{"questions": {"a": {"lower": "-1.5"}}}') == {
        "questions": {"a": {"lower": -1.5}}
    }
