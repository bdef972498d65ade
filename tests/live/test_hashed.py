"""Histograms of many categories with noise of the servers: plans, what comes out, and attacks."""

import math
from pathlib import Path

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from live.server_support import (
    hashed_questions,
    make_collection,
    open_analyzer,
    open_shuffler,
)
from live.test_roles import refused
from live.test_seals import LATE, fetch, fill
from live.test_server_attacks import hand_in, values
from live.test_servers import TRUSTED, plan
from shuffledp.core.randomizer import Shuffled
from shuffledp.live import servers
from shuffledp.live.design import foresee_error
from shuffledp.live.serve import try_survey
from shuffledp.live.servers import describe_dummies
from shuffledp.live.shuffler import draw_dummies, seal_plains
from shuffledp.live.wire.noise import MOST_DUMMIES, Dummies, HashedDummies
from shuffledp.live.wire.promise import compute_guarantee
from shuffledp.live.wire.question import read_questions
from shuffledp.live.wire.report import open_inner, seal_inner
from shuffledp.protocols.server_hashing import AmongHashed

COLLECTION = make_collection(asked=hashed_questions()[:1])
"""One question of three categories, of which a message supports half."""
LAW = COLLECTION.questions[0].noise


def towns(count: int, **more: object) -> dict:
    return {
        "town": {"task": "histogram", "categories": [str(each) for each in range(count)]}
    } | more


@pytest.mark.parametrize("people", [100, 10_000, 100_000])
def test_many_categories_are_hashed_with_the_smallest_error_that_the_limit_allows(
    people: int,
) -> None:
    design = plan(towns(9000), people=people, **TRUSTED)
    (question,) = design.questions
    law = question.noise
    assert isinstance(law, HashedDummies)
    assert law == describe_dummies(question.protocol)
    assert law.mean_total <= MOST_DUMMIES
    level = float(law.messages * law.support * (1 - law.support))
    assert 61 < level < 63  # the noise of a category, whatever their number is
    least = math.sqrt(2 * level + people * level / MOST_DUMMIES)
    assert people * foresee_error(design, people) < 1.03 * least
    found = compute_guarantee(design.questions, design.pledge)
    assert (found.epsilon, found.delta, found.honest) == (1.0, 1e-8, 1)
    assert read_questions([question.to_dict()], 2) == design.questions


def test_few_people_need_few_messages() -> None:
    few, many = (plan(towns(9000), people=people, **TRUSTED) for people in (100, 100_000))
    laws = [design.questions[0].noise for design in (few, many)]
    assert laws[0] is not None
    assert laws[1] is not None
    assert 15 * laws[0].mean_total < laws[1].mean_total


def test_what_fits_is_not_hashed() -> None:
    """A bin of its own has a third of the error."""
    (question,) = plan(towns(5500), people=1000, **TRUSTED).questions
    assert isinstance(question.noise, Dummies)


def test_with_a_floor_many_categories_are_hashed_where_that_errs_less() -> None:
    """k-ary randomized response is poor for many categories; a hashed message supports few buckets."""
    design = plan(towns(300), people=10_000, noise="servers")
    (question,) = design.questions
    assert isinstance(question.noise, HashedDummies)
    assert question.noise.mean_total < 2000
    assert 3 - 1e-9 < question.epsilon0 <= design.pledge.local_epsilon == 3.0
    assert 10_000 * foresee_error(design, 10_000) < 60
    assert compute_guarantee(design.questions, design.pledge).epsilon == 1.0


@pytest.mark.slow
def test_of_several_questions_the_largest_is_hashed_and_the_others_stay(monkeypatch) -> None:
    monkeypatch.setattr(servers, "MOST_DUMMIES", 20_000)
    design = plan(towns(500, home={"task": "count"}), people=1000, **TRUSTED)
    town, home = (each.noise for each in design.questions)
    assert isinstance(town, HashedDummies)
    assert isinstance(home, Dummies)
    assert town.mean_total + home.mean_total <= 20_000
    assert compute_guarantee(design.questions, design.pledge).epsilon == 1.0


def test_what_no_hashing_makes_fit_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(servers, "MOST_DUMMIES", 1000)
    said = "even if all histograms of more than 64 categories are hashed: 1,440 of them to question 'town'"
    with pytest.raises(sdp.UnsupportedError, match=said):
        plan(towns(40), people=1000, **TRUSTED)


def test_one_random_question_may_be_hashed() -> None:
    design = plan(
        towns(300, home={"task": "count"}), people=5000, noise="servers", one_question=True
    )
    analyzer = design.questions[0].protocol.analyzer
    assert isinstance(analyzer, AmongHashed)
    assert analyzer.parts == 2
    assert compute_guarantee(design.questions, design.pledge).epsilon == 1.0


@pytest.mark.parametrize("more", [TRUSTED, {"noise": "servers"}], ids=["no floor", "floor"])
def test_a_file_of_people_comes_out_within_its_errors(tmp_path: Path, more: dict) -> None:
    rng = np.random.default_rng(5)
    codes = np.minimum(rng.geometric(0.01, size=3000), 5999)
    (tmp_path / "people.csv").write_text("town\n" + "\n".join(map(str, codes)) + "\n")
    content = {"epsilon": 1.0, "delta": 1e-8, "questions": towns(6000), "collection": more}
    collection, result, _ = try_survey(
        *live.read_tables(content), [str(tmp_path / "people.csv")], source=sdp.SeededWords(2)
    )
    (question,) = collection.questions
    assert isinstance(question.noise, HashedDummies)
    rows = result["questions"]["town"]["estimate"]
    truth = np.bincount(codes, minlength=6000)
    found = np.array([row["value"] for row in rows])
    stderr = math.sqrt(float(np.mean(question.protocol.analyzer.variance(truth))))
    assert math.isclose(math.sqrt(np.mean((found - truth) ** 2)), stderr, rel_tol=0.06)
    covered = [row["low"] <= c <= row["high"] for row, c in zip(rows, truth, strict=True)]
    assert np.mean(covered) >= 0.95


def encode(payload: np.ndarray) -> list[bytes]:
    code = COLLECTION.questions[0].code
    return [bytes([0]) + row.tobytes() for row in code.encode_message(payload)]


def people(codes=(0, 0, 1, 2, 2, 2)) -> list[bytes]:
    device = COLLECTION.questions[0].protocol.randomizer
    payload = sdp.randomize(device, np.array(codes), sdp.SeededWords(9)).payload
    return [seal_inner(COLLECTION, 0, plain) for plain in encode(payload)]


def seal(payload: np.ndarray) -> list[bytes]:
    return [seal_inner(COLLECTION, 0, plain) for plain in encode(payload)]


def test_the_shuffler_seals_as_many_uniform_messages_as_the_document_says() -> None:
    plains = draw_dummies(COLLECTION)
    assert len(plains) == LAW.messages == COLLECTION.dummies[0] == COLLECTION.dummies[1]
    assert len(seal_plains(COLLECTION, 0, plains[:3])[0]) == COLLECTION.inner_size
    one, same, other = (draw_dummies(COLLECTION, sdp.SeededWords(each)) for each in (1, 1, 2))
    assert one.tolist() == same.tolist() != other.tolist()
    many = np.concatenate([draw_dummies(COLLECTION, sdp.SeededWords(each)) for each in range(100)])
    read = COLLECTION.questions[0].code.decode_message(np.ascontiguousarray(many[:, 1:]))
    assert read.accepted.all()
    seen = np.bincount(read.payload[:, 0] * 4 + read.payload[:, 1], minlength=64)
    spread = float(np.square(seen - 62.5).sum() / 62.5)  # chi square, 63 degrees of freedom
    assert 25 < spread < 125


def test_a_batch_of_people_and_dummies_is_published_with_the_noise_of_both(tmp_path) -> None:
    shuffler = open_shuffler(tmp_path / "s", COLLECTION)
    fill(shuffler, [[inner] for inner in people()])
    shuffler.tick(LATE)
    _, _, batch = fetch(shuffler)
    size = COLLECTION.inner_size
    records = [batch[place : place + size] for place in range(0, len(batch), size)]
    assert len(records) == 6 + LAW.messages
    analyzer = open_analyzer(tmp_path / "a", COLLECTION, rng=sdp.SeededWords(7))
    assert hand_in(analyzer, records, 6, collection=COLLECTION) == "published"
    plains = [open_inner(COLLECTION, 0, record, live.secret("inner")) for record in records]
    question = COLLECTION.questions[0]
    rows = np.frombuffer(b"".join(plains), dtype=np.uint8).reshape(-1, 1 + question.code.size)
    seen = question.code.decode_message(np.ascontiguousarray(rows[:, 1:])).payload
    own = LAW.make(sdp.SeededWords(7))
    tallies = [
        question.protocol.analyzer.tally(Shuffled(payload=each, users=6)).counts
        for each in (seen, own)
    ]
    # Half of all messages support a category: 2 M of the servers, and those of the six people.
    expected = (tallies[0] + tallies[1] - (2 * LAW.messages + 6) / 2) / (1 - 1 / 2)
    assert values(analyzer) == expected.tolist()


@pytest.mark.parametrize("difference", [-LAW.messages, -1, 1, LAW.messages])
def test_a_shuffler_that_adds_another_number_is_refused(tmp_path, difference) -> None:
    """Nothing, one less, one more, twice: how many it adds is fixed."""
    law = (
        HashedDummies(messages=LAW.messages + difference, r=4, s=2, width=2)
        if difference + LAW.messages
        else None
    )
    added = [] if law is None else seal(law.make(sdp.SeededWords(3)))
    analyzer = open_analyzer(tmp_path / "a", COLLECTION)
    assert refused(hand_in, analyzer, people() + added, 6, collection=COLLECTION) == "manifest"


def test_a_shuffler_that_says_one_thing_moves_an_answer_by_its_messages_and_the_noise_of_the_analyzer_stays(
    tmp_path,
) -> None:
    device = COLLECTION.questions[0].protocol.randomizer
    (mine,) = [a for a in range(16) if device.find_supported((a, 0)) == {0}][:1]
    one = np.full((LAW.messages, 2), [mine, 0])
    analyzer = open_analyzer(tmp_path / "a", COLLECTION, rng=sdp.SeededWords(7))
    assert hand_in(analyzer, people() + seal(one), 6, collection=COLLECTION) == "published"
    question = COLLECTION.questions[0]
    own = question.protocol.analyzer.tally(
        Shuffled(payload=LAW.make(sdp.SeededWords(7)), users=6)
    ).counts
    found = values(analyzer)
    assert 0 < found[0] - 2 * (own[0] - LAW.messages / 2) - LAW.messages <= 2 * 6
    assert found[1] - 2 * (own[1] - LAW.messages / 2) + LAW.messages <= 2 * 6


def test_messages_that_no_device_sends_are_dropped_and_spoil_nothing(tmp_path) -> None:
    """a beyond 2^r or v beyond 2^s; one of the shuffler's own, or of anybody."""
    strange = [
        seal_inner(COLLECTION, 0, bytes([0, 16, 0])),
        seal_inner(COLLECTION, 0, bytes([0, 0, 4])),
    ]
    added = seal(LAW.make(sdp.SeededWords(3)))
    analyzer = open_analyzer(tmp_path / "a", COLLECTION)
    records = people()[:4] + strange + added
    assert hand_in(analyzer, records, 6, collection=COLLECTION) == "published"
    assert analyzer.results()[0]["dropped"] == {"out_of_range": 2}


def test_a_document_with_too_few_messages_is_not_believed() -> None:
    with pytest.raises(sdp.ShuffledpError, match="promise"):
        make_collection(asked=hashed_questions(messages=2)[:1], pledge={"delta": 0.01})
