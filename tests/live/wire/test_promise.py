"""A browser recomputes the promise of noise of the servers: it never believes what Python does not."""

import json
import subprocess
from dataclasses import replace
from fractions import Fraction

import pytest
from scipy.stats import binom

import live_support as live
from live import server_support
from live.wire.test_vectors import CLIENT, NODE, needs_node
from shuffledp.accounting import base
from shuffledp.accounting.amplify import profile
from shuffledp.accounting.base import bound_generator
from shuffledp.core.errors import ShuffledpError
from shuffledp.live.design import choose_protocols, make_collection
from shuffledp.live.wire import promise
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.promise import compute_guarantee
from shuffledp.live.wire.strict import write_canonical

COLLECTION = live.make_collection()
FIVE = {"task": "histogram", "column": "way", "categories": ["a", "b", "c", "d", "e"]}
YES = {"task": "count", "column": "home"}
HALF = {"task": "median", "column": "age", "lower": 0, "upper": 120}
MANY = {"task": "histogram", "column": "town", "categories": [f"{each}" for each in range(5600)]}
NONE = {"local_epsilon": "none", "trust_the_shuffler": True}
FLOOR = {"noise": "servers"}
PLANS = {
    "bins": ({"a": FIVE}, NONE),
    "count": ({"a": YES}, NONE),
    "equal weights": ({"a": FIVE, "b": YES}, NONE),
    "weights": ({"a": {**FIVE, "weight": 3}, "b": YES}, NONE),
    "weeks": ({"a": FIVE}, {**NONE, "windows": 52, "reports_per_device": 52}),
    "floor": ({"a": FIVE}, FLOOR),
    "cells": ({"a": HALF}, FLOOR),
    "one question": ({"a": FIVE, "b": YES}, {**FLOOR, "one_question": True}),
    "weeks with a floor": ({"a": FIVE}, {**FLOOR, "windows": 3, "reports_per_device": 3}),
    "hashed": ({"a": MANY}, NONE),
    "hashed with a floor": ({"a": MANY}, FLOOR),
    "one question, hashed": ({"a": MANY, "b": YES}, {**FLOOR, "one_question": True}),
}
UNDECIDED = {"weights", "weeks with a floor"}
"""False promises that are called claimed, not false, unless one answer alone breaks them."""
CHANGES = [{}, {"epsilon": "1.01"}, {"epsilon": "0.9"}, {"delta": "1e-9"}, {"delta": "1e-100"}]
READ = """
import { Collection } from "./src/index.js";
let text = "";
for await (const part of process.stdin) text += part;
const found = [];
for (const raw of JSON.parse(text)) {
  const bytes = new TextEncoder().encode(raw);
  const id = Buffer.from(await crypto.subtle.digest("SHA-256", bytes)).toString("hex");
  const start = process.cpuUsage();
  const said = await Collection.read(bytes, id).then((each) => each.checked, (error) => error.reason);
  found.push([said, process.cpuUsage(start).user / 1e6]);
}
console.log(JSON.stringify(found));
"""


def ask_javascript(documents):
    done = subprocess.run(
        [NODE, "--input-type=module", "--eval", READ],
        cwd=CLIENT,
        input=json.dumps([raw.decode() for raw in documents]),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write(name):
    questions, collection = PLANS[name]
    content = {"epsilon": 1.0, "delta": 1e-8, "questions": questions}
    content["collection"] = {"people": 500, "url": "https://survey.example", **collection}
    survey, settings = live.read_tables(content)
    return make_collection(choose_protocols(survey, settings), settings)[0].raw


def change(raw, **promise):
    content = json.loads(raw)
    content["promise"] |= promise
    return write_canonical(content)


def holds(raw):
    try:
        Collection.read(raw).verify()
    except ShuffledpError:
        return False
    return True


@needs_node
def test_a_browser_believes_what_python_recomputes_and_nothing_else():
    names = list(PLANS)
    plans = [write(name) for name in names]
    documents = [change(raw, **more) for raw in plans for more in CHANGES]
    found = ask_javascript(documents)
    assert max(seconds for _, seconds in found) < 1
    for place, (raw, (said, _)) in enumerate(zip(documents, found, strict=True)):
        name, more = names[place // len(CHANGES)], CHANGES[place % len(CHANGES)]
        if more == {"delta": "1e-100"}:  # too small for the words of a server
            assert said in ("promise", *[False] * (name in UNDECIDED)), (name, more)
            continue
        if holds(raw):
            assert said is True, (name, more)
        else:
            assert said in ("promise", *[False] * (name in UNDECIDED)), (name, more)


HOSTILE = [
    {"kind": "bins", "bins": 5, "rate": "1e-300", "most": 1},
    {"kind": "bins", "bins": 5, "rate": "1e-10", "most": 1},
    {"kind": "bins", "bins": 5, "rate": "1e300", "most": 36},
    {"kind": "bins", "bins": 5, "rate": "0.5", "most": 35},
    {"kind": "bins", "bins": 5, "rate": "0.50001", "most": 36},
    {"kind": "bins", "bins": 5, "rate": "1.0", "most": 36},
    {"kind": "count", "bins": 5, "rate": "0.5", "most": 36},
]
"""For five bins; and a hashed law, with one message in two hundred fewer than it needs."""


@needs_node
def test_laws_that_promise_too_much_are_refused_by_a_browser():
    good = write("bins")
    documents = []
    for law in HOSTILE:
        content = json.loads(good)
        content["questions"][0]["noise"] = law
        documents.append(write_canonical(content))
    assert [said for said, _ in ask_javascript([good, *documents])] == [
        True,
        *["promise"] * 6,
        "document",
    ]
    hashed = json.loads(write("hashed"))
    hashed["questions"][0]["noise"]["messages"] *= 199
    hashed["questions"][0]["noise"]["messages"] //= 200
    documents.append(write_canonical(hashed))
    assert ask_javascript(documents[-1:])[0][0] == "promise"
    for raw in documents:
        with pytest.raises(ShuffledpError):
            Collection.read(raw).verify()


class EnoughError(Exception):
    """What is looked for was seen."""


def watch_words(monkeypatch, questions, pledge, calls=1):
    """(people, words) whose generator the promise pays for first."""
    seen = []

    def pay(people, words, _):
        seen.append((people, words))
        if len(seen) == calls:
            raise EnoughError
        return Fraction(0)

    for each in (promise._compute, promise._compute_one, promise._compute_served):
        each.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(base, "bound_generator", pay)
        with pytest.raises(EnoughError):
            compute_guarantee(questions, pledge)
    return seen


def test_every_word_is_paid_for(monkeypatch):
    """Those of all questions; of the choice of one, one more; of a server, two for each bin, and those of a device."""
    asked, pledge = COLLECTION.questions, COLLECTION.pledge
    words = sum(each.width for each in asked)
    twice = replace(pledge, reports_per_device=2, composed=True)
    alone = replace(pledge, one_question=True)
    for made, paid in ((pledge, words), (twice, 2 * words), (alone, 1 + words)):
        assert watch_words(monkeypatch, asked, made) == [(20, paid)]
    served = server_support.COLLECTION
    words = sum(each.width for each in served.questions)
    bins = sum(each.noise.bins for each in served.questions)
    found = watch_words(monkeypatch, served.questions, served.pledge, 2)
    assert found == [(1, 2 * bins), (1, words + 1)]
    hashed = (
        server_support.hashed_questions()
    )  # a word for each message, and two for each bin of the count
    words = sum(each.width for each in hashed)
    found = watch_words(monkeypatch, hashed, served.pledge, 2)
    assert found == [(1, 40 + 2 * 2), (1, words + 1)]


def test_people_hide_among_those_who_answer_the_same_question():
    """As many of the others as there are, except with a hundredth of delta: the weakest question counts."""
    pledge = replace(COLLECTION.pledge, one_question=True, min_batch=60)
    stated = compute_guarantee(COLLECTION.questions, pledge)
    words = 1 + sum(each.width for each in COLLECTION.questions)
    made = [each.protocol for each in COLLECTION.questions]
    most = max(each.randomizer.epsilon0 for each in made)
    left = float(Fraction(pledge.delta) - bound_generator(60, words, most))
    others = next(k for k in range(60) if binom.cdf(k, 59, 0.5) > left / 100)
    curves = [profile(randomizer=each, n=1 + others, honest=1.0) for each in made]
    weakest = max(each.best(0.99 * left).epsilon for each in curves)
    assert stated.epsilon == pytest.approx(weakest, rel=1e-6)
    assert (stated.delta, stated.honest) == (pledge.delta, 60)


@needs_node
def test_a_browser_calls_claimed_what_takes_the_composition_of_hashed_answers():
    both = server_support.hashed_questions()
    documents = [server_support.make_collection(asked=asked).raw for asked in (both[:1], both)]
    assert [holds(raw) for raw in documents] == [True, True]
    assert [said for said, _ in ask_javascript(documents)] == [True, False]


@pytest.mark.parametrize(("composed", "times"), [(True, 7), (False, 1)])
def test_words_of_a_server_count_in_every_window_that_is_composed(composed, times):
    pledge = replace(
        server_support.make_collection().pledge,
        epsilon=1.0,
        delta=1e-20,
        reports_per_device=7,
        composed=composed,
    )
    left = Fraction(promise.set_served_aside(10**6, 9, pledge))
    added = bound_generator(1, 10**6 * times, 1.0) + bound_generator(1, 9, 1.0)
    assert added > 0
    assert Fraction(1e-20) - left == pytest.approx(float(added), rel=1e-6, abs=0)
