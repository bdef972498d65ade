"""A report that answers one random question with the whole floor: its law, its promise, its intervals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import live_support as live
import shuffledp as sdp
from live.wire.vectors import survey_of_one
from shuffledp import protocols
from shuffledp.accounting import amplify
from shuffledp.live.analyzer import answer_question, count_messages
from shuffledp.live.design import Settings, choose_protocols, foresee_error
from shuffledp.live.wire import promise
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.promise import Pledge, compute_guarantee
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.report import choose_uniformly, encode_many
from shuffledp.protocols import one_question
from support import ALPHA

PLEDGE = Pledge(
    epsilon=4.0, delta=1e-2, honest=1.0, min_batch=90, local_epsilon=3.0, one_question=True
)


def ask(name, epsilon=3.0):
    if name == "minutes":
        made = protocols.duchi.make_local(lower=0.0, upper=240.0, steps=16, epsilon=epsilon)
        return Question(name=name, text="?", task="mean", protocol=made)
    if name == "way":
        made = protocols.krr.make_local(k=3, epsilon=epsilon)
        return Question(name=name, text="?", task="histogram", protocol=made, labels=tuple("abc"))
    made = protocols.rr.make_local(epsilon=epsilon)
    return Question(name=name, text="?", task="count", protocol=made, labels=("no", "yes"))


@pytest.mark.parametrize("size", [2, 3, 7, 64])
def test_every_question_has_its_share_of_the_words(size):
    """The words of a question are an interval; its ends say how many there are."""
    starts = [-(-(part << 64) // size) for part in range(size)]
    first = choose_uniformly(np.array(starts, dtype=np.uint64), size)
    last = choose_uniformly(
        np.array([*(each - 1 for each in starts[1:]), 2**64 - 1], dtype=np.uint64), size
    )
    assert first.tolist() == last.tolist() == list(range(size))
    shares = np.diff([*starts, 1 << 64])
    assert min(shares) >= (1 << 64) // size


@pytest.mark.parametrize("epsilon0", [1.0, 3.0])
def test_the_promise_covers_the_exact_mixture(epsilon0):
    """delta at the promised epsilon, with as many people at the question as chance has it: at most what is stated."""
    questions = (ask("home", epsilon0), ask("more", epsilon0))
    found = compute_guarantee(questions, PLEDGE)
    device = questions[0].protocol.randomizer
    mixed = math.fsum(
        binom.pmf(others, 89, 0.5)
        * sdp.profile(randomizer=device, n=1 + others, honest=1.0).delta(found.epsilon)
        for others in range(90)
    )
    assert mixed <= PLEDGE.delta
    alone = compute_guarantee(questions[:1], replace(PLEDGE, one_question=False, min_batch=90))
    assert alone.epsilon < found.epsilon  # people hide among half of the others only


def simulate(collection, places, seed):
    (plains,) = encode_many(collection, places, sdp.SeededWords(seed))
    counted = count_messages(collection, plains)
    assert counted.dropped == {}
    assert sum(tally.users for tally in counted.tallies) == len(plains)
    return counted.tallies


def count_misses(collection, places, truths, runs):
    misses = 0
    people = len(places["home"])
    for seed in range(runs):
        tallies = simulate(collection, places, seed)
        for question, tally in zip(collection.questions, tallies, strict=True):
            rows = answer_question(question, tally, people)["estimate"]
            for row, truth in zip(rows, truths[question.name], strict=True):
                misses += not row["low"] <= truth <= row["high"]
    return misses


def test_intervals_cover_and_without_the_sample_they_do_not(monkeypatch):
    """Five numbers in each of 60 runs; each interval misses with probability 5 % at most."""
    asked = tuple(ask(name, 6.0) for name in ("way", "home", "minutes"))
    pledge = replace(PLEDGE, epsilon=10.0, local_epsilon=6.0)
    collection = live.make_collection(questions=asked, pledge=pledge)
    source, people = np.random.default_rng(2), 1500
    minutes = source.choice([0.0, 240.0], people)
    places = {
        "way": source.choice(3, people, p=[0.5, 0.3, 0.2]),
        "home": source.integers(0, 2, people),
        "minutes": asked[2].protocol.randomizer.domain.places(minutes),
    }
    truths = {
        "way": np.bincount(places["way"], minlength=3),
        "home": [places["home"].sum()],
        "minutes": [minutes.mean()],
    }
    most = binom.isf(ALPHA, 5 * 60, 0.05)
    assert count_misses(collection, places, truths, 60) <= most
    monkeypatch.setattr(one_question, "bound_sampling", lambda low, high, *_: (low, high))
    assert count_misses(collection, places, truths, 60) > most


def test_the_more_accurate_way_is_taken(tmp_path):
    """QUERIES section 1: with floor 3 and six yes-or-no questions 1.26 / sqrt(n) instead of 1.98 / sqrt(n)."""
    content = {
        "epsilon": 1.0,
        "delta": 1e-8,
        "questions": {f"q{place}": {"task": "count"} for place in range(6)},
    }
    survey = sdp.Survey.read(content)
    settings = Settings(people=20_000)
    design = choose_protocols(survey, settings)
    assert design.pledge.one_question
    assert design.pledge.local_epsilon == 3.0
    assert foresee_error(design, 20_000) * math.sqrt(20_000) == pytest.approx(1.2573, abs=1e-3)
    every = replace(settings, one_question=False)
    together = choose_protocols(survey, every)
    assert foresee_error(together, 20_000) * math.sqrt(20_000) == pytest.approx(1.9793, abs=1e-3)
    first, second, *_ = survey.questions
    heavy = replace(survey, questions=(replace(first, weight=2.0), second))
    design = choose_protocols(heavy, settings)
    assert not design.pledge.one_question


def test_a_report_has_one_message_and_one_size():
    collection = survey_of_one()
    assert collection.slots == 1
    assert collection.verify().epsilon <= collection.pledge.epsilon
    places = {"way": np.zeros(300, int), "home": np.ones(300, int), "minutes": np.zeros(300, int)}
    (plains,) = encode_many(collection, places, sdp.SeededWords(1))
    kinds = np.bincount(plains[:, 0], minlength=3)
    assert plains.shape == (300, 1 + collection.message_size)
    assert (kinds > 60).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"slots":1', '"slots":3'),
        ('"task":"mean"', '"task":"quantiles"'),
        ('"one_question":true', '"one_question":false'),
    ],
)
def test_documents_of_one_question_are_strict(old, new):
    raw = survey_of_one().raw.decode()
    assert old in raw
    with pytest.raises(sdp.WireError):
        Collection.read(raw.replace(old, new, 1).encode())


def test_one_question_is_not_composed_over_reports():
    windows = sdp.live.wire.Windows(start=1000, seconds=100, count=2, grace=10)
    pledge = replace(PLEDGE, reports_per_device=2)
    with pytest.raises(sdp.WireError, match="not composed"):
        live.make_collection(questions=(ask("home"), ask("way")), pledge=pledge, windows=windows)


def test_nobody_computes_a_composed_promise_of_one_question():
    """Whoever asks for one gets no epsilon of a single report instead."""
    pledge = replace(PLEDGE, one_question=True, composed=True, reports_per_device=2)
    with pytest.raises(sdp.UnsupportedError, match="report by report"):
        compute_guarantee([ask("way", 3.0), ask("home", 3.0)], pledge)
    assert compute_guarantee([ask("way", 3.0)], replace(pledge, reports_per_device=1)).epsilon > 0


def test_delta_is_split_between_few_people_at_a_question_and_the_rest(monkeypatch):
    """What chance may take, and what is left for the people at the question, add up to delta and no more."""
    seen, real = [], amplify.profile

    def note(**given):
        curve = real(**given)
        seen.append(given["n"])
        return curve

    monkeypatch.setattr(amplify, "profile", note)
    questions = tuple(ask(name, 2.5) for name in ("home", "more", "third"))
    promise._compute_one.cache_clear()
    found = compute_guarantee(questions, PLEDGE)
    promise._compute_one.cache_clear()
    others = min(seen) - 1
    missed = binom.cdf(others - 1, 89, (2**64 // 3) / 2**64)
    device = questions[0].protocol.randomizer
    spent = missed + sdp.profile(randomizer=device, n=1 + others, honest=1.0).delta(found.epsilon)
    assert 0 < missed <= PLEDGE.delta / 100
    assert 0.97 * PLEDGE.delta < spent <= PLEDGE.delta
