"""Tallies as JSON: there and back, and a clear refusal of everything else."""

import json

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.analyzer import Tally
from shuffledp.engine.tallies import Collected
from support import any_protocol

KRR = sdp.protocols.krr.make_local(k=3, epsilon=1.0)
PETS = ("cat", "dog", "日本")


def collected(counts=(5, 3, 2), users=10, labels=PETS, protocol=KRR):
    tally = Tally(counts=np.array(counts, dtype=np.int64), users=users)
    return Collected(protocol=protocol, tally=tally, labels=labels)


@pytest.mark.parametrize("spec", sdp.protocols.PROTOCOLS, ids=lambda spec: spec.name)
def test_every_protocol_there_and_back(spec, tmp_path):
    protocol = any_protocol(spec)
    randomizer = protocol.randomizer
    words = sdp.SeededWords(1).words(20 * randomizer.words_per_input, randomizer.word_bits)
    messages = randomizer.encode(np.zeros(20, dtype=np.int64), words.reshape(20, -1))
    tally = protocol.analyzer.tally(sdp.shuffle(messages, sdp.SeededWords(2)))
    kept = Collected(protocol=protocol, tally=tally)
    found = sdp.read_tally(sdp.write_tally(kept, tmp_path / "t.json"))
    assert found.protocol == protocol
    assert found.tally.users == 20
    np.testing.assert_array_equal(found.tally.counts, tally.counts)
    np.testing.assert_array_equal(found.estimate.value, kept.estimate.value)


def test_labels_are_kept(tmp_path):
    path = sdp.write_tally(collected(), tmp_path / "t.json")
    assert sdp.read_tally(path).estimate.labels == PETS
    assert sdp.read_tally(path).labels == PETS


def test_adding():
    total = collected() + collected((1, 1, 1), 3)
    assert total.tally.counts.tolist() == [6, 4, 3]
    for other in (collected(labels=None), collected(labels=PETS[::-1])):
        with pytest.raises(sdp.MismatchError, match="do not add"):
            collected() + other
    with pytest.raises(sdp.MismatchError, match="do not add"):
        collected() + collected(protocol=sdp.protocols.krr.make_local(k=3, epsilon=2.0))
    with pytest.raises(TypeError):
        collected() + 1


def test_nothing_is_overwritten(tmp_path):
    sdp.write_tally(collected(), tmp_path / "t.json")
    with pytest.raises(sdp.DataError, match="already exists"):
        sdp.write_tally(collected(), tmp_path / "t.json")
    with pytest.raises(sdp.DataError, match="cannot be written"):
        sdp.write_tally(collected(), tmp_path / "nowhere" / "t.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '"shuffledp tally"', "{}", '{"kind": "x"}'])
def test_foreign_files(tmp_path, text):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(sdp.DataError, match=r"t\.json is not a tally"):
        sdp.read_tally(tmp_path / "t.json")


def test_missing_and_binary_files(tmp_path):
    with pytest.raises(sdp.DataError, match="there is no file"):
        sdp.read_tally(tmp_path / "t.json")
    (tmp_path / "t.json").write_bytes(bytes(range(256)))
    with pytest.raises(sdp.DataError, match="is not JSON"):
        sdp.read_tally(tmp_path / "t.json")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"counts": [1, 2]}, "has 2 counts, which do not fit"),
        ({"counts": [1, 2, 3.5]}, "must be whole numbers"),
        ({"counts": [1, 2, True]}, "must be whole numbers"),
        ({"counts": [1, 2, 2**70]}, "is damaged"),
        ({"counts": [[1, 2, 3]]}, "must be whole numbers"),
        ({"counts": "123"}, "must be whole numbers"),
        ({"counts": None}, "must be whole numbers"),
        ({"users": -1}, "is damaged"),
        ({"users": 1.5}, "must be whole numbers"),
        ({"users": None}, "must be whole numbers"),
        ({"protocol": "x"}, "describes no protocol"),
        ({"protocol": ["krr"]}, "does not say which protocol"),
        ({"parameters": {}}, "describes no protocol"),
        ({"parameters": {"k": "3", "epsilon": 1.0}}, "describes no protocol"),
        ({"labels": ["a", "a", "b"]}, "describes no protocol"),
        ({"labels": ["a", "b"]}, "describes no protocol"),
    ],
)
def test_damaged_files(tmp_path, change, complaint):
    path = sdp.write_tally(collected(), tmp_path / "t.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(sdp.DataError, match=complaint):
        sdp.read_tally(path)


def test_another_law_is_refused(tmp_path):
    path = sdp.write_tally(collected(), tmp_path / "t.json")
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"parameters": {"k": 3, "epsilon": 2.0}})
    )
    with pytest.raises(sdp.MismatchError, match="has another law"):
        sdp.read_tally(path)
