"""The median by its own name: quantiles at 0.5, wherever a question is asked."""

import json

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp

AGES = np.random.default_rng(4).integers(0, 100, 3000)
ENDS = {"lower": 0, "upper": 99}
PROMISE = {"epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize("model", ["shuffle", "central", "local"])
def test_is_the_quantile_at_a_half(model):
    more = PROMISE if model == "shuffle" else {"epsilon": 1.0}
    answers = [
        sdp.ask(AGES, task, **ENDS, **more, **own, model=model, rng=sdp.SeededWords(3))
        for task, own in (("median", {}), ("quantiles", {"at": [0.5]}))
    ]
    median, quantile = ([tuple(row)[1:] for row in answer.picture.rows] for answer in answers)
    assert median == quantile
    assert [row.label for row in answers[0].picture.rows] == ["median"]
    assert abs(median[0][0] - np.median(AGES)) < 25
    assert json.loads(json.dumps(answers[0].to_dict()))["task"] == "median"


def test_takes_no_points():
    with pytest.raises(sdp.UnsupportedError, match="a median takes no at"):
        sdp.ask(AGES, "median", **ENDS, **PROMISE, options={"at": [0.3]})


def test_in_plans_surveys_and_live_collections():
    assert sdp.plan("median", n=3000, **ENDS, **PROMISE).rows
    asked = {"task": "median", "column": "age", **ENDS}
    content = {**PROMISE, "questions": {"age": asked}}
    survey = sdp.Survey.read(content, "s.toml")
    (row,) = sdp.ask({"age": AGES}, survey, rng=sdp.SeededWords(3))["age"].picture.rows
    assert row.label == "median"
    design = live.plan({**content, "collection": {"people": 3000}})
    assert [each.task for each in design.questions] == ["quantiles"]
