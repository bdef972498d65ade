"""What experiments are given and give back; where they are found; how they are shipped."""

import tomllib

import numpy as np
import pytest

import shuffledp as sdp
from repository import ROOT
from shuffledp.lab import Context, Drawn, Effort, Result, Verdict, experiments, runner
from shuffledp.lab.runner import typeset


def context(name="x", effort=Effort.QUICK):
    return Context(name=name, effort=effort)


def test_randomness_depends_on_experiment_and_label_alone():
    words = context().words("a").words(4)
    assert (words == context(effort=Effort.FULL).words("a").words(4)).all()
    assert (words != context().words("b").words(4)).any()
    assert (words != context(name="y").words("a").words(4)).any()
    assert context().generator("a").integers(2**60) == context().generator("a").integers(2**60)


def test_verdicts_are_plain():
    verdict = Verdict(claim="a", measured="b", agrees=np.bool_(True))
    assert verdict.agrees is True
    with pytest.raises(sdp.ParameterError, match="measured=' ' must not be empty"):
        Verdict(claim="a", measured=" ", agrees=True)


@pytest.mark.parametrize("missing", ["verdicts", "figures", "rows"])
def test_results_are_complete(missing):
    parts = {
        "verdicts": (Verdict(claim="a", measured="b", agrees=True),),
        "figures": (Drawn(name="f", caption="c", figure=None),),
        "rows": ({"n": 1}, {"n": 2}),
        "parameters": {},
    }
    assert Result(**parts).rows
    with pytest.raises(sdp.ParameterError, match="must have verdicts, figures and rows"):
        Result(**{**parts, missing: ()})
    with pytest.raises(sdp.ParameterError, match="same keys"):
        Result(**{**parts, "rows": ({"n": 1}, {"k": 2})})


def test_our_experiments_introduce_themselves():
    found = experiments()
    assert len(found) >= 12
    assert len({each.order for each in found}) == len(found)
    for each in found:
        assert 10 < len(each.title) < 90, each.name
        assert len(each.about) > 200, each.name


def test_wheels_have_the_experiments():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert included["experiments"] == "shuffledp/experiments"
    # Where a wheel puts them is where discovery looks first.
    assert runner._PLACES[0].parts[-2:] == ("shuffledp", "experiments")
    assert runner._PLACES[1] == ROOT / "experiments"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a <= b & c", "a ≤ b &amp; c"),
        ("sqrt(log(1/delta))", "√(log(1/δ))"),
        ("epsilon_L = ln(n)", "ε<sub>L</sub> = ln(n)"),
        ("n^(1/3), e^epsilon", "n<sup>1/3</sup>, e<sup>ε</sup>"),
        ("split_and_mix, deltas, alphabet", "split_and_mix, deltas, alphabet"),
        ("k^0.75 people. k^2.", "k<sup>0.75</sup> people. k<sup>2</sup>."),
        ("ln(k/beta) * s", "ln(k/β) * s"),
    ],
)
def test_typography(text, html):
    assert typeset(text) == html
