"""People who were shuffled apart: whoever has the files sees every shuffle by itself."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.accounting.exact import shuffled_delta
from shuffledp.core.analyzer import Tally
from shuffledp.engine.tallies import Collected
from shuffledp.numerics.rounding import exp_lower

rr = sdp.protocols.rr


def place(protocol, users):
    tally = Tally(counts=np.array([users // 2, users - users // 2]), users=users)
    return Collected(protocol=protocol, tally=tally)


def add(protocol, *sizes):
    first, *others = (place(protocol, size) for size in sizes)
    return sum(others, start=first)


def binary_delta(flip, n, E):
    """The exact delta of n people who flip a bit with this probability, all others having a zero."""
    ones = np.array([1.0])
    for _ in range(n - 1):
        ones = np.convolve(ones, [1 - flip, flip])
    yes, no = np.convolve(ones, [flip, 1 - flip]), np.convolve(ones, [1 - flip, flip])
    return float(max(np.maximum(yes - E * no, 0).sum(), np.maximum(no - E * yes, 0).sum()))


@pytest.mark.parametrize(
    ("places", "n", "delta", "wrong", "times"),
    [(2, 1000, 1e-6, 0.6035, 100), (20, 100, 1e-4, 0.1364, 400)],
)
def test_the_guarantee_is_that_of_a_single_place(places, n, delta, wrong, times):
    """The exact delta of one place is far above the delta that the people of all places would have."""
    protocol = rr.make(n=n, epsilon=1.0, delta=delta, honest=1.0)
    answer = sdp.Answer.of(add(protocol, *[n] * places))
    assert answer.n == places * n
    flip = float(protocol.randomizer.flip)
    stated = answer.guarantee
    assert binary_delta(flip, n, np.exp(stated.epsilon)) <= stated.delta == delta
    of_sum = answer.guarantee_of_sum
    assert of_sum.epsilon == pytest.approx(wrong, abs=1e-4)
    assert binary_delta(flip, n, np.exp(of_sum.epsilon)) > times * delta
    assert binary_delta(flip, places * n, np.exp(of_sum.epsilon)) <= delta


def test_enumeration_agrees():
    """Two places of four and three people: exactly, over all data sets of one place."""
    protocol = rr.make(n=4, epsilon=1.0, delta=0.1, honest=1.0, word_bits=8)
    stated = sdp.Answer.of(add(protocol, 4, 3)).guarantee
    laws = [protocol.randomizer.pmf(x) for x in (0, 1)]
    exact = [float(shuffled_delta(laws, n, exp_lower(stated.epsilon))) for n in (3, 4)]
    assert exact[1] <= exact[0] <= stated.delta
    joined = protocol.with_people(7).guarantee
    assert shuffled_delta(laws, 3, exp_lower(joined.epsilon)) > Fraction(joined.delta)


def test_the_smallest_place_counts_wherever_it_stands():
    protocol = rr.make(n=1000, epsilon=1.0, delta=1e-6)
    for sizes in ((1000, 300, 2000), (300, 2000, 1000), (2000, 1000, 300)):
        answer = sdp.Answer.of(add(protocol, *sizes))
        assert answer.shuffles == sizes
        assert answer.guarantee == protocol.with_people(300).guarantee
        assert any("smallest shuffle had 300" in each for each in answer.warnings)
        assert "270 of the 300 people in the smallest shuffle" in answer.explain()


def test_the_stronger_number_is_said_to_be_for_readers_of_the_sum():
    answer = sdp.Answer.of(add(rr.make(n=1000, epsilon=1.0, delta=1e-6), 1000, 1000))
    lines = [line for line in str(answer).splitlines() if "epsilon = " in line]
    assert lines == [
        f"rr: {answer.guarantee}.",
        f"For readers of nothing but the sum: {answer.guarantee_of_sum}.",
    ]
    found = answer.to_dict()
    assert (found["epsilon"], found["shuffles"]) == (answer.guarantee.epsilon, [1000, 1000])
    assert found["guarantee_of_sum"]["against"] == "readers of nothing but the sum"


def test_one_shuffle_says_nothing_new():
    answer = sdp.Answer.of(place(rr.make(n=1000, epsilon=1.0, delta=1e-6), 1000))
    assert answer.guarantee_of_sum is None
    assert "sum" not in str(answer).replace("assum", "")


def test_local_protocols_have_one_guarantee():
    answer = sdp.Answer.of(add(rr.make_local(epsilon=1.0), 10, 10))
    assert answer.guarantee_of_sum is None
    assert answer.guarantee.epsilon == 1.0


def test_a_tally_of_several_files_of_messages_remembers_their_shuffles(tmp_path):
    protocol = rr.make(n=1000, epsilon=1.0, delta=1e-6)
    paths = []
    for name, rows in (("a", 1000), ("b", 950)):
        column = sdp.questions.open_data([True, False] * (rows // 2))
        paths.append(sdp.randomize_file(protocol, column, tmp_path / f"{name}.parquet").path)
    found = sdp.tally_file(paths)
    assert found.shuffles == (1000, 950)
    kept = sdp.read_tally(sdp.write_tally(found, tmp_path / "t.json"))
    assert kept.shuffles == (1000, 950)
    assert sdp.Answer.of(kept).guarantee == protocol.with_people(950).guarantee


def test_a_tally_that_does_not_know_its_shuffles_is_refused(tmp_path):
    path = sdp.write_tally(place(rr.make_local(epsilon=1.0), 10), tmp_path / "t.json")
    content = json.loads(path.read_text())
    for wrong, said in (
        ({}, "how many people each shuffle had"),
        ({"shuffles": []}, "damaged"),
        ({"shuffles": [5, 6]}, "add up"),
        ({"shuffles": [-1, 11]}, "add up"),
        ({"shuffles": ["10"]}, "whole"),
    ):
        del content["shuffles"]
        path.write_text(json.dumps({**content, **wrong}))
        with pytest.raises(sdp.DataError, match=said):
            sdp.read_tally(path)
        content["shuffles"] = [10]


def test_another_share_of_honest_people():
    """A sum modulo q is made for the people of all places; what hides somebody is the noise of one."""
    protocol = sdp.make(
        "split_and_mix", n=600, lower=0, upper=9, epsilon=1.0, delta=1e-6, honest=0.45
    )
    tally = Tally(counts=np.array([0]), users=300)
    both = Collected(protocol=protocol, tally=tally) + Collected(protocol=protocol, tally=tally)
    assert sdp.Answer.of(both).guarantee.honest == 135
    told = sdp.Answer.of(replace(both, honest=0.9))
    assert told.guarantee.honest == 270
    assert told.guarantee.delta <= 1e-6 < sdp.Answer.of(both).guarantee.delta
    assert told.guarantee_of_sum.honest == 540


SURVEY = """epsilon = 1.0
delta = 1e-3
[questions.home]
task = "count"
[questions.way]
task = "histogram"
categories = ["car", "bus"]
"""


def test_surveys_of_several_places(tmp_path):
    survey, found = sdp.Survey.loads(SURVEY), []
    for name, rows in (("a", 100), ("b", 90)):
        people = {"home": [True, False] * (rows // 2), "way": ["car", "bus"] * (rows // 2)}
        prepared = survey.prepare(people, n=100)
        found.append(sdp.tally_file(prepared.randomize(tmp_path / f"{name}.parquet").path))
    answer = sdp.SurveyAnswer.of(found[0] + found[1])
    assert answer.n == 190
    assert answer.guarantee == sdp.SurveyAnswer.of(found[1]).guarantee
    assert answer.guarantee.delta > sdp.SurveyAnswer.of(found[0]).guarantee.delta
    assert answer.guarantee_of_sum.delta <= 1e-3
    assert f"For readers of nothing but the sum: {answer.guarantee_of_sum}." in str(answer)
    assert answer.to_dict()["guarantee_of_sum"]["delta"] == answer.guarantee_of_sum.delta
