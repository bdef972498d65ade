"""What an operator says, and what the document says then: every setting, its default, and what is refused."""

import json
import math
import time
from functools import cache

import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.core.errors import ParameterError
from shuffledp.live.design import Settings, choose_protocols, foresee_error, make_collection
from shuffledp.live.wire.document import Noise

NOW = 1_700_000_000.7
AROUND = {"start", "seconds", "windows", "keys", "grace", "tokens", "url", "title", "language", "welcome", "consent", "contact"}  # fmt: skip


@cache
def design(text):
    return live.plan(json.loads(text))


def write(questions=None, **collection):
    """The document; of settings that do not change the plan, with a plan that was made before."""
    asked = questions or {"home": {"task": "count"}}
    content = {"epsilon": 4.0, "delta": 1e-8, "questions": asked}
    collection = {"people": 400, "noise": "devices", **collection}
    _, settings = live.read_tables({**content, "collection": collection})
    planned = {key: each for key, each in collection.items() if key not in AROUND}
    made, _, _ = make_collection(design(json.dumps({**content, "collection": planned})), settings)
    return made


def test_what_nobody_said_is_as_usual(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: NOW)
    made = write()
    windows = made.windows
    assert (windows.start, windows.seconds, windows.count, windows.grace) == (
        1_700_000_000,
        7 * 86_400,
        1,
        600,
    )
    pledge = made.pledge
    assert (pledge.min_batch, pledge.honest, pledge.reports_per_device, pledge.composed) == (
        200,
        0.9,
        1,
        True,
    )
    assert (pledge.local_epsilon, pledge.delta, pledge.one_question) == (3.0, 1e-8, False)
    assert 0 < pledge.epsilon <= 4.0
    assert (made.tokens, made.url, len(made.shuffler_keys)) == (False, "http://127.0.0.1:8000", 1)
    texts = made.texts
    assert (texts.title, texts.language, texts.direction) == ("survey", "en", "ltr")
    assert (texts.welcome, texts.consent, texts.contact, texts.logo) == (None, None, None, None)
    (question,) = made.questions
    assert (question.name, question.text, question.task, question.labels) == (
        "home",
        "home",
        "count",
        ("no", "yes"),
    )


@pytest.mark.parametrize(
    ("said", "read", "wanted"),
    [
        ({"start": 5}, lambda made: made.windows.start, 5),
        ({"seconds": 60}, lambda made: made.windows.seconds, 60),
        ({"windows": 3, "seconds": 60}, lambda made: (made.windows.count, len(made.shuffler_keys)), (3, 1)),
        ({"windows": 3, "keys": 3}, lambda made: [(key.first, key.last) for key in made.shuffler_keys], [(0, 0), (1, 1), (2, 2)]),
        ({"grace": 0}, lambda made: made.windows.grace, 0),
        ({"people": 401}, lambda made: made.pledge.min_batch, 200),
        ({"min_batch": 350}, lambda made: made.pledge.min_batch, 350),
        ({"honest": 0.5}, lambda made: made.pledge.honest, 0.5),
        ({"tokens": True}, lambda made: made.tokens, True),
        ({"url": "https://a.example/"}, lambda made: made.url, "https://a.example"),
        ({"title": "T"}, lambda made: made.texts.title, "T"),
        ({"language": "ar-EG"}, lambda made: (made.texts.language, made.texts.direction), ("ar-EG", "rtl")),
        ({"language": "de"}, lambda made: made.texts.direction, "ltr"),
        ({"welcome": "Hi", "consent": "Yes?", "contact": "me"},
         lambda made: (made.texts.welcome, made.texts.consent, made.texts.contact), ("Hi", "Yes?", "me")),
        ({"local_epsilon": 1.5}, lambda made: made.pledge.local_epsilon, 1.5),
        ({"noise": "devices"}, lambda made: made.pledge.noise, Noise.DEVICES),
    ],
)  # fmt: skip
def test_what_is_said_is_in_the_document(said, read, wanted):
    assert read(write(**said)) == wanted


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"local_epsilon": "much"}, 'must be a number, or "none"'),
        ({"local_epsilon": 0}, "local_epsilon=0.0 must be > 0"),
        ({"noise": "nobody"}, "noise='nobody' must be \"devices\" or \"servers\""),
        ({"noise": "devices", "local_epsilon": "none", "trust_the_shuffler": True}, "must be a number if noise"),
        ({"people": 1}, "people=1 must be|min_batch"),
        ({"colour": "red"}, "'colour' is not a field of"),
        ({"logo": "data:image/png;base64,AAAA"}, "the logo cannot be taken"),
        ({"windows": 0}, "0"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(said, why):
    with pytest.raises(sdp.ShuffledpError, match=why):
        write(**said)


def test_whose_noise_may_be_planned_for():
    assert Settings().noises == tuple(Noise)
    assert Settings(local_epsilon="none").noises == (Noise.SERVERS,)
    assert Settings(local_epsilon="none").floor == math.inf
    assert Settings(noise="devices").noises == (Noise.DEVICES,)
    assert [Settings(people=people).batch for people in (2, 3, 5, 1001)] == [2, 2, 2, 500]
    assert Settings(people=1000, min_batch=7).batch == 7
    with pytest.raises(ParameterError, match="must be a number"):
        _ = Settings(local_epsilon="many").floor


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"task": "count", "error": 0.1}, "cannot aim at an error yet"),
        ({"task": "median", "lower": 0, "upper": 9, "by": "way", "groups": ["a", "b"]}, "by group cannot be collected live"),
        ({"task": "count", "asked": {"answers": ["no"]}}, "must be the words for no and for yes"),
        ({"task": "histogram", "categories": ["a", "b"], "asked": {"answers": ["no", "yes"]}}, "must be the words for no"),
    ],
)  # fmt: skip
def test_questions_that_devices_cannot_answer(asked, why):
    with pytest.raises(sdp.ShuffledpError, match=why):
        write({"q": asked})
    central = {"epsilon": 1.0, "model": "central", "questions": {"q": {"task": "count"}}}
    with pytest.raises(sdp.DataError, match="a live collection has a shuffler: leave out model"):
        live.plan(central)


def test_words_for_yes_weights_and_groups_are_in_the_document():
    made = write(
        {
            "home": {"task": "count", "text": "At home?", "asked": {"answers": ["nein", "ja"]}},
            "cost": {"task": "sum", "lower": -1, "upper": 2, "by": "way", "groups": ["car", "bus"]},
            "late": {"task": "count", "by": "way", "groups": ["car", "bus"]},
        },
        one_question=False,
    )
    home, cost, late = made.questions
    assert (home.text, home.labels) == ("At home?", ("nein", "ja"))
    assert (cost.task, cost.labels, cost.range) == ("sum_by_group", ("car", "bus"), (-1.0, 2.0))
    assert late.task == "histogram"
    assert late.labels == ("car: no", "car: yes", "bus: no", "bus: yes")


def test_a_foreseen_error_is_a_share_of_the_people_or_of_the_range():
    def foresee(people=400, **asked):
        content = {"epsilon": 4.0, "delta": 1e-8, "questions": {"q": asked}}
        settings = {"people": people, "noise": "devices"}
        return foresee_error(live.plan({**content, "collection": settings}), people)

    p = math.exp(3) / (1 + math.exp(3))
    people = math.sqrt(400 * p * (1 - p)) / (2 * p - 1) / 400
    assert foresee(task="count") == pytest.approx(people, rel=0.02)
    mean, total = (foresee(task=task, lower=0, upper=10) for task in ("mean", "sum"))
    wide = foresee(task="mean", lower=-50, upper=50)
    assert mean == pytest.approx(total, rel=0.02)
    assert mean == pytest.approx(wide, rel=0.02)
    assert people / 2 < mean < 4 * people


def test_two_people_are_the_fewest():
    survey = sdp.Survey.read(
        {"epsilon": 1.0, "delta": 1e-6, "questions": {"home": {"task": "count"}}}
    )
    assert choose_protocols(survey, Settings(people=2)).pledge.min_batch == 2
    for changed, said in (
        ({"people": 1}, "people=1 must be >= 2"),
        ({"people": 10, "min_batch": 1}, "min_batch=1 must be >= 2"),
        (
            {"people": 10, "min_batch": 2, "honest": 0.3},
            "honest=0.3 must leave at least one of n=2 users",
        ),
    ):
        with pytest.raises(sdp.ParameterError) as told:
            choose_protocols(survey, Settings(**changed))
        assert str(told.value) == said
