"""Words of a live collection: one hashed prefix in each report, by randomized response."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import live_support as live
import shuffledp as sdp
from shuffledp import protocols
from shuffledp.cli import app
from shuffledp.live.analyzer import answer_question, count_messages
from shuffledp.live.design import Settings, choose_protocols
from shuffledp.live.results import show_page, show_text, write_csv
from shuffledp.live.serve.operator import Planner
from shuffledp.live.serve.rehearse import _compare_answers, _make_up
from shuffledp.live.wire.document import Collection, Windows
from shuffledp.live.wire.promise import Pledge
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.report import encode_many

PLEDGE = Pledge(epsilon=4.0, delta=1e-2, honest=1.0, min_batch=20, local_epsilon=4.0)
LETTERS = {"alphabet": "letters", "max_length": 4}
SURVEY = {
    "epsilon": 1.0,
    "delta": 1e-8,
    "questions": {"pet": {"task": "words", "text": "Which pet?", **LETTERS}},
    "collection": {"people": 5000},
}


def ask(**spelling):
    made = protocols.local_prefixes.make_local(**(spelling or LETTERS), epsilon=3.0, seed=5)
    return Question(name="pet", text="Which pet?", task="words", protocol=made)


def collect(question, words, seed=3):
    """Through randomizing, bytes and counting."""
    collection = live.make_collection(questions=(question,), pledge=PLEDGE)
    places = {"pet": question.spelling.codes(words)}
    counted = count_messages(
        collection, np.concatenate(encode_many(collection, places, sdp.SeededWords(seed)))
    )
    assert counted.dropped == {}
    return collection, answer_question(question, counted.tallies[0])


def test_words_are_found_with_their_intervals_and_the_threshold():
    truth = {"cat": 5000, "dog": 2500, "cow": 1500, "emu": 20}
    words = [word for word, people in truth.items() for _ in range(people)]
    _, answer = collect(ask(), words)
    assert [row["label"] for row in answer["estimate"]] == ["cat", "dog", "cow"]
    for row in answer["estimate"]:
        assert row["low"] <= truth[row["label"]] <= row["high"]
        assert row["high"] - row["low"] < 500
    assert 20 < answer["found"]["found_half"] <= answer["found"]["found_95"] < 1500
    json.dumps(answer, allow_nan=False)


def test_nothing_that_can_be_seen_is_an_answer_too():
    """Everybody has another word."""
    question = ask(bits=20)
    collection, answer = collect(question, np.arange(3000))
    assert answer["estimate"] == []
    assert answer["found"]["found_95"] > 100
    result = {"window": 0, "level": 0.95, "questions": {"pet": answer}}
    for shown in (show_text(collection, [result]), show_page(collection, [result])):
        assert "No word was found." in shown
        assert f"A word that {answer['found']['found_95']:,} people have" in shown
    assert write_csv([result]).count("\n") == 1


@pytest.mark.parametrize(
    "spelling", [LETTERS, {"bits": 64}, {"alphabet": "utf-8", "max_length": 8}], ids=str
)
def test_the_document_says_everything_and_reads_back(spelling):
    question = ask(**spelling)
    collection = live.make_collection(questions=(question,), pledge=PLEDGE)
    again = Collection.read(collection.raw).questions[0]
    assert again.protocol.randomizer == question.protocol.randomizer
    law = json.loads(collection.raw)["questions"][0]["law"]
    assert law["stir"] == [str(column) for column in question.protocol.randomizer.stir]
    assert len(law["coefficients"]) == 4
    assert len(collection.raw) < 12_000


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"alphabet":"letters"', '"alphabet":"word"'),
        ('"alphabet":"letters"', '"alphabet":7'),
        ('"alphabet":"letters"', '"alphabet":["letters"]'),
        ('"alphabet":"letters"', '"alphabet":{}'),
        ('"alphabet":"letters"', '"alphabet":null'),
        ('"max_length":4', '"max_length":5'),
        ('"max_length":4', '"max_length":99'),
        ('"seed":5', '"seed":6'),
        ('"seed":5', '"seed":-1'),
        ('"buckets":16', '"buckets":15'),
        ('"buckets":16', '"buckets":1048576'),
        ('"rows":[', '"rows":[1,'),
        ('"lengths":[20]', '"lengths":[[20]]'),
        ('"coefficients":[["', '"coefficients":[["1'),
        ('"task":"words"', '"task":"histogram"'),
        ('"labels":null', '"labels":["cat","dog"]'),
    ],
)
def test_documents_with_other_words_are_refused(old, new):
    raw = live.make_collection(questions=(ask(),), pledge=PLEDGE).raw.decode()
    assert old in raw
    with pytest.raises(sdp.WireError, match="document"):
        Collection.read(raw.replace(old, new, 1).encode())


def test_answers_are_words_of_the_alphabet():
    pet, key = ask(), ask(bits=64)
    assert pet.place_of("Cat ") == pet.place_of("\uff23at") == pet.place_of("cat")
    assert key.place_of("18446744073709551615") == 2**64 - 1
    assert pet.ends is None
    for question, answer, said in [
        (pet, "", "is empty"),
        (pet, "c4t", "outside the alphabet letters"),
        (pet, "tiger", "longer than 4 bytes"),
        (pet, None, "is empty"),
        (key, "-1", "outside the domain"),
        (key, "cat", "is not an integer"),
    ]:
        with pytest.raises(sdp.DataError, match=said):
            question.place_of(answer)


def test_the_largest_code_is_sent_as_it_is():
    question = ask(bits=64)
    collection = live.make_collection(questions=(question,), pledge=PLEDGE)
    plains = [
        sdp.live.wire.report.encode_answers(collection, {"pet": word}, sdp.SeededWords(seed))
        for seed, word in enumerate((2**64 - 1, "18446744073709551615", 0))
    ]
    assert {len(plain) for (plain,) in plains} == {1 + collection.message_size}


def test_strange_messages_are_dropped_one_by_one():
    question = ask(bits=20)
    collection = live.make_collection(questions=(question,), pledge=PLEDGE)
    size = question.protocol.randomizer.alphabet
    plains = np.zeros((3, 1 + collection.message_size), dtype=np.uint8)
    plains[1, 1:] = 255
    assert size < 256**collection.message_size - 1
    counted = count_messages(collection, plains)
    assert counted.dropped == {"out_of_range": 1}
    assert counted.tallies[0].users == 2


def test_the_planner_the_desk_and_the_rehearsal_know_words(tmp_path):
    survey = sdp.Survey.read(SURVEY)
    design = choose_protocols(survey, Settings(people=5000))
    (question,) = design.questions
    assert question.protocol.name == "local_prefixes"
    assert question.labels is None
    assert design.pledge.local_epsilon <= 3.0
    needed = design.find_sight(5000)["pet"]
    assert 100 < needed < 1000
    assert design.influence == np.inf
    preview = Planner().preview(SURVEY)
    (shown,) = preview["questions"]
    assert preview["influence"] is shown["influence"] is None
    assert shown["found"] == needed
    assert shown["estimate"][-1]["value"] == needed
    collection = live.make_collection(
        questions=(question,),
        pledge=design.pledge,
        windows=Windows(start=0, seconds=9, count=1, grace=0),
    )
    made_up = _make_up(collection, 4000)
    plains = encode_many(collection, made_up, sdp.SeededWords(1))
    answer = answer_question(
        question, count_messages(collection, np.concatenate(plains)).tallies[0]
    )
    rows = _compare_answers(question, made_up["pet"], {"questions": {"pet": answer}})
    assert len(rows) >= 2
    assert rows[0]["truth"] == pytest.approx(2000, rel=0.2)


def test_too_few_people_and_words_by_group_are_refused(tmp_path):
    survey = sdp.Survey.read(SURVEY)
    with pytest.raises(sdp.UnsupportedError, match="too few for any word to be seen: at least"):
        choose_protocols(survey, Settings(people=50))
    with pytest.raises(sdp.UnsupportedError, match="too few for any word to be seen: at least"):
        choose_protocols(replace(survey, epsilon=9.0), Settings(people=10))
    grouped = {**SURVEY["questions"]["pet"], "by": "way", "groups": ["car", "bus"]}
    with pytest.raises(sdp.DataError, match="words by group cannot be collected live"):
        live.plan({**SURVEY, "questions": {"pet": grouped}})


@pytest.mark.slow
def test_words_beside_another_question_share_the_floor(tmp_path):
    both = {**SURVEY["questions"], "home": {"task": "count"}}
    survey = sdp.Survey.read({"epsilon": 2.0, "delta": 1e-6, "questions": both})
    design = choose_protocols(survey, Settings(people=5000))
    assert not design.pledge.one_question
    assert design.influence == np.inf
    assert re.fullmatch(
        r"One report can move an answer by up to [\d.]+ people \(pet: not known\)",
        design.describe_influence(),
    )
    assert sum(each.epsilon0 for each in design.questions) <= 3.0


def test_a_new_collection_says_how_many_people_a_word_needs(tmp_path):
    path = tmp_path / "pets.toml"
    path.write_text(
        "epsilon = 1\ndelta = 1e-8\n[questions.pet]\ntask = 'words'\nalphabet = 'letters'\n"
        "max_length = 4\n[collection]\npeople = 5000\n"
    )
    made = CliRunner().invoke(app, ["collection", "new", str(path), "--out", str(tmp_path / "out")])
    assert made.exit_code == 0, made.output
    said = " ".join(made.output.split())
    assert "must have a word for it to be found" in said
    assert "By how many people one report can move pet is not known; accuracy" in said
    checked = CliRunner().invoke(app, ["collection", "check", str(tmp_path / "out")])
    assert "The promise holds" in checked.output
