"""Limits of a collection document: both sides of every one, and how what lies beyond is refused."""

import dataclasses
import json
import math
from fractions import Fraction

import pytest

import shuffledp as sdp
from live.wire.test_document import COLLECTION, refused
from shuffledp import protocols
from shuffledp.accounting.base import bound_generator
from shuffledp.live.wire.document import Collection, Windows
from shuffledp.live.wire.promise import compute_guarantee, set_served_aside
from shuffledp.live.wire.strict import read_json, write_canonical
from shuffledp.numerics.rounding import float_above, float_below


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
        "'way' has a unit, but is not a number",
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
