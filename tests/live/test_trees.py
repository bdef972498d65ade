"""Quantiles, distribution functions and ranges of a live collection: one random level of a tree in each report."""

import json
from pathlib import Path

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp import protocols
from shuffledp.live.analyzer import answer_question, count_messages
from shuffledp.live.design import Settings, choose_protocols
from shuffledp.live.serve.operator import Planner
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.promise import Pledge
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.report import encode_many

PLEDGE = Pledge(epsilon=4.0, delta=1e-2, honest=1.0, min_batch=20, local_epsilon=4.0)


def ask(task, at=None, **given):
    grid = {"lower": 0, "upper": 120} | given
    made = protocols.local_tree.make_local(**grid, epsilon=3.0, task=task, at=at)
    return Question(name="age", text="How old are you?", task=task, protocol=made)


def collect(question, codes, seed=3):
    collection = live.make_collection(questions=(question,), pledge=PLEDGE)
    plains = encode_many(collection, {"age": codes}, sdp.SeededWords(seed))
    counted = count_messages(collection, np.concatenate(plains))
    assert counted.dropped == {}
    return answer_question(question, counted.tallies[0])["estimate"]


@pytest.mark.parametrize(
    ("task", "at", "widest", "truth"),
    [
        ("quantiles", (0.25, 0.5, 0.75), 12, lambda ages: np.quantile(ages, (0.25, 0.5, 0.75))),
        ("cdf", (18, 65), 0.15, lambda ages: [np.mean(ages <= 18), np.mean(ages <= 65)]),
        ("range", (18, 65), 3000, lambda ages: [np.sum((ages >= 18) & (ages <= 65))]),
        ("std", None, 25, lambda ages: [np.std(ages)]),
    ],
)
def test_intervals_hold_the_truth(task, at, widest, truth):
    """Through randomizing, bytes and counting; the seed is fixed, and intervals are at 95 %."""
    ages = np.floor(120 * np.random.default_rng(4).beta(2, 4, 20_000)).astype(np.int64)
    rows = collect(ask(task, at), ages)
    for row, wanted in zip(rows, truth(ages), strict=True):
        assert row["low"] <= wanted <= row["high"], (row, wanted)
        assert row["high"] - row["low"] < widest


def test_the_document_says_everything_and_reads_back():
    question = ask("quantiles", (0.5,), lower=0.0, upper=10.0, steps=40)
    collection = live.make_collection(questions=(question,), pledge=PLEDGE)
    again = Collection.read(collection.raw).questions[0]
    assert again.protocol.randomizer == question.protocol.randomizer
    law = json.loads(collection.raw)["questions"][0]["law"]
    assert law["sign"]["threshold"] == str(question.protocol.randomizer.sign.threshold)
    assert law["domain"] == {"type": "Cells", "lower": "0.0", "upper": "10.0", "cells": "40"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"shape":[', '"shape":[7,'),
        ('"shape":[', '"shape":[[2],'),
        ('"at":["0.5"]', '"at":[]'),
        ('"at":["0.5"]', '"at":["1.5"]'),
        ('"task":"quantiles"', '"task":"mean"'),
        ('"task":"quantiles"', '"task":"histogram"'),
    ],
)
def test_documents_with_another_tree_are_refused(old, new):
    collection = live.make_collection(questions=(ask("quantiles", (0.5,)),), pledge=PLEDGE)
    raw = collection.raw.decode()
    assert old in raw
    with pytest.raises(sdp.WireError, match="document"):
        Collection.read(raw.replace(old, new, 1).encode())


def test_answers_are_numbers_of_the_domain():
    whole, real = ask("quantiles"), ask("quantiles", lower=0.0, upper=1.0, steps=4)
    assert [whole.place_of(answer) for answer in ("0", 37, "120.0")] == [0, 37, 120]
    assert [real.place_of(answer) for answer in (0, "0.25", 0.3, 1)] == [0, 0, 1, 3]
    assert real.ends == (0.0, 1.0)
    for question, answer in [(whole, "3.5"), (whole, 121), (real, 1.1), (real, "x")]:
        with pytest.raises(sdp.DataError):
            question.place_of(answer)


def test_one_message_moves_a_rank_by_no_more_than_its_influence():
    """Every message of a small tree in place of every other one, on one tally."""
    question = ask("range", (0, 2), lower=0, upper=6)
    analyzer, device = question.protocol.analyzer, question.protocol.randomizer
    rng = np.random.default_rng(1)
    counts = rng.integers(5, 9, device.alphabet)
    prefixes = []
    for message in range(device.alphabet):
        changed = counts.copy()
        changed[message] += 1
        tally = sdp.Tally(counts=changed, users=int(changed.sum()))
        prefixes.append(analyzer.fit(tally).prefixes)
    moved = np.ptp(np.array(prefixes), axis=0).max()
    rank = protocols.local_tree.make_local(lower=0, upper=6, epsilon=3.0).analyzer.influence()
    assert 0.5 * rank < moved <= rank * (1 + 1e-12)
    assert analyzer.influence() == pytest.approx(2 * rank)


def test_the_planner_and_the_desk_know_trees(tmp_path):
    content = {
        "epsilon": 1.0,
        "delta": 1e-8,
        "questions": {"age": {"task": "quantiles", "lower": 0, "upper": 120, "at": [0.5]}},
        "collection": {"people": 5000},
    }
    survey = sdp.Survey.read(content)
    for noise, name in (("devices", "local_tree"), ("servers", "server_noise")):
        settings = Settings(people=5000, noise=noise)
        design = choose_protocols(survey, settings)
        assert design.questions[0].protocol.name == name
        assert design.pledge.local_epsilon <= 3.0
    (shown,) = Planner().preview(content)["questions"]
    assert shown["lower"] == 0.0
    assert shown["estimate"][0]["low"] <= shown["estimate"][0]["value"]
    grouped = {**content["questions"]["age"], "by": "way", "groups": ["car", "bus"]}
    with pytest.raises(sdp.DataError, match="by group"):
        live.plan({**content, "questions": {"age": grouped}})


def test_a_number_on_an_edge_is_in_the_cell_below_here_in_javascript_and_in_the_words_of_the_protocol():
    """The same numbers as in clients/js/test/device.test.js."""
    from shuffledp.core.domain import Cells

    cells = Cells(lower=0.1, upper=0.7, cells=6)
    assert cells.codes([0.1, 0.2, 0.20000000000000004, 0.4, 0.7]).tolist() == [0, 0, 1, 2, 5]
    root = Path(__file__).parents[2]
    other = (root / "clients/js/test/device.test.js").read_text(encoding="utf-8")
    assert (
        "[0.1, 0.2, 0.20000000000000004, 0.4, 0.7].map((value) => cellOf(cells, value)), [0, 0, 1, 2, 5]"
        in other
    )
    words = " ".join((root / "docs/theory/live-protocol.md").read_text(encoding="utf-8").split())
    assert "a number on an edge belongs to the part below, `lower` to the first" in words
