"""From a survey to a collection: protocols, floor, promise; and what comes out of simulated people."""

from dataclasses import replace

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.analyzer import answer_question, count_messages
from shuffledp.live.design import Settings, choose_protocols, create, read_survey
from shuffledp.live.pages import describe_trust
from shuffledp.live.wire.promise import compute_guarantee
from shuffledp.live.wire.report import encode_many

SURVEY = """
epsilon = 1.0
delta = 1e-8
[questions.way]
task = "histogram"
text = "How?"
categories = ["car", "bicycle", "bus"]
[questions.minutes]
task = "mean"
lower = 0
upper = 240
weight = 2
[questions.total]
task = "sum"
lower = 0
upper = 10
[questions.home]
task = "count"
[collection]
title = "All of it"
people = 1000
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("survey") / "all.toml"
    path.write_text(SURVEY)
    survey, settings = read_survey(path)
    design = choose_protocols(survey, settings)
    secrets = sdp.live.ShufflerSecrets.generate()
    _, public, sign = sdp.live.generate_analyzer()
    collection = create(
        design,
        settings,
        shuffler=secrets,
        analyzer_public=public,
        analyzer_sign=sign,
        now=1000.0,
    )
    return design, collection


def test_the_floor_is_shared_by_weight_and_kept(made):
    design, collection = made
    shares = [question.epsilon0 for question in design.questions]
    assert sum(shares) <= 3.0
    assert shares == pytest.approx([0.6, 1.2, 0.6, 0.6])
    assert design.limited_by == "the floor"
    assert collection.pledge.min_batch == 500
    assert collection.verify().epsilon <= collection.pledge.epsilon < 1.0


def test_what_everybody_is_told(made):
    _, collection = made
    rows = describe_trust(collection)
    assert rows[0] == ("one operator plays all roles here", "trust as in the central model")
    assert "450 of the reports" in rows[1][1]
    assert "95.3 %" in rows[3][1]


def test_estimates_of_simulated_people_are_near_the_truth(made):
    """Each kind of question, through randomizing, bytes and counting; intervals at five sigma."""
    _, collection = made
    people = 40_000
    source = np.random.default_rng(3)
    minutes = collection.question("minutes").protocol.randomizer.domain
    total = collection.question("total").protocol.randomizer.domain
    times, gifts = source.uniform(0, 240, people), source.integers(0, 11, people).astype(float)
    places = {
        "way": source.choice(3, people, p=[0.6, 0.3, 0.1]),
        "minutes": minutes.places(times),
        "total": total.places(gifts),
        "home": (source.random(people) < 0.3).astype(np.int64),
    }
    plains = np.concatenate(encode_many(collection, places, sdp.SeededWords(4)))
    counted = count_messages(collection, plains)
    assert counted.dropped == {}
    truth = {
        "way": np.bincount(places["way"]).tolist(),
        "minutes": [float(times.mean())],
        "total": [float(gifts.sum())],
        "home": [float(places["home"].sum())],
    }
    for question, tally in zip(collection.questions, counted.tallies, strict=True):
        rows = answer_question(question, tally)["estimate"]
        for row, wanted in zip(rows, truth[question.name], strict=True):
            assert abs(row["value"] - wanted) < 6.2 * row["stderr"], (question.name, row, wanted)


def test_a_promise_that_the_floor_does_not_keep_gets_more_noise():
    settings = Settings(people=60, min_batch=40, local_epsilon=3.0, noise="devices")
    design = choose_protocols(ask_way(epsilon=1.0), settings)
    assert design.limited_by == "the promise"
    assert design.pledge.epsilon <= 1.0
    assert design.pledge.local_epsilon < 3.0
    assert design.questions[0].epsilon0 > 0.5


def test_the_promise_is_nearly_used_up_and_found_soon(monkeypatch):
    seen = []

    def watch(questions, pledge):
        found = compute_guarantee(questions, pledge)
        seen.append((questions[0].epsilon0, found.epsilon))
        return found

    monkeypatch.setattr("shuffledp.live.design.compute_guarantee", watch)
    settings = Settings(people=60, min_batch=40, local_epsilon=3.0, noise="devices")
    design = choose_protocols(ask_way(epsilon=1.0), settings)
    chosen = design.questions[0].epsilon0
    too_much = min(epsilon0 for epsilon0, epsilon in seen if epsilon > 1.0)
    assert chosen < too_much < chosen * 1.011
    assert chosen == max(epsilon0 for epsilon0, epsilon in seen if epsilon <= 1.0)
    assert len(seen) <= 8


def ask_way(epsilon):
    way = {"task": "histogram", "categories": ["a", "b"]}
    return sdp.Survey.read({"epsilon": epsilon, "delta": 1e-6, "questions": {"way": way}})


def test_groups_are_pairs(tmp_path):
    path = tmp_path / "groups.toml"
    path.write_text(
        'epsilon = 1.0\ndelta = 1e-6\ntitle = "T"\nhonest = 0.8\n[questions.way]\ntask = "histogram"\n'
        'categories = ["car", "bus"]\nprotocol = "hadamard"\n[questions.home]\ntask = "count"\nby = "way"\n'
        '[questions.minutes]\ntask = "bins"\nedges = [0, 10, 60]\n'
    )
    survey, settings = read_survey(path)
    assert (settings.title, settings.honest) == ("T", 0.8)
    design = choose_protocols(survey, replace(settings, people=5000))
    assert design.questions[1].labels == ("car: no", "car: yes", "bus: no", "bus: yes")
    assert design.questions[0].protocol.name == "hadamard"
    assert design.questions[1].place_of("bus: no") == 2
    assert design.questions[2].labels == ("0 to 10", "10 to 60")


def test_the_device_checks_what_was_designed(made, tmp_path):
    _, collection = made
    device = sdp.live.Device(tmp_path / "outbox.sqlite", rng=sdp.SeededWords(1))
    assert device.check(collection.raw, collection.id) == collection
    false = collection.raw.replace(
        f'"epsilon":"{collection.pledge.epsilon}"'.encode(), b'"epsilon":"0.001"'
    )
    assert false != collection.raw
    with pytest.raises(sdp.WireError, match="epsilon is"):
        sdp.live.wire.Collection.read(false).verify()


def test_more_windows_have_keys_of_their_own():
    settings = Settings(people=60, windows=4, keys=2, seconds=10)
    design = choose_protocols(ask_way(epsilon=3.0), settings)
    secrets = sdp.live.ShufflerSecrets.generate(settings.keys)
    collection = create(
        design,
        settings,
        shuffler=secrets,
        analyzer_public=live.make_collection().analyzer_public,
        analyzer_sign=live.signing_public("analyzer"),
        now=0.0,
    )
    assert [(key.first, key.last) for key in collection.shuffler_keys] == [(0, 1), (2, 3)]
    assert replace(settings, keys=2) == settings
    with pytest.raises(sdp.DataError, match="keys for"):
        sdp.live.ShufflerSecrets.generate(5).public_keys(4)


def test_the_same_file_is_for_people_s_data_and_for_their_devices(tmp_path):
    path = tmp_path / "both.toml"
    path.write_text(SURVEY)
    survey, settings = read_survey(path)
    assert survey == sdp.Survey.load(path)
    names = [each.name for each in choose_protocols(survey, settings).questions]
    assert names == [each.name for each in survey.questions]
    path.write_text(SURVEY.replace('task = "count"', 'task = "count"\ncolour = "red"'))
    with pytest.raises(sdp.DataError, match="line 19"):
        read_survey(path)
    path.write_text(SURVEY.replace("people = 1000", "poeple = 1000"))
    with pytest.raises(sdp.DataError, match="poeple"):
        read_survey(path)


def test_no_floor_only_for_those_who_say_whom_they_trust(tmp_path):
    path = tmp_path / "survey.toml"
    text = 'epsilon = 1.0\ndelta = 1e-6\n[collection]\nlocal_epsilon = 9.0\n{}[questions.q]\ntask = "count"\ncolumn = "q"\n'
    path.write_text(text.format(""))
    with pytest.raises(
        sdp.ParameterError, match=r"local_epsilon=9.0 must be <= 8.*trust_the_shuffler"
    ):
        choose_protocols(*read_survey(path))
    path.write_text(text.format("trust_the_shuffler = true\n"))
    assert choose_protocols(*read_survey(path)).questions


def test_a_report_of_unknown_influence_is_refused(tmp_path, monkeypatch):
    from shuffledp.numerics import trees

    path = tmp_path / "survey.toml"
    path.write_text(
        'epsilon = 1.0\ndelta = 1e-6\n[questions.q]\ntask = "quantiles"\ncolumn = "q"\nlower = 0\nupper = 99\n'
        '[collection]\nnoise = "devices"\n'
    )
    design = choose_protocols(*read_survey(path))
    assert design.influence > 1
    monkeypatch.setattr(trees, "_LOOKED_AT", 99)
    with pytest.raises(sdp.UnsupportedError, match=r"'q': it is not known .* give fewer steps"):
        _ = design.influence
