"""Surveys in the local model: one random question for each person, or all of them with a share of the floor."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow.csv import write_csv

import shuffledp as sdp
from survey_support import PEOPLE, N


def ask_locally(count, epsilon=3.0, **changes):
    questions = tuple(
        sdp.Question(name=f"q{i}", task="count", column=f"q{i}", **changes) for i in range(count)
    )
    return sdp.Survey(epsilon=epsilon, delta=0.0, model="local", questions=questions)


def test_one_random_question_where_everybody_keeps_a_floor():
    """Six yes-or-no questions at a floor of 3: 1.26 / sqrt(n) for 1.98 / sqrt(n), and the plan says so."""
    plan = ask_locally(6).plan(10_000)
    assert plan.one_question
    assert plan.to_dict()["one_question"] is True
    np.testing.assert_allclose([100 * row.relative for row in plan.rows], 1.257, rtol=1e-3)
    assert "2 % if everybody answers everything, and 1.3 % with one random question" in str(plan)
    assert 2.999 < plan.guarantee.epsilon <= 3.001
    assert plan.guarantee.delta == 0
    assert ask_locally(1).plan(10_000).protocol.name == "bundle"
    # With a small epsilon the noise rules, and it is the whole epsilon that counts for more.
    assert ask_locally(2, epsilon=20.0).plan(10_000).one_question is False


def test_what_everybody_must_answer():
    text = 'epsilon = 1.0\nmodel = "local"\n[questions.home]\ntask = "count"\n'
    tree = '[questions.m]\ntask = "quantiles"\nlower = 0\nupper = 7\n'
    plan = sdp.Survey.loads(text + tree).plan(5000)
    assert not plan.one_question
    assert "'m' asks for quantiles, which one random question is not for" in str(plan)
    first, second = plan.rows
    assert 0.7 < first.relative / second.relative < 1.4, "evened out"
    assert first.share + second.share == pytest.approx(1)
    weighed = sdp.Survey.loads(text + "weight = 2\n[questions.bus]\ntask = 'count'\n").plan(5000)
    assert "questions have different weights" in str(weighed)
    assert [row.share for row in weighed.rows] == pytest.approx([2 / 3, 1 / 3])


def test_local_surveys_of_files(tmp_path):
    """Each person is asked once; the answers are about all, with intervals that say how many were asked."""
    write_csv(PEOPLE, tmp_path / "people.csv")
    text = 'epsilon = 4.0\nmodel = "local"\n[questions.home]\ntask = "count"\n'
    text += '[questions.by]\ntask = "count"\ncolumn = "home"\nby = "way"\n'
    text += '[questions.way]\ntask = "histogram"\ncategories = ["car", "bus", "other"]\n'
    text += '[questions.minutes]\ntask = "mean"\nlower = 0\nupper = 15\n'
    survey = sdp.Survey.loads(text)
    prepared = survey.prepare(tmp_path / "people.csv")
    assert prepared.plan.one_question
    answers = [
        sdp.ask(each, survey, rng=sdp.SeededWords(3)) for each in (tmp_path / "people.csv", PEOPLE)
    ]
    first, second = ({**each.to_dict()["questions"], "minutes": None} for each in answers)
    assert first == second, "but for means, as text may hold fractions"
    answer = answers[0]
    assert answer.guarantee.model is sdp.Model.LOCAL
    low, high = answer["home"].estimate.interval(1 - 1e-9)
    assert low <= sum(PEOPLE["home"].to_pylist()) <= high
    assert answer["by"].estimate.labels == ("car", "bus", "other")
    assert abs(answer["minutes"].estimate.value - np.mean(PEOPLE["minutes"].to_pylist())) < 3
    assert np.sum(answer["way"].estimate.value) == pytest.approx(N)
    assert "Nobody" in answer.explain()
    seeded = replace(prepared, rng=sdp.SeededWords(9))
    sent = seeded.randomize(tmp_path / "m.parquet")
    assert sent.n == sent.rows == sent.messages == N
    found = sdp.tally_file(sent.path)
    kept = sdp.read_tally(sdp.write_tally(found, tmp_path / "t.json"))
    assert (kept.protocol, kept.form) == (prepared.plan.protocol, found.form)
    apart = sdp.SurveyAnswer.of(kept + kept)
    assert apart.n == 2 * N
    assert [each.estimate.labels for each in apart.answers] == [
        each.estimate.labels for each in answer.answers
    ]
    low, high = apart["home"].estimate.interval(1 - 1e-9)
    assert low <= 2 * sum(PEOPLE["home"].to_pylist()) <= high


def test_messages_of_one_random_question_are_those_of_the_device(tmp_path):
    """Questions are drawn for everybody, and those who have one send what its device says, from the next words."""
    survey = ask_locally(2)
    people = {"q0": np.arange(300) % 2 == 0, "q1": np.arange(300) % 3 == 0}
    prepared = survey.prepare(people, rng=sdp.SeededWords(4))
    assert prepared.plan.one_question
    sent = prepared.randomize(tmp_path / "m.parquet")
    words, device = sdp.SeededWords(4), prepared.plan.protocol.randomizer
    chosen = device.choose(words.words(300))
    expected = []
    for part, values in enumerate(people.values()):
        own = device.devices[part]
        codes = values[chosen == part].astype(np.int64)
        tape = words.words(len(codes) * own.words_per_input).reshape(len(codes), -1)
        expected += [(part, each) for each in own.encode(codes, tape).payload.tolist()]
    rows = pq.read_table(sent.path)["message"].to_pylist()
    assert sorted(map(tuple, rows)) == sorted(expected)
    with pytest.raises(sdp.DataError, match="2 people are too few"):
        ask_locally(6).prepare({f"q{i}": [True, False] for i in range(6)}).answer()


def test_local_surveys_of_everything_are_sent_and_tallied(tmp_path):
    text = 'epsilon = 4.0\nmodel = "local"\n[questions.home]\ntask = "count"\nweight = 2\n'
    text += '[questions.way]\ntask = "histogram"\ncategories = ["car", "bus", "other"]\n'
    survey = sdp.Survey.loads(text)
    sent = survey.prepare(PEOPLE).randomize(tmp_path / "m.parquet")
    assert (sent.n, sent.rows, sent.messages) == (N, N, 2 * N)
    answer = sdp.SurveyAnswer.of(sdp.tally_file(sent.path))
    assert answer.guarantee.epsilon <= 4.0
    assert np.sum(answer["way"].estimate.value) == pytest.approx(N)
