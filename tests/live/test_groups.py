"""Sums and means by group in a live collection: the law of rounding and noise, its bytes, its intervals."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

import live_support as live
import shuffledp as sdp
from shuffledp import protocols
from shuffledp.core.analyzer import Tally
from shuffledp.core.domain import Reals
from shuffledp.engine.local import tally_counts
from shuffledp.live.analyzer import answer_question
from shuffledp.live.wire.question import Question
from shuffledp.planner.rows import foresee_estimate
from shuffledp.tasks import groups as module
from support import ALPHA

MAKERS = {
    "krr": protocols.krr.make_local,
    "hadamard": protocols.hadamard.make_local,
    "optimized_unary": protocols.unary.make_optimized,
    "subset_selection": protocols.subset_selection.make_local,
}


def ask(
    maker, *, epsilon=2.0, bits=64, task="mean_by_group", groups=("car", "bus"), ends=(-2.0, 6.0)
):
    made = maker(k=2 * len(groups), epsilon=epsilon, word_bits=bits)
    return Question(name="x", text="?", task=task, protocol=made, labels=groups, range=ends)


def estimate_groups(question, tally):
    return question.asks.convert(question.protocol.analyzer.estimate(tally))


def foresee_groups(question, counts):
    return question.asks.convert(foresee_estimate(question.protocol, counts))


@pytest.mark.parametrize("name", MAKERS)
def test_expected_sums_are_the_sums_exactly(name):
    """The rounding law and the noise law, as fractions: somebody in bus with 1.0 adds 1.0 to bus, 0 to car."""
    question = ask(MAKERS[name])
    place = question.place_of("bus: 1")
    ends = Reals(lower=-2.0, upper=6.0, steps=1)
    law = ends.rounding_law(int(question.split_places(np.array([place]))[1][0]), 64)
    analyzer, device = question.protocol.analyzer, question.protocol.randomizer
    expected = [Fraction(0)] * 4
    for end, chance in law.items():
        for (message,), mass in device.pmf(2 * 1 + end).items():
            for code, weight in enumerate(analyzer.weights(message)):
                expected[code] += chance * mass * weight
    assert -2 * expected[0] + 6 * expected[1] == 0
    assert -2 * expected[2] + 6 * expected[3] == 1
    assert expected[2] + expected[3] == 1


def test_every_tape_gives_the_declared_law():
    """All words of the device and of rounding, for a place in the middle of the range."""
    question = ask(protocols.krr.make_local, bits=5)
    place = question.place_of("bus: 1.0")  # 3/8 of the range
    tapes = np.stack(np.meshgrid(np.arange(32), np.arange(32)), axis=-1).reshape(-1, 2)
    sent = question.randomize(np.full(len(tapes), place), tapes.astype(np.uint64))
    law = {2: Fraction(5, 8), 3: Fraction(3, 8)}
    wanted = [
        sum(chance * question.protocol.randomizer.pmf(code)[(y,)] for code, chance in law.items())
        for y in range(4)
    ]
    assert [Fraction(int(n), 1024) for n in np.bincount(sent, minlength=4)] == wanted


def simulate(question, groups, numbers, runs, seed):
    lower, upper = question.range
    places = Reals(lower=lower, upper=upper, steps=1).places(np.tile(numbers, runs))
    joined = question.join_places(np.tile(groups, runs), places)
    words = sdp.SeededWords(seed).words(len(joined) * question.width).reshape(len(joined), -1)
    sent = question.randomize(joined, words).reshape(runs, -1)
    size = question.protocol.randomizer.k
    return [Tally(counts=np.bincount(row, minlength=size), users=len(numbers)) for row in sent]


def count_misses(question, tallies, truths):
    misses = 0
    for tally in tallies:
        low, high = estimate_groups(question, tally).interval(0.95)
        misses += int(((truths < low) | (truths > high)).sum())
    return misses


@pytest.mark.parametrize("task", ["mean_by_group", "sum_by_group"])
def test_intervals_cover_and_without_the_rounding_they_do_not(task, monkeypatch):
    question = ask(protocols.krr.make_local, epsilon=6.0, task=task)
    source = np.random.default_rng(5)
    groups, numbers = source.integers(0, 2, 600), source.uniform(1.5, 2.5, 600)
    sums = np.bincount(groups, weights=numbers)
    truths = sums if task == "sum_by_group" else sums / np.bincount(groups)
    tallies = simulate(question, groups, numbers, runs=500, seed=8)
    most = binom.isf(ALPHA, 1000, 0.05)
    assert count_misses(question, tallies, truths) <= most
    real = module.bound_sums
    monkeypatch.setattr(
        module, "bound_sums", lambda *given, step, most: real(*given, step=0.0 * step, most=most)
    )
    assert count_misses(question, tallies, truths) > most


SURVEY = {
    "epsilon": 1.0,
    "delta": 1e-8,
    "questions": {
        "way": {"task": "histogram", "categories": ["car", "bus"]},
        "minutes": {"task": "mean", "lower": 0, "upper": 240, "by": "way"},
        "cost": {"task": "sum", "lower": -5, "upper": 10, "by": "town", "groups": ["a", "b", "c"]},
    },
    "collection": {"people": 4000},
}


def test_a_survey_by_group_is_planned(tmp_path):
    collection = {"people": 4000, "local_epsilon": 2.0, "noise": "devices"}
    way, minutes, cost = live.plan({**SURVEY, "collection": collection}).questions
    assert (way.task, minutes.task, cost.task) == ("histogram", "mean_by_group", "sum_by_group")
    assert (minutes.labels, minutes.range) == (("car", "bus"), (0.0, 240.0))
    alone = {"cost": SURVEY["questions"]["cost"]}
    design = live.plan({**SURVEY, "questions": alone, "collection": collection})
    (question,) = design.questions
    assert question.labels == ("a", "b", "c")
    assert question.protocol.randomizer.domain.size == 6
    assert question.to_dict()["range"] == {"lower": "-5.0", "upper": "10.0"}


def test_answers_that_are_none():
    question = ask(protocols.krr.make_local)
    for answer, complaint in [
        ("train: 1", "must be GROUP: NUMBER"),
        ("car", "must be GROUP: NUMBER"),
        ("car: much", "must be a number"),
        ("car: 7", "x='7' must be from -2 to 6"),
        ("car: nan", "x='nan' must be a number"),
        ("car: 0x1", "must be a number"),
        ("car: 1_0", "must be a number"),
        ("car: \N{ARABIC-INDIC DIGIT THREE}", "must be a number"),
    ]:
        with pytest.raises(sdp.DataError, match=complaint):
            question.place_of(answer)
    for three in ("3", " 3 ", "+3", "3.", "3.0", "30e-1", "0.3E+1"):
        assert question.place_of(f"car:{three}") == question.place_of("car: 3")
    assert question.place_of("bus:-2") - question.place_of("car: -2") == (1 << 41) + 1


def test_rows_of_a_result_are_the_groups():
    question = ask(protocols.krr.make_local, epsilon=8.0)
    groups, numbers = np.repeat([0, 1], [300, 500]), np.repeat([2.0, 6.0], [300, 500])
    (tally,) = simulate(question, groups, numbers, runs=1, seed=3)
    rows = answer_question(question, tally)["estimate"]
    assert [row["label"] for row in rows] == ["car", "bus"]
    assert all(row["low"] <= truth <= row["high"] for row, truth in zip(rows, [2, 6], strict=True))


@pytest.mark.parametrize("task", ["sum_by_group", "mean_by_group"])
def test_a_law_without_moments_has_certified_intervals_too(task):
    """Hadamard messages in several blocks: the intervals hold the truth, and are as long as foreseen."""
    groups = tuple(f"g{place}" for place in range(8))
    question = ask(
        protocols.hadamard.make_local, epsilon=3.0, task=task, groups=groups, ends=(0.0, 10.0)
    )
    counts = (
        np.repeat([40, 160], 8).reshape(2, 8).T.ravel()
    )  # 40 at the lower end, 160 at the upper
    rng, held, runs = sdp.SeededWords(11), 0, 60
    truth = 1600.0 if task == "sum_by_group" else 8.0
    for _ in range(runs):
        tally = tally_counts(question.protocol, counts, rng)
        estimate = estimate_groups(question, tally)
        assert not module.has_moments(estimate.error.bins.error)
        low, high = estimate.interval(0.8)
        held += int(np.sum((low <= truth) & (truth <= high)))
    assert binom.cdf(held, 8 * runs, 0.8) > ALPHA
    foreseen = foresee_groups(question, counts).interval(0.8)
    assert np.allclose(high - low, foreseen[1] - foreseen[0], rtol=0.2)


@pytest.mark.parametrize("ends", [(1.0, 3.0), (-2.0, 6.0)])
@pytest.mark.parametrize("task", ["mean_by_group", "sum_by_group"])
def test_what_is_foreseen_is_what_is_drawn(task, ends):
    """Everybody at one of the ends: the estimates scatter as foreseen, and the intervals are not idle."""
    question = ask(protocols.krr.make_local, epsilon=3.0, task=task, ends=ends)
    counts = np.array([150, 250, 120, 80])
    groups, bins = np.repeat([0, 0, 1, 1], counts), np.repeat([0, 1, 0, 1], counts)
    tallies = simulate(question, groups, np.array(ends)[bins], runs=300, seed=4)
    drawn = np.array([estimate_groups(question, tally).value for tally in tallies])
    foreseen = foresee_groups(question, counts)
    table = counts.reshape(2, 2)
    sums = table @ np.array(ends)
    truth = sums if task == "sum_by_group" else sums / table.sum(axis=1)
    assert np.allclose(foreseen.value, truth)
    assert np.all(np.abs(drawn.mean(axis=0) - truth) < 5 * drawn.std(axis=0) / np.sqrt(300))
    # The bins' noise, and at most a variance of people / 4 for the rounding, which had nothing to do here.
    rounding = (ends[1] - ends[0]) ** 2 * table.sum(axis=1) / 4
    rounding = rounding if task == "sum_by_group" else rounding / table.sum(axis=1) ** 2
    noise = np.sqrt(foreseen.stderr**2 - rounding)
    apart = drawn.std(axis=0) / noise
    assert np.all((apart > 0.7) & (apart < 1.05))  # bins may be correlated: that counts as 4/3
    low, high = foreseen.interval(0.95)
    missed = np.mean((drawn < low) | (drawn > high))
    assert missed <= binom.isf(ALPHA, 600, 0.05) / 600
    seen = [estimate_groups(question, tally).interval(0.95) for tally in tallies[:20]]
    lengths = np.mean([each.high - each.low for each in seen], axis=0)
    assert np.allclose(high - low, lengths, rtol=0.1)
    closer = foreseen.interval(0.5)
    assert np.all((closer.low > low) & (closer.high < high))
