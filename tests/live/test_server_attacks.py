"""Attacks on servers that add noise: each leaves what `docs/theory/live-threats.md` says that it leaves."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from live.server_support import (
    COLLECTION,
    make_collection,
    open_analyzer,
    open_shuffler,
    questions,
)
from live.test_roles import refused
from live.test_seals import LATE, PEOPLE, fetch, fill
from shuffledp.live.serve.analyzer import Contact, write_metrics
from shuffledp.live.serve.journal import Health, Journal
from shuffledp.live.shuffler import draw_dummies, seal_plains
from shuffledp.live.wire.report import Manifest, open_inner, seal_inner, sort_records

CHOICE = make_collection(asked=questions()[:1])
"""One question with three bins, L = 4."""
LAW = CHOICE.questions[0].noise


def people(collection, ways=(0, 0, 1, 2, 2, 2), window=0):
    """Messages of people without a floor: their answers."""
    return [seal_inner(collection, window, bytes([0, way])) for way in ways]


def hand_in(analyzer, records, reports, window=0, collection=CHOICE):
    """A batch that the shuffler signed, whatever it is."""
    rows = np.frombuffer(b"".join(records), dtype=np.uint8).reshape(-1, collection.inner_size)
    batch = rows[sort_records(rows)].tobytes()
    import hashlib

    manifest = Manifest(
        collection_id=collection.id,
        window=window,
        reports=reports,
        messages=len(records),
        sha256=hashlib.sha256(batch).digest(),
    )
    analyzer.take(manifest.raw, manifest.sign(live.secret("shuffler")), lambda _: batch)
    return analyzer.advance(window)


def say(code, times, collection=CHOICE, window=0):
    return [seal_inner(collection, window, bytes([0, code])) for _ in range(times)]


def values(analyzer, window=0):
    (result,) = [each for each in analyzer.results() if each["window"] == window]
    return [row["value"] for row in result["questions"]["way"]["estimate"]]


def test_a_shuffler_that_adds_nothing_leaves_readers_the_analyzers_noise(tmp_path):
    """What is published are the exact counts, which the analyzer sees, and its own draw; nobody else's noise is there."""
    analyzer = open_analyzer(tmp_path / "a", CHOICE, rng=sdp.SeededWords(7))
    assert hand_in(analyzer, people(CHOICE), 6) == "published"
    own = LAW.draw(sdp.SeededWords(7))
    assert own.tolist() != [4, 4, 4]
    assert values(analyzer) == (np.array([2, 1, 3]) + own - 2 * LAW.most).tolist()


def test_a_count_without_its_dummies_is_refused(tmp_path):
    """Their number is fixed: 2 L, neither more nor fewer."""
    analyzer = open_analyzer(tmp_path / "a")
    records = [inner for inners in PEOPLE for inner in inners]
    assert refused(hand_in, analyzer, records, 12, collection=COLLECTION) == "manifest"


@pytest.mark.parametrize("more", [0, 1])
def test_a_shuffler_that_adds_more_than_it_may_is_refused(tmp_path, more):
    """Twice its dummies, or all in one bin: up to 2 k L of them, which is what it may move an answer by."""
    analyzer = open_analyzer(tmp_path / "a", CHOICE, rng=sdp.SeededWords(7))
    most = CHOICE.dummies[1]
    assert most == 2 * 3 * LAW.most
    records = people(CHOICE) + say(0, most + more)
    if more:
        assert refused(hand_in, analyzer, records, 6) == "manifest"
        return
    assert hand_in(analyzer, records, 6) == "published"
    own = LAW.draw(sdp.SeededWords(7))
    assert values(analyzer) == (np.array([2 + most, 1, 3]) + own - 2 * LAW.most).tolist()


def test_a_shuffler_that_adds_twice(tmp_path):
    source = sdp.SeededWords(1)
    twice = [draw_dummies(COLLECTION, source) for _ in range(2)]
    records = [inner for inners in PEOPLE for inner in inners]
    records += [row.tobytes() for plains in twice for row in seal_plains(COLLECTION, 0, plains)]
    analyzer = open_analyzer(tmp_path / "a")
    assert refused(hand_in, analyzer, records, 12, collection=COLLECTION) == "manifest"


def test_dummies_that_are_replayed_count_once_in_their_window_and_never_in_another(tmp_path):
    drawn = draw_dummies(CHOICE)
    while len(drawn) < 6:  # as in one window of fifty
        drawn = draw_dummies(CHOICE)
    added = [row.tobytes() for row in seal_plains(CHOICE, 0, drawn)]
    analyzer = open_analyzer(tmp_path / "a", CHOICE)
    assert hand_in(analyzer, people(CHOICE) + added[:6] + added[:6], 6) == "published"
    assert analyzer.results()[0]["dropped"] == {"copy": 6}
    assert hand_in(analyzer, people(CHOICE, window=1) + added, 6, window=1) == "published"
    assert analyzer.results()[1]["dropped"] == {"undecryptable": len(added)}
    assert analyzer.count_dropped(0) == {"copy": 6}
    metrics = write_metrics(
        analyzer, {}, Health(Journal("analyzer", write=lambda _: None)), Contact()
    )
    assert 'shuffledp_messages_dropped_total{reason="copy"} 6\n' in metrics
    assert f'shuffledp_messages_dropped_total{{reason="undecryptable"}} {len(added)}\n' in metrics
    analyzer.result_path(0).unlink()
    assert analyzer.count_dropped(0) == {}


def test_equal_counts_sealed_anew_are_another_batch(tmp_path):
    """So the seal log has the bytes, not the counts: two such batches have people's messages in common."""
    plains = draw_dummies(CHOICE, sdp.SeededWords(1))
    mine = set(people(CHOICE))
    one, two = ({row.tobytes() for row in seal_plains(CHOICE, 0, plains)} for _ in range(2))
    assert (one | mine) & (two | mine) == mine


def diverge(first, second, epsilon):
    """The hockey-stick divergence of two exact laws, both ways."""
    bound = Fraction(math.exp(epsilon))
    return max(
        sum((max(mass - bound * q.get(seen, 0), 0) for seen, mass in p.items()), Fraction(0))
        for p, q in ((first, second), (second, first))
    )


def shift(law, counts):
    return {
        tuple(n + c for n, c in zip(seen, counts, strict=True)): mass for seen, mass in law.items()
    }


@pytest.mark.parametrize("kind", ["histogram", "count"])
def test_a_shuffler_that_knows_its_noise_and_drops_all_but_one_keeps_the_analyzers(kind):
    """It reads the published result, knows every other message, and is left with one answer and the analyzer's noise.

    For every two answers the exact divergence is within the promise, and the promise is not idle.
    """
    question = questions(rates=(0.5, 1.0), most=(3, 3))[kind == "count"]
    law = question.noise
    delta = float(law.delta) * (1 + 1e-9)
    pledge = {"epsilon": 1.0, "delta": delta}
    collection = make_collection(asked=(question,), pledge=pledge)  # refused if it did not hold
    exact, epsilon = law.pmf(), collection.pledge.epsilon
    worst = Fraction(0)
    for one, other in itertools.permutations(range(law.bins), 2):
        laws = [
            shift(exact, [int(each == bin) for bin in range(law.bins)]) for each in (one, other)
        ]
        worst = max(worst, diverge(*laws, epsilon))
    assert Fraction(delta) * Fraction(99, 100) < worst <= Fraction(delta)
    with pytest.raises(sdp.ShuffledpError, match="promise"):
        make_collection(asked=(question,), pledge={**pledge, "delta": delta * 0.99})


def test_an_analyzer_among_sybils_keeps_the_shufflers_noise(tmp_path):
    """n - 1: whoever made up all other people sees one answer among the dummies, as the law above says; and no more.

    Here: two possible answers of the victim, and the same batch is possible under both.
    """
    shuffler = open_shuffler(tmp_path / "s", CHOICE)
    fill(shuffler, [[inner] for inner in people(CHOICE)])
    shuffler.tick(LATE)
    _, _, batch = fetch(shuffler)
    size = CHOICE.inner_size
    opened = [
        open_inner(CHOICE, 0, batch[place : place + size], live.secret("inner"))
        for place in range(0, len(batch), size)
    ]
    counts = [opened.count(bytes([0, bin])) for bin in range(3)]
    known = [2, 1, 2]  # all but the last person, who said 2
    added = [total - mine for total, mine in zip(counts, known, strict=True)]
    assert sum(added) == len(opened) - 5
    assert all(0 <= number <= 2 * LAW.most + 1 for number in added)


def test_both_servers_together_read_the_answer_if_there_is_no_floor(tmp_path):
    """What trust_the_shuffler says, and every table of such a collection."""
    shuffler = open_shuffler(tmp_path / "s", CHOICE)
    fill(shuffler, [people(CHOICE, (2,))])
    (inner,) = shuffler.store.load(0)
    assert open_inner(CHOICE, 0, inner, live.secret("inner")) == bytes([0, 2])
    told = [what for who, what in sdp.live.describe_trust(CHOICE) if "together" in who]
    assert told == ["nothing: there is no floor, and the messages are the answers"]
    assert CHOICE.pledge.trust_the_shuffler


def test_no_floor_without_a_word_of_trust():
    pledge = replace(CHOICE.pledge, trust_the_shuffler=False)
    with pytest.raises(sdp.WireError, match="trust_the_shuffler"):
        live.make_collection(questions=CHOICE.questions, pledge=pledge)


def test_what_is_published_depends_on_the_noised_tally_alone(tmp_path):
    """Two batches whose noised tallies are equal have equal results, but for the manifest's own numbers."""
    results = []
    for place, (ways, draw) in enumerate((((0, 0, 1, 2, 2, 2), 3), ((0, 1, 1, 2, 2, 2), 3))):
        analyzer = open_analyzer(tmp_path / str(place), CHOICE, rng=Fixed(draw, place))
        assert hand_in(analyzer, people(CHOICE, ways) + say(0, 4), 6) == "published"
        (result,) = analyzer.results()
        results.append(result)
    assert results[0] == results[1]


class Fixed:
    """Words whose draws make up for one person who answers 1 in place of 0."""

    def __init__(self, most, place):
        self.place = place

    def words(self, count, bits):
        ends = np.cumsum([0, *(int(share) for share in LAW.noise.shares)], dtype=object)
        wanted = (
            [LAW.most, LAW.most - 1, LAW.most] if self.place else [LAW.most - 1, LAW.most, LAW.most]
        )
        numbers = [int(ends[each]) for each in wanted]
        pairs = [(number >> 64, number & (2**64 - 1)) for number in numbers]
        return np.array(pairs, dtype=np.uint64).reshape(-1)[:count]
