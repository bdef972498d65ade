"""The question which words many people have: from files and from memory, in both models, with what is wrong with them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import shuffledp as sdp
from shuffledp.cli import app
from shuffledp.core.texts import Keys, Texts
from shuffledp.engine.local import deal_codes, tally_each
from shuffledp.tasks import Words

PRIVATE = {"epsilon": 4.0, "delta": 1e-6, "rng": sdp.SeededWords(1)}
LETTERS = {"alphabet": "letters", "max_length": 4}  # 20 bits: one level
PETS = ["cat"] * 900 + ["dog"] * 600 + ["Cat "] * 300 + ["cow"] * 150 + ["emu"] * 50


def test_words_of_a_list_are_found():
    answer = sdp.ask(PETS, "words", **LETTERS, **PRIVATE, protocol="hashed_prefixes")
    assert answer.estimate.labels[:3] == ("cat", "dog", "cow")
    assert answer.dealt
    assert abs(answer.estimate.value[0] - 1200) < 60
    said = answer.to_dict()
    assert [row["label"] for row in said["estimate"]][:2] == ["cat", "dog"]
    found = said["found"]
    assert 0 < found["found_half"] <= found["found_95"] < 150
    probabilities = [chance for _, chance in found["curve"]]
    assert probabilities == sorted(probabilities)
    (chosen,) = (note for note in said["notes"] if "chosen before looking" in note)
    assert chosen.startswith("Standard errors are those")
    assert chosen.endswith("intervals allow for that.")
    rows = answer.picture.rows
    assert all(row.low <= row.value - 1.9 * row.stderr for row in rows), "and they do"
    json.dumps(said, allow_nan=False)


def test_a_curator_finds_more():
    central = sdp.ask(PETS, "words", **LETTERS, model="central", epsilon=4.0, delta=1e-6)
    assert central.estimate.labels == ("cat", "dog", "cow", "emu")
    assert central.to_dict().get("found") is None


def test_the_same_from_a_file_by_every_engine(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("pet\n" + "\n".join(PETS) + "\n")
    made = sdp.make("hashed_prefixes", n=len(PETS), **LETTERS, epsilon=4.0, delta=1e-6, seed=5)
    runs = [
        sdp.run_file(made, sdp.open_column(path, "pet"), engine=engine, rng=sdp.SeededWords(3))
        for engine in ("memory", "duckdb")
    ]
    np.testing.assert_array_equal(runs[0].tally.counts, runs[1].tally.counts)
    assert runs[0].estimate.labels[:2] == ("cat", "dog")
    sent = tally_each(made, PETS, sdp.SeededWords(3))
    assert sent.counts.sum() == pytest.approx(runs[0].tally.counts.sum(), rel=0.02)


def test_progress_of_reading_and_of_looking_for_words(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("pet\n" + "\n".join(PETS) + "\n")
    steps = []
    options = {"alphabet": "letters", "max_length": 7}  # 34 bits: two levels
    sdp.ask(path, "words", column="pet", **options, **PRIVATE, report=steps.append)
    read = [step for step in steps if not step.estimating]
    looked = [step.fraction for step in steps if step.estimating]
    assert read
    assert steps.index(read[-1]) < len(steps) - len(looked)
    assert looked == sorted(looked)
    assert 0 < looked[0] < 1 == looked[-1]
    assert {step.total_rows for step in steps if step.estimating} == {100}  # in percent


def test_a_seed_gives_one_answer(tmp_path):
    """With the public functions: from memory and files, whole and in parts; another seed gives another one."""
    path = tmp_path / "pets.txt"
    path.write_text("\n".join(PETS) + "\n")
    private = {**LETTERS, "epsilon": 4.0, "delta": 1e-6, "protocol": "hashed_prefixes"}
    one, two, three = (
        sdp.ask(data, "words", **private, engine=engine, rng=sdp.SeededWords(seed))
        for data, engine, seed in ((PETS, "memory", 7), (path, "duckdb", 7), (PETS, "memory", 8))
    )
    assert one.estimate.labels == two.estimate.labels
    np.testing.assert_array_equal(one.estimate.value, two.estimate.value)
    seeds = {answer.protocol.parameters["seed"] for answer in (one, two, three)}
    assert len(seeds) == 2
    device = one.protocol.randomizer
    codes = device.domain.codes(PETS)
    whole, cut = (
        deal_codes(device, parts, sdp.SeededWords(1))
        for parts in ([codes], np.split(codes, [1000, 1000]))
    )
    np.testing.assert_array_equal(whole.counts, cut.counts)
    assert deal_codes(device, [codes[:0]], sdp.SeededWords(1)) is None


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("elephant", "is longer than 4 bytes"),
        ("c4t", "has a character outside the alphabet letters"),
        ("", "is empty"),
        (None, "is empty"),
    ],
)
def test_bad_words_are_refused_dropped_or_cut(bad, said):
    people = [*PETS, bad]
    with pytest.raises(sdp.DataError, match=said):
        sdp.ask(people, "words", **LETTERS, **PRIVATE)
    dropped = sdp.ask(people, "words", **LETTERS, **PRIVATE, on_invalid="drop")
    assert dropped.n == len(PETS)
    assert sum(dropped.invalid.values()) == 1
    if bad == "elephant":
        cut = sdp.ask(PETS + [bad] * 400, "words", **LETTERS, **PRIVATE, on_invalid="clamp")
        assert "elep" in cut.estimate.labels
    with pytest.raises(sdp.ParameterError, match="needs a declared category 'other'"):
        sdp.ask(people, "words", **LETTERS, **PRIVATE, on_invalid="other")


def test_integers_are_words():
    people = np.array([2**64 - 1] * 700 + [7] * 800 + [12] * 500, dtype=np.uint64)
    domain = Keys(bits=64)
    assert domain.spell(domain.codes(people))[0] == "18446744073709551615"
    small = sdp.ask((people % 1000).tolist(), "words", bits=10, **PRIVATE)
    assert set(small.estimate.labels) == {"7", "12", str((2**64 - 1) % 1000)}


def test_options_are_checked():
    assert Words.declare({"bits": 12}).task.domain == Keys(bits=12)
    assert Words.declare(LETTERS).task.domain == Texts(**LETTERS)
    with pytest.raises(sdp.UnsupportedError, match="words need an `alphabet` and a `max_length`"):
        Words.declare({"alphabet": "letters"})
    with pytest.raises(sdp.UnsupportedError, match="leave out alphabet"):
        Words.declare({"bits": 3, **LETTERS})
    with pytest.raises(sdp.UnsupportedError, match="too few for any word to be seen"):
        sdp.ask(["cat"] * 30, "words", **LETTERS, epsilon=1, delta=1e-6)


def test_plans_list_three_models():
    plan = sdp.plan("words", n=100_000, epsilon=1.0, delta=1e-8, max_messages=3, **LETTERS)
    available = [row for row in plan.rows if row.available]
    assert [(row.protocol, row.model.value) for row in available] == [
        ("stability_histogram", "central"),
        ("hashed_prefixes", "shuffle"),
        ("local_prefixes", "shuffle"),
        ("local_prefixes", "local"),
    ]
    assert plan.chosen.messages_per_user <= 3
    needed = [row.found for row in available]
    assert needed == sorted(needed)
    said = plan.to_dict()["rows"]
    assert [row["found"] for row in said] == needed
    assert "found from" in str(plan)
    assert f"{needed[-1]:,}" in str(plan)
    assert sdp.plan("count", n=100, epsilon=1.0, delta=0.0, models="local").rows[0].found is None


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_the_local_model_finds_what_nearly_everybody_has(engine, tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("pet\n" + "\n".join(["Cat"] * 1400 + ["dog"] * 600) + "\n")
    options = ["--alphabet", "letters", "--max-length", "4", "--epsilon", "2", "--model", "local"]
    ran = CliRunner().invoke(
        app,
        ["run", "words", str(path), *options, "--engine", engine, "--seed", "1", "--json"],
    )
    said = json.loads(ran.stdout)
    assert said["protocol"] == "local_prefixes"
    assert [row["label"] for row in said["estimate"]] == ["cat", "dog"]
    assert 100 < said["found"]["found_half"] <= said["found"]["found_95"] < 900
    assert said["guarantee"]["model"] == "local"


def test_the_command_line(tmp_path):
    path = tmp_path / "pets.csv"
    path.write_text("pet\n" + "\n".join(PETS) + "\n")
    options = ["--alphabet", "letters", "--max-length", "4", "--epsilon", "4", "--delta", "1e-6"]
    ran = CliRunner().invoke(
        app, ["run", "words", str(path), "--column", "pet", *options, "--json"]
    )
    said = json.loads(ran.stdout)
    assert said["task"] == "words"
    assert {row["label"] for row in said["estimate"]} >= {"cat", "dog"}


def test_a_list_of_words_has_no_header(tmp_path):
    """One word per line, commas and quotes included."""
    path = tmp_path / "said.txt"
    path.write_text("\n".join(['say "a, b"'] * 700 + ["x"] * 500))
    options = {"alphabet": "ascii", "max_length": 9, "on_invalid": "clamp"}
    answer = sdp.ask(path, "words", **options, **PRIVATE)
    assert answer.n == 1200
    assert set(answer.estimate.labels) == {'say "a, b', "x"}


def test_words_in_a_survey():
    """Beside another question, under one guarantee."""
    people = {"pet": PETS, "home": [True, False, False, False] * 500}
    questions = [
        sdp.Question(
            name="pet", task="words", column="pet", options={"alphabet": "letters", "max_length": 4}
        ),
        sdp.Question(name="home", task="count", column="home"),
    ]
    survey = sdp.Survey(questions=questions, epsilon=6.0, delta=1e-6)
    answer = sdp.ask(pd.DataFrame(people), survey, rng=sdp.SeededWords(1))
    assert "cat" in str(answer)
