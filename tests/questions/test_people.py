"""Guarantees are those of the people who are there, however many the noise was made for."""

from dataclasses import replace

import pytest

import shuffledp as sdp


@pytest.mark.parametrize("people", [950, 1200])
@pytest.mark.parametrize("protocol", ["correlated_count", "split_and_mix", "rr"])
def test_a_request_made_for_others(protocol, people):
    """With 950 of 1,000 people the stated delta is what their noise gives, not what was planned."""
    question = sdp.Question(name="home", task="count", column=None, protocol=protocol)
    survey = sdp.Survey.of(question, epsilon=1.0, delta=1e-6)
    prepared = survey.prepare([True, False] * (people // 2), n=1000)
    answer = prepared.answer()
    assert answer.n == people
    assert answer.protocol.users == people
    there = prepared.protocol.with_people(people).guarantee
    assert answer.guarantee == there
    planned = prepared.protocol.guarantee
    assert answer.guarantee.honest == people * 9 // 10 != planned.honest
    if people < 1000:
        assert (there.epsilon, there.delta) > (planned.epsilon, planned.delta)
        assert there.delta > 1e-5 or there.epsilon > 1.0
        assert any("950 took part" in each for each in answer.warnings)


SURVEY = """epsilon = 2.0
delta = 1e-3
[questions.home]
task = "count"
[questions.way]
task = "{task}"
{options}
"""
PLAIN = SURVEY.format(task="histogram", options='categories = ["car", "bus"]')
GROUPED = SURVEY.format(
    task="count", options='column = "home"\nby = "way"\ngroups = ["car", "bus"]'
)


@pytest.mark.parametrize("text", [PLAIN, GROUPED], ids=["plain", "by group"])
@pytest.mark.parametrize("made_for", [95, 110])
def test_a_survey_made_for_others_is_not_answered(text, made_for):
    """Its plan promises what the noise of other people would give."""
    people = {"home": [True, False] * 50, "way": ["car", "bus"] * 50}
    prepared = sdp.Survey.loads(text).prepare(people, n=made_for, rng=sdp.SeededWords(1))
    with pytest.raises(sdp.DataError, match=f"100 answers, but {made_for} people take part"):
        prepared.answer()


@pytest.mark.parametrize("place", [0, 1])
def test_every_question_counts_its_people(place):
    """Also the last one: both columns are read."""
    people = {"home": [True, False] * 50, "way": ["car", "bus"] * 50}
    survey = sdp.Survey.loads(PLAIN)
    name = ("home", "way")[place]
    prepared = survey.prepare(people, rng=sdp.SeededWords(1))
    shorter = sdp.questions.open_data(people[name][:-2])
    parts = [
        replace(part, column=shorter) if part.question.name == name else part
        for part in prepared.parts
    ]
    prepared = replace(prepared, parts=tuple(parts))
    with pytest.raises(sdp.DataError, match="98 answers, but 100 people take part"):
        prepared.answer()
