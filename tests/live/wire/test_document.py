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
from shuffledp.accounting.base import bound_generator
from shuffledp.live.wire import document, question
from shuffledp.live.wire.document import Collection, Windows
from shuffledp.live.wire.promise import Pledge, compute_guarantee, set_served_aside
from shuffledp.live.wire.question import carry
from shuffledp.live.wire.strict import as_decimal, read_decimal, read_json, write_canonical
from shuffledp.numerics.rounding import float_above, float_below

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


def edited(changes):
    """The document with several fields changed, each named by its path."""
    content = json.loads(COLLECTION.raw)
    for path, value in changes.items():
        *steps, last = (int(step) if step.isdigit() else step for step in path.split("."))
        inner = content
        for step in steps:
            inner = inner[step]
        inner[last] = value
    return json.dumps(content).encode()


def windows_of(count):
    """So many windows, all of them but the first with the second key."""
    return {"windows.count": count, "shufflers.0.keys.1.last": count - 1}


SHARES = "must be from 1e-100 to 1, honest above 0"
EPSILONS = "epsilon and local_epsilon must be above 0 and at most 100"
LIMITS = {
    "delta, low": ({"promise.delta": "1e-100"}, {"promise.delta": "9.99e-101"}, SHARES),
    "delta, high": ({"promise.delta": "0.9999999999999999"}, {"promise.delta": "1.0"}, SHARES),
    "honest, low": (
        {"promise.honest": "1e-9", "promise.min_batch": 10**9},
        {"promise.honest": "0.0", "promise.min_batch": 10**9},
        SHARES,
    ),
    "honest, high": ({"promise.honest": "1.0"}, {"promise.honest": "1.0000000000000002"}, SHARES),
    "epsilon, low": ({"promise.epsilon": "5e-324"}, {"promise.epsilon": "0.0"}, EPSILONS),
    "epsilon, high": (
        {"promise.epsilon": "100.0"},
        {"promise.epsilon": "100.00000000000001"},
        EPSILONS,
    ),
    "floor, low": (
        {"promise.local_epsilon": "5e-324"},
        {"promise.local_epsilon": "0.0"},
        EPSILONS,
    ),
    "floor, high": (
        {"promise.local_epsilon": "100.0", "promise.trust_the_shuffler": True},
        {"promise.local_epsilon": "100.00000000000001", "promise.trust_the_shuffler": True},
        EPSILONS,
    ),
    "floor without trust": (
        {"promise.local_epsilon": "8.0"},
        {"promise.local_epsilon": "8.000000000000002"},
        "document: a floor above 8, or none, needs trust_the_shuffler",
    ),
    "no floor": (
        {"promise.local_epsilon": "8.0"},
        {"promise.local_epsilon": "none", "promise.trust_the_shuffler": True},
        "without a floor the noise must come from the servers",
    ),
    "somebody honest": (
        {"promise.honest": "0.05"},
        {"promise.honest": "0.049999999999999996"},
        r"honest \* min_batch must be at least 1",
    ),
    "batch, low": (
        {"promise.min_batch": 2},
        {"promise.min_batch": 1},
        "promise.min_batch must be a whole number from 2 to 1000000000",
    ),
    "batch, high": (
        {"promise.min_batch": 10**9},
        {"promise.min_batch": 10**9 + 1},
        "promise.min_batch must be a whole number from 2 to 1000000000",
    ),
    "reports, low": (
        {"promise.reports_per_device": 1},
        {"promise.reports_per_device": 0},
        "promise.reports_per_device must be a whole number from 1 to 2",
    ),
    "reports, high": (
        {"promise.reports_per_device": 2},
        {"promise.reports_per_device": 3},
        "promise.reports_per_device must be a whole number from 1 to 2",
    ),
    "start, low": (
        {"windows.start": 0},
        {"windows.start": -1},
        "windows.start must be a whole number from 0 to 1099511627776",
    ),
    "start, high": (
        {"windows.start": 2**40},
        {"windows.start": 2**40 + 1},
        "windows.start must be a whole number from 0 to 1099511627776",
    ),
    "seconds, low": (
        {"windows.seconds": 1},
        {"windows.seconds": 0},
        "windows.seconds must be a whole number from 1 to 1000000000",
    ),
    "seconds, high": (
        {"windows.seconds": 10**9},
        {"windows.seconds": 10**9 + 1},
        "windows.seconds must be a whole number from 1 to 1000000000",
    ),
    "windows": (
        windows_of(10**5),
        windows_of(10**5 + 1),
        "windows.count must be a whole number from 1 to 100000",
    ),
    "grace, low": (
        {"windows.grace": 0},
        {"windows.grace": -1},
        "windows.grace must be a whole number from 0 to 10000000",
    ),
    "grace, high": (
        {"windows.grace": 10**7},
        {"windows.grace": 10**7 + 1},
        "windows.grace must be a whole number from 0 to 10000000",
    ),
    "last key": (
        windows_of(3),
        windows_of(3) | {"shufflers.0.keys.1.last": 1},
        "the shuffler's keys must cover each window once, in order",
    ),
    "key beyond all windows": (
        windows_of(3),
        windows_of(3) | {"shufflers.0.keys.1.last": 3},
        "key.last must be a whole number from 0 to 2",
    ),
    "key of no window": (
        windows_of(2),
        windows_of(2) | {"shufflers.0.keys.0.first": 1, "shufflers.0.keys.0.last": 0},
        "the shuffler's keys must cover each window once, in order",
    ),
    "number of a key": (
        {"shufflers.0.keys.1.id": 1},
        {"shufflers.0.keys.1.id": 2},
        "the shuffler's keys must cover each window once, in order",
    ),
    "title": (
        {"texts.title": "x" * 500},
        {"texts.title": "x" * 501},
        "texts.title must be a text of 1 to 500 characters",
    ),
    "welcome": (
        {"texts.welcome": "x" * 4_000},
        {"texts.welcome": "x" * 4_001},
        "texts.welcome must be a text of 1 to 4000 characters",
    ),
    "consent": (
        {"texts.consent": "x" * 4_000},
        {"texts.consent": "x" * 4_001},
        "texts.consent must be a text of 1 to 4000 characters",
    ),
    "contact": (
        {"texts.contact": "x" * 500},
        {"texts.contact": "x" * 501},
        "texts.contact must be a text of 1 to 500 characters",
    ),
    "language": (
        {"texts.language": "sr-Latn-RS"},
        {"texts.language": "sr-latn"},
        "the language 'sr-latn' must be a tag such as en, pt-BR or sr-Latn",
    ),
    "direction": (
        {"texts.direction": "rtl"},
        {"texts.direction": "btt"},
        "the direction 'btt' must be ltr or rtl",
    ),
    "name": (
        {"questions.0.name": "x" * 60},
        {"questions.0.name": "x" * 61},
        "question.name must be a text of 1 to 60 characters",
    ),
    "name of one letter": (
        {"questions.0.name": "x"},
        {"questions.0.name": "0x"},
        "the name '0x' must be letters, digits, _ and -",
    ),
    "question": (
        {"questions.0.text": "x" * 500},
        {"questions.0.text": "x" * 501},
        "question.text must be a text of 1 to 500 characters",
    ),
    "description": (
        {"questions.0.asked.description": "x" * 4_000},
        {"questions.0.asked.description": "x" * 4_001},
        "asked.description must be a text of 1 to 4000 characters",
    ),
    "label": (
        {"questions.0.labels": ["car", "bus", "x" * 200]},
        {"questions.0.labels": ["car", "bus", "x" * 201]},
        "labels must be texts of 1 to 200 characters",
    ),
    "port": (
        {"shufflers.0.url": "https://survey.example:65535"},
        {"shufflers.0.url": "https://survey.example:65536"},
        "the URL 'https://survey.example:65536' must be https",
    ),
    "here": (
        {"shufflers.0.url": "http" + "://[::1]:8000/a"},
        {"shufflers.0.url": "http" + "://[::2]:8000/a"},
        "must be https \\(http only on this machine\\)",
    ),
    "skipped": (
        {"questions.0.asked.skip": True},
        {"questions.1.asked.skip": True},
        "'home' cannot be skipped: that is one of three or more categories",
    ),
    "unit": (
        {"questions.0.asked.unit": None},
        {"questions.0.asked.unit": "km"},
        "'way' has a unit, and is no number",
    ),
    "scale": (
        {
            "questions.0.asked.kind": "scale",
            "questions.0.asked.ends": ["bad", "good"],
            "questions.0.labels": ["1", "2", "3"],
        },
        {
            "questions.0.asked.kind": "scale",
            "questions.0.asked.ends": ["bad", "good"],
            "questions.0.labels": ["1", "2", "4"],
        },
        "the labels of the scale 'way' must be 1, 2, ... up to 11",
    ),
    "scale with a way out": (
        {
            "questions.0.asked.kind": "scale",
            "questions.0.asked.skip": True,
            "questions.0.asked.ends": ["bad", "x" * 200],
            "questions.0.labels": ["1", "2", "no answer"],
        },
        {
            "questions.0.asked.kind": "scale",
            "questions.0.asked.skip": True,
            "questions.0.asked.ends": ["bad", "x" * 201],
            "questions.0.labels": ["1", "2", "no answer"],
        },
        "ends.text must be a text of 1 to 200 characters",
    ),
    "ends of a scale": (
        {
            "questions.0.asked.kind": "scale",
            "questions.0.asked.ends": ["bad", "good"],
            "questions.0.labels": ["1", "2", "3"],
        },
        {"questions.0.asked.kind": "scale", "questions.0.labels": ["1", "2", "3"]},
        "'way' has ends if it is a scale, and only then",
    ),
    "ends of no scale": (
        {"questions.0.asked.ends": None},
        {"questions.0.asked.ends": ["bad", "good"]},
        "'way' has ends if it is a scale, and only then",
    ),
    "part of nothing": (
        {"questions.1.asked.part_of": None},
        {"questions.1.asked.part_of": {"name": "what", "text": "What?"}},
        "'home' is part of another question if several are chosen, and only then",
    ),
    "no part": (
        {"questions.1.asked.kind": "yes_no"},
        {"questions.1.asked.kind": "several"},
        "'home' is part of another question if several are chosen, and only then",
    ),
    "part alone": (
        {},
        {
            "questions.1.asked.kind": "several",
            "questions.1.asked.part_of": {"name": "what", "text": "What?"},
        },
        "the choices of 'what' must be two or more, neighbours, with one text",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_both_sides_of_every_limit_of_a_document(name):
    last, beyond, match = LIMITS[name]
    Collection.read(edited(last))
    refused(edited(beyond), match)


@pytest.mark.parametrize(
    ("name", "most"),
    {
        "k": 10_000,
        "steps": 1 << 20,
        "word_bits": 64,
        "shape": 1 << 22,
        "parts": 64,
        "bits": 64,
        "max_length": 64,
        "lengths": 64,
        "rows": 1 << 16,
        "buckets": 1 << 16,
    }.items(),
)
def test_parameters_have_limits(name, most):
    """The largest is read, and found not to be a parameter of this protocol; one more is not read."""
    parameters = {"k": 3, "epsilon": "1.5", name: most}
    if name not in ("k", "word_bits"):
        refused(edited({"questions.0.parameters": parameters}), "no protocol of this version")
    limit = f"document: {name}={most + 1} must be at most {most}"
    refused(edited({"questions.0.parameters": parameters | {name: most + 1}}), limit)
    refused(edited({"questions.0.parameters": parameters | {name: [1, most + 1]}}), limit)


def test_parameters_are_few_and_short():
    ten = {"k": 3, "epsilon": "1.5"} | dict.fromkeys("abcdefgh", 1)
    refused(edited({"questions.0.parameters": ten}), "no protocol of this version")
    refused(edited({"questions.0.parameters": ten | {"i": 1}}), "an object with at most 10 fields")
    refused(edited({"questions.0.parameters": [1]}), "an object with at most 10 fields")
    listed = {"k": 3, "epsilon": "1.5", "at": [1] * 100}
    refused(edited({"questions.0.parameters": listed}), "no protocol of this version")
    for wrong in ([], [1] * 101):
        other = edited({"questions.0.parameters": listed | {"at": wrong}})
        refused(other, "document: at must be 1 to 100 numbers")
    refused(edited({"questions.0.parameters.k": "x"}), "k='x' must be a decimal in a string")
    refused(edited({"questions.0.parameters.k": True}), "k=True must be a decimal in a string")
    refused(edited({"questions.0.parameters.alphabet": "runes"}), "alphabet must be one of")


def test_labels_are_two_to_ten_thousand_different_texts():
    for labels in (["a"], [], "ab", [str(place) for place in range(10_001)]):
        refused(edited({"questions.0.labels": labels}), "labels must be null or 2 to 10,000 texts")
    for labels in (["a", "b"], [str(place) for place in range(10_000)], None):
        refused(edited({"questions.0.labels": labels}), "the labels of 'way' do not fit")
    for labels in (["a", "b", 1], ["a", "b", " "], ["a", "b", ""]):
        refused(edited({"questions.0.labels": labels}), "texts of 1 to 200 characters")


@pytest.mark.parametrize(
    ("labels", "fine"),
    [
        (["nein", "ja"], True),
        (["no", "yes"], True),
        (["False", "True"], True),
        (["0", "1"], True),
        (["yes", "ja"], False),
        (["nein", "No"], False),
        (["1", "2"], False),
        (["a", "0"], False),
        (["true", "b"], False),
    ],
)
def test_a_count_has_a_word_for_no_and_then_one_for_yes(labels, fine):
    raw = edited({"questions.1.labels": labels})
    if fine:
        assert Collection.read(raw).questions[1].labels == tuple(labels)
    else:
        refused(raw, "the labels of the count 'home' must be no and yes")


def choices(*parts):
    """A document whose questions are choices of others, each given by its name; None for one that is not."""
    content = json.loads(COLLECTION.raw)
    yes_or_no = content["questions"][1]
    content["questions"] = []
    for place, part in enumerate(parts):
        asked = dict(yes_or_no["asked"])
        if part is not None:
            asked |= {"kind": "several", "part_of": {"name": part[:1], "text": f"Which {part}?"}}
        content["questions"].append(yes_or_no | {"name": f"c{place}", "asked": asked})
    content["slots"] = len(parts)
    return json.dumps(content).encode()


@pytest.mark.parametrize("parts", ["aa", "aaa", "aabb", [None, "a", "a"], ["a", "a", None]])
def test_choices_of_one_question_are_neighbours(parts):
    read = Collection.read(choices(*parts)).questions
    found = [each.asked.part_of and each.asked.part_of.name for each in read]
    assert found == list(parts)


@pytest.mark.parametrize(
    "parts", ["a", "aba", "abab", "aab", ["a", None, "a"], ["a", "a", None, "a"], ["a1", "a2"]]
)
def test_choices_that_do_not_make_one_question(parts):
    refused(choices(*parts), "must be two or more, neighbours, with one text")


@pytest.mark.parametrize("count", [64, 65])
def test_a_document_has_at_most_64_questions(count):
    raw = choices(*[None] * count)
    if count == 64:
        assert len(Collection.read(raw).questions) == 64
    else:
        refused(raw, "questions must be a list of 1 to 64 entries")


def test_answers_by_place():
    way, home = COLLECTION.questions
    assert [way.place_of(word) for word in ("car", "bicycle", "bus")] == [0, 1, 2]
    words = ("no", "yes", "False", "True", "0", 1, "NO")
    assert [home.place_of(word) for word in words] == [0, 1, 0, 1, 0, 1, 0]
    with pytest.raises(sdp.DataError) as caught:
        way.place_of("yes")
    assert str(caught.value) == "way='yes' must be one of car, bicycle, bus"
    with pytest.raises(sdp.DataError) as caught:
        home.place_of("perhaps")
    assert str(caught.value) == "home='perhaps' must be one of no, yes"


def test_windows_begin_and_end():
    """The first moment of a window is in it, its last end is in none."""
    two = Windows(start=1000, seconds=100, count=2, grace=10)
    found = [two.at(now) for now in (999.5, 1000, 1099.5, 1100, 1199.5, 1200)]
    assert found == [None, 0, 0, 1, 1, None]
    assert (two.opens(0), two.opens(1), two.closes(0), two.closes(1)) == (1000, 1100, 1110, 1210)


@pytest.mark.parametrize(
    ("url", "one_operator"),
    [
        ("https" + "://survey.example", False),
        ("https" + "://survey.example/one-operator", True),
        ("https" + "://survey.example/one-operator/a", False),
        ("http" + "://127.0.0.1:8000", True),
        ("http" + "://localhost", True),
    ],
)
def test_every_address_says_whether_one_operator_plays_all_roles(url, one_operator):
    found = Collection.read(edited({"shufflers.0.url": url}))
    assert found.development is one_operator
    name = found.id.hex()
    assert found.link == f"{url}/collections/{name}#{name}"
    assert found.page == f"{url}/c/{name}#{name}"


def test_a_document_is_written_in_utf_8_without_blanks():
    said = {"b": [1, "Gr\u00fc\u00dfe"], "a": None}
    assert write_canonical(said) == '{"b":[1,"Gr\u00fc\u00dfe"],"a":null}'.encode()
    for wrong in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON compliant"):
            write_canonical({"a": wrong})


@pytest.mark.parametrize("server", [10**6, 10**8])
def test_words_of_a_server_take_at_most_half_of_delta(server):
    """Words of a server and of one device, for each report that is composed."""
    pledge = dataclasses.replace(COLLECTION.pledge, reports_per_device=3, composed=True)
    added = bound_generator(1, 3 * server, pledge.epsilon) + bound_generator(1, 7, pledge.epsilon)
    just = float_above(2 * added)
    left = set_served_aside(server, 7, dataclasses.replace(pledge, delta=just))
    assert added <= left <= just - float(added)
    less = dataclasses.replace(pledge, delta=math.nextafter(float_below(2 * added), 0.0))
    with pytest.raises(sdp.UnsupportedError) as caught:
        set_served_aside(server, 7, less)
    assert str(caught.value) == f"delta={less.delta} is too small for the words of a server"
    once = dataclasses.replace(less, composed=False)
    spent = bound_generator(1, server, pledge.epsilon) + bound_generator(1, 7, pledge.epsilon)
    assert set_served_aside(server, 7, once) == float_below(Fraction(once.delta) - spent)


def test_a_document_has_at_most_a_megabyte():
    fits = b'{"a":' + b" " * ((1 << 20) - 7) + b"1}"
    assert read_json(fits) == {"a": 1}
    with pytest.raises(sdp.WireError) as caught:
        read_json(b" " + fits)
    assert str(caught.value) == "document: it has 1,048,577 bytes, more than 1,048,576"


def test_at_most_366_answers_are_composed():
    """So many questions for half a year: the limit is of answers, not of reports."""
    made = protocols.rr.make_local(epsilon=0.01)
    questions = [
        dataclasses.replace(COLLECTION.questions[1], name=name, protocol=made) for name in "ab"
    ]
    pledge = dataclasses.replace(COLLECTION.pledge, composed=True, delta=1e-3)
    most = dataclasses.replace(pledge, reports_per_device=183)
    assert 0 < compute_guarantee(questions, most).epsilon <= 3.66
    more = dataclasses.replace(pledge, reports_per_device=184)
    with pytest.raises(sdp.UnsupportedError) as caught:
        compute_guarantee(questions, more)
    assert str(caught.value) == (
        "184 reports of 2 questions are more than 366 answers to compose: promise each report by itself "
        "(composed = false), or take fewer"
    )
    alone = dataclasses.replace(more, composed=False)
    assert compute_guarantee(questions, alone).epsilon <= 0.02


def test_one_random_question_is_promised_report_by_report():
    pledge = dataclasses.replace(COLLECTION.pledge, one_question=True, composed=True)
    several = dataclasses.replace(pledge, reports_per_device=2)
    with pytest.raises(sdp.UnsupportedError) as caught:
        compute_guarantee(COLLECTION.questions, several)
    assert str(caught.value) == (
        "several reports of one random question each are promised report by report, not composed"
    )
    found = compute_guarantee(COLLECTION.questions, pledge)
    apart = dataclasses.replace(several, composed=False)
    assert found == compute_guarantee(COLLECTION.questions, apart)
