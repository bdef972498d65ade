"""How documents are refused if a field is missing, of another type, too long or beyond an end: readers.txt says it.

`PYTHONPATH=tests python -m live.wire.test_readers` writes the table anew.
"""

import json
import re
import sys
from functools import cache
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from live.server_support import make_collection
from live.wire.vectors import survey
from shuffledp.core.errors import WireError
from shuffledp.live.wire.document import Collection

TABLE = Path(__file__).with_name("readers.txt")
DOCUMENTS = {"shuffled": survey, "with noise of servers": make_collection}
FINE = "fine"
LONG = "x" * 5_000
MANY = [1] * 10_001
"""Longer than whatever may be long, and hardly longer than the longest."""
OTHERS = {
    "null": None,
    "true": True,
    "one": 1,
    "text": "strange",
    "blank": " ",
    "long": LONG,
    "nothing": [],
    "many": MANY,
    "empty": {},
}
ENDS = {
    "promise epsilon": ("0.0", "1e-9", "100.0", "100.1"),
    "promise local_epsilon": ("0.0", "1e-9", "8.0", "8.1", "100.0", "100.1", "none"),
    "promise delta": ("0.0", "1e-101", "1e-100", "0.9", "1.0"),
    "promise honest": ("0.0", "0.04", "0.05", "1.0", "1.1"),
    "promise min_batch": (1, 2, 10**9, 10**9 + 1),
    "promise reports_per_device": (0, 1, 2, 3),
    "promise noise": ("devices", "servers", "nobody"),
    "windows start": (-1, 0, 2**40, 2**40 + 1),
    "windows seconds": (0, 1, 10**9, 10**9 + 1),
    "windows count": (0, 1, 2, 3),
    "windows grace": (-1, 0, 10**7, 10**7 + 1),
    "shufflers 0 keys 0 id": (-1, 0, 1, 255, 256),
    "shufflers 0 keys 0 first": (-1, 0, 1),
    "shufflers 0 keys 0 last": (-1, 0, 1),
    "shufflers 0 keys 1 first": (0, 1, 2),
    "shufflers 0 keys 1 last": (0, 1, 2),
    "shufflers 0 url": (
        "http://127.0.0.1",
        "http://localhost:1",
        "http://localhost:65535",
        "http://localhost:65536",
        "http://localhost:0",
        "http://example.org",
        "https://example.org",
        "https://example.org/",
        "https://example.org/one-operator",
        "https://example.org/a?b",
        "ftp://example.org",
    ),
    "texts language": ("en", "pt-BR", "sr-Latn", "e", "EN", "en-br", "en-1234"),
    "texts direction": ("ltr", "rtl", "up"),
    "questions 0 labels": (
        ["a"],
        ["a", "b", "c"],
        ["a", "b"],
        ["a", "a", "c"],
        ["a", " ", "c"],
        ["a", "x" * 200, "c"],
        ["a", "x" * 201, "c"],
        ["a", 1, "c"],
    ),
    "questions 1 labels": (["no", "yes"], ["yes", "no"], ["nein", "ja"], ["1", "0"], ["0", "1"]),
    "questions 0 name": ("home", "a", "1", "a b", "a-b_1", "x" * 60, "x" * 61),
    "slots": (1, 2, 6, 7),
    "message_size": (1, 2, 3),
    "suite": (0, 1, 2),
}
"""Values next to an end of what is allowed, by the path of a field."""
NEEDED = re.compile(r"must be a (text|list) of 1 to (\d+) (characters|entries)")


@cache
def read_content(name):
    return DOCUMENTS[name]().raw


def list_paths(content, path=()):
    """Every field; what is in a law follows from the rest."""
    for step, each in content.items() if isinstance(content, dict) else enumerate(content):
        yield (*path, step)
        if isinstance(each, dict | list) and step != "law":
            yield from list_paths(each, (*path, step))


def change(raw, path, action):
    content = json.loads(raw)
    inner = content
    for step in path[:-1]:
        inner = inner[step]
    action(inner, path[-1])
    return content


def put(value):
    def action(inner, step):
        inner[step] = value

    return action


def leave_out(inner, step):
    del inner[step]


def refuse(content):
    try:
        Collection.read(json.dumps(content).encode())
    except WireError as error:
        return str(error).removeprefix("document: ").replace(LONG, "...")[:160]
    return FINE


def probe(name):
    """A line for each field: what is said of each thing that may be wrong with it."""
    raw = read_content(name)
    for path in list_paths(json.loads(raw)):
        label, said = " ".join(map(str, path)), {}
        said.setdefault(refuse(change(raw, path, leave_out)), []).append("left out")
        for kind, value in OTHERS.items():
            said.setdefault(refuse(change(raw, path, put(value))), []).append(kind)
        for value in ENDS.get(label, ()) if name == "shuffled" else ():
            kind = json.dumps(value)[:40]
            said.setdefault(refuse(change(raw, path, put(value))), []).append(kind)
        found = "; ".join(f"{', '.join(kinds)}: {each}" for each, kinds in said.items())
        yield f"{name}, {label} = {found}"
    yield f"{name}, one more = {refuse(json.loads(raw) | {'more': 1})}"


def probe_one_question():
    """Which questions may be one of several: every pair of those that there are, and each alone."""
    content = json.loads(read_content("shuffled"))
    every = {each["name"]: each for each in content["questions"]}
    content["promise"]["one_question"] = True
    content |= {"slots": 1}
    for one, other in combinations_with_replacement(every, 2):
        asked = list(dict.fromkeys((one, other)))
        content["questions"] = [every[name] for name in asked]
        said = refuse(content | {"message_size": 1})
        wide = refuse(content | {"message_size": 2})
        yield f"one question, {' or '.join(asked)} = 1 byte: {said}; 2 bytes: {wide}"


PROBES = {**dict.fromkeys(DOCUMENTS, probe), "one question": lambda _: probe_one_question()}


@cache
def read_table():
    return TABLE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("name", PROBES)
def test_documents_are_refused_as_in_the_table(name):
    wanted = [line for line in read_table() if line.startswith(f"{name}, ")]
    assert list(PROBES[name](name)) == wanted


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_as_long_as_it_may_be_is_not_too_long(name):
    raw, looked = read_content(name), 0
    for path in list_paths(json.loads(raw)):
        for kind, many, one in (("text", LONG, "x"), ("list", MANY, [1])):
            found = NEEDED.search(refuse(change(raw, path, put(many))))
            if found is None or found[1] != kind:
                continue
            most, looked = int(found[2]), looked + 1
            said = refuse(change(raw, path, put(one * (most + 1))))
            assert found[0] in said, path
            assert found[0] not in refuse(change(raw, path, put(one * most))), path
    assert looked > 5


if __name__ == "__main__":
    lines = [line for name in PROBES for line in PROBES[name](name)]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(lines)} lines\n")
