"""The collection document: strict, immutable, and never with a promise that does not hold."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from live import server_support as served
from live.wire.vectors import ask_all, survey
from shuffledp import protocols
from shuffledp.live.wire import document, question
from shuffledp.live.wire.document import Collection, Windows
from shuffledp.live.wire.promise import Pledge, compute_guarantee
from shuffledp.live.wire.question import carry
from shuffledp.live.wire.strict import as_decimal, read_decimal, read_json, write_canonical

COLLECTION = live.make_collection()
CONTENT = json.loads(COLLECTION.raw)


def changed(*path, to):
    """The document with one field changed."""
    content = json.loads(COLLECTION.raw)
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return json.dumps(content).encode()


def refused(raw, match):
    with pytest.raises(sdp.WireError, match=match) as caught:
        Collection.read(raw)
    assert caught.value.reason == "document"


def test_a_document_reads_back_as_it_was_written():
    again = Collection.read(COLLECTION.raw, COLLECTION.id)
    assert again == COLLECTION
    assert again.id == COLLECTION.id
    assert again.questions[0].protocol == protocols.krr.make_local(k=3, epsilon=1.5)


def test_format_1_is_still_read():
    old = Collection.read(live.as_format_1(COLLECTION.raw))
    assert dataclasses.replace(old, raw=COLLECTION.raw) == COLLECTION
    assert old.id != COLLECTION.id
    assert old.verify() == COLLECTION.verify()


@pytest.mark.parametrize("field", ["trust_the_shuffler", "noise"])
def test_format_1_has_nothing_of_format_2(field):
    content = json.loads(live.as_format_1(COLLECTION.raw))
    content["promise"][field] = CONTENT["promise"][field]
    refused(json.dumps(content).encode(), "unknown field")


def test_the_id_is_of_the_exact_bytes():
    """The same content in other bytes is another collection."""
    blanks = json.dumps(CONTENT, indent=1).encode()
    assert Collection.read(blanks).id != COLLECTION.id
    with pytest.raises(sdp.WireError, match="hash"):
        Collection.read(blanks, COLLECTION.id)


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (COLLECTION.raw.replace(b'"tokens"', b'"format":"x","tokens"'), "twice"),
        (COLLECTION.raw.replace(b'"min_batch":20', b'"min_batch":9007199254740992'), "2\\^53"),
        (COLLECTION.raw.replace(b'"min_batch":20', b'"min_batch":2e1'), "whole"),
        (COLLECTION.raw.replace(b'"min_batch":20', b'"min_batch":NaN'), "whole"),
        (COLLECTION.raw.replace(b'"min_batch":20', b'"min_batch":Infinity'), "whole"),
        (COLLECTION.raw.replace(b'"epsilon":"4.0"', b'"epsilon":"NaN"'), "decimal"),
        (COLLECTION.raw.replace(b'"epsilon":"4.0"', b'"epsilon":4'), "decimal"),
        (COLLECTION.raw[:-1], "not JSON"),
        (b"\xff" + COLLECTION.raw, "UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' + b'{"a":' * 20 + b"1" + b"}" * 21, "deeply"),
        (b"[]", "not an object"),
        (b" " * (1 << 21), "bytes"),
    ],
)
def test_duplicate_keys_large_numbers_and_nan_in_a_document(raw, match):
    refused(raw, match)


@pytest.mark.parametrize("text", ["a\u0000b", "a\u202eb", "a\nb", "a\u200bb", "", "   ", "x" * 501])
def test_hostile_texts_in_a_document(text):
    refused(changed("texts", "title", to=text), "text|character")


@pytest.mark.parametrize(
    "url",
    [
        "http://survey.example",
        "https" + "://user:word@survey.example",
        "https://survey.example/?a=1",
        "https://survey.example/#a",
        "https://survey.example/",
        "javascript:alert(1)",
        "https" + "://exam ple",
        "https" + "://ex\u00e4mple",
        "https" + "://[::1",
        "https://survey.example:99999",
        "http" + "://127.0.0.1.survey.example",
        "file:///etc/passwd",
    ],
)
def test_hostile_urls_in_a_document(url):
    refused(changed("shufflers", 0, "url", to=url), "URL")


@pytest.mark.parametrize(
    ("path", "to", "match"),
    [
        (("format",), "shuffledp collection 3", "format"),
        (("suite",), 2, "suite"),
        (("slots",), 3, "slots"),
        (("message_size",), 2, "message_size"),
        (("extra",), 1, "unknown field"),
        (("questions", 0, "name"), "home", "same name"),
        (("questions", 0, "name"), "<b>", "letters"),
        (("questions", 0, "labels"), ["car", "car", "bus"], "same"),
        (("questions", 0, "labels"), ["car", "bus"], "fit"),
        (("questions", 1, "labels"), ["yes", "no"], "no and yes"),
        (("questions", 0, "task"), "count", "is asked as yes_no"),
        (("questions", 0, "protocol"), "zsum", "no protocol"),
        (("questions", 0, "protocol"), "__class__", "no protocol"),
        (("questions", 0, "parameters", "k"), 4, "law"),
        (("questions", 0, "parameters", "k"), 10**9, "at most"),
        (("questions", 0, "parameters", "n"), 100, "without n"),
        (("questions", 0, "law", "share"), "1", "law"),
        (("windows", "count"), 0, "whole number"),
        (("windows", "count"), True, "whole number"),
        (("shufflers", 0, "keys", 1, "first"), 0, "cover"),
        (("shufflers", 0, "sign"), "00", "hexadecimal"),
        (("promise", "honest"), "1.5", "honest"),
        (("promise", "delta"), "0", "delta"),
        (("promise", "reports_per_device"), 3, "whole number"),
    ],
)
def test_fields_that_are_not_what_they_must_be(path, to, match):
    refused(changed(*path, to=to), match)


@pytest.mark.parametrize("missing", sorted(CONTENT))
def test_every_field_must_be_there(missing):
    content = {name: value for name, value in CONTENT.items() if name != missing}
    refused(json.dumps(content).encode(), "lacks|format|suite|URL")


def test_equal_keys_are_refused():
    refused(changed("analyzer", "public", to=CONTENT["shufflers"][0]["keys"][0]["public"]), "equal")
    refused(changed("analyzer", "sign", to=CONTENT["shufflers"][0]["sign"]), "equal")


def test_a_false_promise_is_neither_written_nor_believed():
    found = COLLECTION.verify()
    assert found.epsilon <= 4.0
    low = as_decimal(found.epsilon * 0.99)
    claimed = Collection.read(changed("promise", "epsilon", to=low))
    with pytest.raises(sdp.WireError, match="epsilon is") as caught:
        claimed.verify()
    assert caught.value.reason == "promise"
    pledge = dataclasses.replace(COLLECTION.pledge, epsilon=found.epsilon * 0.99)
    with pytest.raises(sdp.WireError, match="epsilon is"):
        live.make_collection(pledge=pledge)


def test_a_false_promise_about_the_floor():
    claimed = Collection.read(changed("promise", "local_epsilon", to="2.9"))
    with pytest.raises(sdp.WireError, match="local_epsilon"):
        claimed.verify()


def test_promises_have_no_tolerance():
    """One step of a float less than what holds is not what holds."""
    holds = COLLECTION.verify().epsilon
    floor = sum(Fraction(each.epsilon0) for each in COLLECTION.questions)
    for name, least in (("epsilon", holds), ("local_epsilon", float(floor))):
        assert Collection.read(changed("promise", name, to=as_decimal(least))).verify()
        below = as_decimal(math.nextafter(least, 0))
        with pytest.raises(sdp.WireError, match=name):
            Collection.read(changed("promise", name, to=below)).verify()


def test_the_generator_of_the_words_is_paid_for():
    """A delta that words of AES-256 cannot carry is not promised; just above, less of it is left."""
    tiny = dataclasses.replace(COLLECTION.pledge, delta=1e-27, epsilon=100.0)
    with pytest.raises(sdp.UnsupportedError, match="too small for the words"):
        compute_guarantee(COLLECTION.questions, tiny)
    assert compute_guarantee(COLLECTION.questions, dataclasses.replace(tiny, delta=1e-25))


def test_a_promise_that_holds_once_and_not_composed():
    """Two reports of a device are more than one: a promise for all of them counts both."""
    once = COLLECTION.verify().epsilon
    twice = dataclasses.replace(COLLECTION.pledge, epsilon=once, reports_per_device=2)
    with pytest.raises(sdp.WireError, match="epsilon is"):
        live.make_collection(pledge=twice)
    live.make_collection(pledge=dataclasses.replace(twice, composed=False))
    assert compute_guarantee(COLLECTION.questions, twice).epsilon > once


def test_two_questions_cost_more_than_one_and_less_than_their_sum():
    pledge = Pledge(epsilon=1.0, delta=1e-6, honest=0.9, min_batch=5000, local_epsilon=3.0)
    both = compute_guarantee(COLLECTION.questions, pledge)
    alone = [compute_guarantee([each], pledge).epsilon for each in COLLECTION.questions]
    assert max(alone) < both.epsilon < sum(alone)
    assert both.honest == 4500


CARRIED = {
    "duchi",
    "hadamard",
    "hybrid",
    "krr",
    "local_hashing",
    "local_prefixes",
    "local_tree",
    "optimized_unary",
    "piecewise",
    "rounded_sum",
    "rr",
    "subset_selection",
    "symmetric_unary",
}


def test_every_registered_protocol_is_carried_or_refused_with_a_reason():
    """Each that is carried has one size for all values, and reads back what it wrote."""
    from contract.examples import all_examples

    carried = set()
    for examples in all_examples():
        for parameters in examples.local + examples.shuffled:
            made = protocols.make(examples.spec.name, **parameters)
            if made.name not in CARRIED:
                with pytest.raises(sdp.DataError, match="cannot be collected live: "):
                    carry(made)
                continue
            code = carry(made)
            carried.add(made.name)
            device = made.randomizer
            size = min(device.domain.size, 50)
            inputs = np.arange(size)
            words = sdp.SeededWords(5).words(size * device.words_per_input, device.word_bits)
            sent = device.encode(inputs, words.reshape(size, -1)).payload
            octets = code.encode_message(sent)
            assert octets.shape == (size, code.size)
            read = code.decode_message(octets)
            assert read.accepted.all()
            assert read.payload.dtype == sent.dtype or read.payload.dtype.kind == sent.dtype.kind
            assert (read.payload == sent).all()
    assert carried == CARRIED


def test_messages_that_no_device_sends_are_told_one_by_one():
    hadamard = carry(protocols.hadamard.make_local(k=4, epsilon=1.0))
    read = hadamard.decode_message(np.arange(256, dtype=np.uint8).reshape(-1, 1))
    assert read.accepted.sum() == protocols.hadamard.make_local(k=4, epsilon=1.0).randomizer.outputs
    subset = carry(protocols.subset_selection.make_local(k=8, epsilon=1.0))
    read = subset.decode_message(np.arange(256, dtype=np.uint8).reshape(-1, 1))
    assert set(read.payload.sum(axis=1).tolist()) == {0, 2}
    hashing = carry(protocols.local_hashing.make_local(k=4, epsilon=1.0))
    full = np.full((1, hashing.size), 255, dtype=np.uint8)
    assert not hashing.decode_message(full).accepted.any()


def test_windows_follow_one_another():
    windows = Windows(start=10, seconds=5, count=3, grace=2)
    assert [windows.at(now) for now in (9.9, 10, 14.9, 15, 24.9, 25)] == [None, 0, 0, 1, 2, None]
    assert windows.closes(0) == windows.opens(1) + 2


def test_decimals_are_written_as_they_are_read():
    for value in (0.1, 1e-8, 3.0, 1e-100, 12345.678, -2.5, 1e22):
        assert read_decimal("x", as_decimal(value)) == value


def test_canonical_refuses_what_cannot_be_read():
    with pytest.raises(sdp.WireError):
        write_canonical({"a": 2**53})
    assert read_json(write_canonical({"a": "\u00e4"})) == {"a": "\u00e4"}


def list_objects(content, path=()):
    """The paths of all objects within a document, itself among them."""
    if isinstance(content, dict):
        yield path
    for step, each in enumerate(content) if isinstance(content, list) else content.items():
        if isinstance(each, dict | list):
            yield from list_objects(each, (*path, step))


def test_nothing_unknown_is_anywhere_in_a_document():
    """What one reader skips another may obey."""
    raw = survey().raw
    paths = list(list_objects(json.loads(raw)))
    assert len(paths) > 20
    for path in paths:
        content = json.loads(raw)
        inner = content
        for step in path:
            inner = inner[step]
        inner["more"] = 1
        refused(json.dumps(content).encode(), "more|law|parameters")


def test_servers_add_at_most_so_many_messages(monkeypatch):
    """As many as that are fine, and one more is refused."""
    made = served.make_collection()
    total = sum(each.noise.mean_total for each in made.questions)
    monkeypatch.setattr(document, "MOST_DUMMIES", total)
    assert Collection.read(made.raw) == made
    monkeypatch.setattr(document, "MOST_DUMMIES", total - 1)
    refused(made.raw, f"more than {total - 1:,} messages")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("k", 10_000),
        ("steps", 1 << 20),
        ("word_bits", 64),
        ("shape", 1 << 22),
        ("parts", 64),
        ("bits", 64),
        ("max_length", 64),
        ("lengths", 64),
        ("rows", 1 << 16),
        ("buckets", 1 << 16),
    ],
)
def test_parameters_that_would_take_a_phone_too_long_are_refused(name, most):
    """docs/live-protocol.md: what a reader computes with is bounded before it is."""
    assert question._read_parameter(name, most) == most
    assert question._read_parameter(name, [most] * 100) == [most] * 100
    for value in (most + 1, [1, most + 1], [1] * 101, []):
        with pytest.raises(sdp.WireError, match=name):
            question._read_parameter(name, value)


def test_an_answer_by_group_begins_with_the_longest_group_that_fits():
    asked = ask_all()[3]
    assert asked.labels == ("car", "car: old")
    assert asked._split("car: old: 2.25") == (1, " 2.25")
    assert asked._split("car: 3") == (0, " 3")
    for wrong in ("ship: 3", "car 3", "old: 3", "carts: 3"):
        with pytest.raises(sdp.DataError, match=r"must be GROUP: NUMBER.* car, car: old"):
            asked._split(wrong)
