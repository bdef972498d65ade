"""Writes `vectors/`: what every implementation of a device must do, byte for byte.

    PYTHONPATH=src:tests python -m wire.vectors

`laws.json`: tiny randomizers with their whole law, to enumerate. `messages.json`: words and what is sent for them.
`words.json`: texts, their codes or what is wrong with them, and the messages of those that are words.
`documents.json`: documents that must be refused, and why. `report.json`: a collection, its keys, answers, words,
and a report that was sealed once (sealing is not reproducible, so that part is opened, not compared).
"""

import json
from pathlib import Path

import numpy as np

from contract.examples import all_examples
from live_support import make_collection, questions, secret
from shuffledp import Reals, SeededWords, protocols
from shuffledp.core.randomizer import encode_places, tape_width
from shuffledp.live.wire.document import Pledge
from shuffledp.live.wire.question import Question, carry, describe_law
from shuffledp.live.wire.report import (
    encode_answers,
    join_upload,
    report_id,
    seal_inner,
    seal_report,
)

FOLDER = Path(__file__).parents[3] / "vectors"
_PEOPLE = 12
_TAPES = 1 << 12  # of a tiny law; more would take long to enumerate


def carried(kind):
    """The devices of all protocols that a live collection can carry: `kind` is local or local_tiny."""
    for example in all_examples():
        for parameters in getattr(example, kind):
            protocol = protocols.make(example.spec.name, **parameters)
            carry(protocol)  # a local protocol that could not be carried would need a reason
            yield protocol


def write_laws():
    """For tiny randomizers: how many tapes send each message, for every code."""
    found = []
    for protocol in carried("local_tiny"):
        device = protocol.randomizer
        tapes = 1 << device.word_bits * device.words_per_input
        if tapes > _TAPES:
            continue
        code = carry(protocol)
        laws = [
            {
                _octets(code, sent).hex(): int(mass * tapes)
                for (sent,), mass in device.pmf(x).items()
            }
            for x in range(device.domain.size)
        ]
        found.append({"protocol": protocol.name, "law": describe_law(device), "tapes": laws})
    return found


def _octets(code, message):
    return code.encode_message(np.array([message])).tobytes()


def write_messages():
    """For ordinary randomizers: places, the words of the tape, and the bytes of the message."""
    found = []
    for protocol in carried("local"):
        device = protocol.randomizer
        width, bits = tape_width(device), device.word_bits
        drawn = SeededWords(5).words(_PEOPLE * width, bits).reshape(_PEOPLE, width)
        tape = np.concatenate([drawn, np.zeros_like(drawn[:2]), drawn[:2]])
        tape[-2:] = (1 << bits) - 1  # the smallest and the largest words, too
        real = isinstance(device.domain, Reals)
        ends = [0, (1 << 41) if real else device.domain.size - 1]
        places = np.concatenate([np.linspace(*ends, _PEOPLE).astype(np.int64), np.array(ends * 2)])
        sent = carry(protocol).encode_message(encode_places(device, places, tape).payload)
        cases = [
            {
                "place": int(place),
                "words": [str(word) for word in row],
                "message": each.tobytes().hex(),
            }
            for place, row, each in zip(places, tape.tolist(), sent, strict=True)
        ]
        if device.words_per_input > 40:
            cases = cases[:2]
        found.append({"protocol": protocol.name, "law": describe_law(device), "cases": cases})
    return found


def ask_all():
    """One question of each kind."""
    mean = protocols.duchi.make_local(lower=0.0, upper=240.0, steps=16, epsilon=0.5)
    minutes = Question(name="minutes", text="How long does it take?", task="mean", protocol=mean)
    groups = protocols.krr.make_local(k=4, epsilon=0.5)
    cost = Question(
        name="cost",
        text="What does it cost?",
        task="mean_by_group",
        protocol=groups,
        labels=("car", "car: old"),
        range=(-1.5, 10.0),
    )
    tree = protocols.local_tree.make_local(
        lower=0.5, upper=8.5, steps=12, epsilon=0.3, at=(0.25, 0.5)
    )
    distance = Question(name="distance", text="How far?", task="quantiles", protocol=tree)
    words = protocols.local_prefixes.make_local(
        alphabet="word", max_length=4, rows=[64, 192], lengths=[12, 22], epsilon=0.05, seed=7
    )
    brand = Question(name="brand", text="Which brand?", task="words", protocol=words)
    return (*questions(0.8), minutes, cost, distance, brand)


def survey():
    """A collection that asks all of them."""
    return make_collection(questions=ask_all())


ANSWERS = {
    "way": "bus",
    "home": "yes",
    "minutes": 37.5,
    "cost": "car: old: 2.25",
    "distance": 4.5,
    "brand": " Ｗ-5 ",
}


def write_documents():
    """What must be refused: the document with a change, and the reason."""
    good = survey().raw.decode()
    law = json.loads(good)["questions"][0]["law"]["share"]
    changes = [
        ("a key twice", '"tokens":false', '"tokens":false,"tokens":false', "document"),
        ("2^53", '"start":1000', '"start":9007199254740992', "document"),
        ("NaN", '"start":1000', '"start":NaN', "document"),
        ("a decimal number", '"min_batch":20', '"min_batch":20.0', "document"),
        ("an exponent", '"min_batch":20', '"min_batch":2e1', "document"),
        ("a boolean for a number", '"min_batch":20', '"min_batch":true', "document"),
        ("an unknown field", '"tokens":false', '"tokens":false,"more":1', "document"),
        ("a missing field", '"tokens":false,', "", "document"),
        ("a control character", "A test", "A \\u0007 test", "document"),
        ("a mark that turns the text", "A test", "A \u202e test", "document"),
        ("half a character", "A test", "A \\ud800 test", "document"),
        ("http elsewhere", "http://127.0.0.1", "http://survey.example", "document"),
        ("a script for a URL", "http://127.0.0.1", "javascript:alert(1)//", "document"),
        ("a user in the URL", "http://127.0.0.1", "https://127.0.0.1:1@127.0.0.1", "document"),
        ("another suite", '"suite":1', '"suite":2', "document"),
        ("another format", "collection 1", "collection 2", "document"),
        ("slots that do not follow", '"slots":6', '"slots":7', "document"),
        ("an unknown alphabet", '"Texts","alphabet":"word"', '"Texts","alphabet":"runes"', None),
        ("words without an alphabet", '"Texts","alphabet":"word",', '"Texts",', None),
        ("words that are too long", '"max_length":"4"', '"max_length":"13"', None),
        ("words where numbers belong", '"task":"words"', '"task":"mean"', "document"),
        ("numbers where words belong", '"task":"quantiles"', '"task":"words"', "document"),
        ("rows of no power of two", '"rows":["64","192"]', '"rows":["64","191"]', None),
        ("a list of coefficients more", '"coefficients":[[', '"coefficients":[["1"],[', None),
        ("another response", '"response":{"type":"KRR"', '"response":{"type":"RR"', None),
        ("groups that do not fit", '"car","car: old"', '"car","car: old","bus"', "document"),
        (
            "one question of several kinds",
            '"one_question":false',
            '"one_question":true',
            "document",
        ),
        ("a range that is none", '"lower":"-1.5"', '"lower":"10.0"', "document"),
        (
            "a range where none belongs",
            '"labels":["no","yes"],',
            '"labels":["no","yes"],"range":null,',
            "document",
        ),
        ("a size that does not follow", '"message_size":2', '"message_size":3', "document"),
        ("a promise of more", '"local_epsilon":"3.0"', '"local_epsilon":"2.0"', "promise"),
        (
            "a promise of a little more",
            '"local_epsilon":"3.0"',
            '"local_epsilon":"2.5999999999"',
            "promise",
        ),
        ("a law of its own", f'"share":"{law}"', f'"share":"{int(law) // 2}"', None),
        ("trailing text", '"message_size":2}', '"message_size":2}{}', "document"),
        ("equal keys", survey().analyzer_sign.hex(), survey().shuffler_sign.hex(), "document"),
    ]
    found = []
    for what, old, new, reason in changes:
        changed = good.replace(old, new, 1)
        assert changed != good, what
        found.append({"what": what, "document": changed, "reason": reason})
    return found


def write_report():
    """A whole report, with all keys."""
    collection, window = survey(), 1
    tape = [SeededWords(9 + place) for place in range(len(collection.questions))]
    words = [
        str(word)
        for source, each in zip(tape, collection.questions, strict=True)
        for word in source.words(each.width, 64).tolist()
    ]
    plains = encode_answers(collection, dict(ANSWERS), Listed(words))
    inners = [seal_inner(collection, window, plain) for plain in plains]
    sealed = seal_report(collection, window, inners)
    return {
        "document": collection.raw.decode(),
        "collection_id": collection.id.hex(),
        "window": window,
        "secrets": {"analyzer": secret("inner").hex(), "shuffler": secret("outer 1").hex()},
        "answers": ANSWERS,
        "words": words,
        "plains": [plain.hex() for plain in plains],
        "inners": [inner.hex() for inner in inners],
        "report_id": report_id(collection, window, b"".join(inners)).hex(),
        "report": sealed.hex(),
        "upload": join_upload(collection, [sealed]).hex(),
    }


class Listed:
    """Given words, in turn."""

    def __init__(self, words):
        self._left = [int(word) for word in words]

    def words(self, count, bits=64):
        taken, self._left = self._left[:count], self._left[count:]
        return np.array(taken, dtype=np.uint64)


def survey_of_one():
    """A collection whose reports answer one random question."""
    pledge = Pledge(
        epsilon=4.0, delta=1e-2, honest=1.0, min_batch=90, local_epsilon=3.0, one_question=True
    )
    return make_collection(questions=ask_all()[:3], pledge=pledge)


def write_choices():
    """Words and plaintexts of reports that answer one random question."""
    collection, cases = survey_of_one(), []
    answers = {each.name: ANSWERS[each.name] for each in collection.questions}
    third = -(-(1 << 64) // 3)
    for place, first in enumerate((0, third - 1, third, 2 * third - 1, 2 * third, (1 << 64) - 1)):
        words = [str(first), *map(str, SeededWords(place).words(2, 64).tolist())]
        (plain,) = encode_answers(collection, answers, Listed(words))
        cases.append({"words": words, "plain": plain.hex()})
    return {
        "document": collection.raw.decode(),
        "collection_id": collection.id.hex(),
        "answers": answers,
        "cases": cases,
    }


SPELLINGS = [
    {"alphabet": "letters", "max_length": 12},
    {"alphabet": "word", "max_length": 12},
    {"alphabet": "ascii", "max_length": 9},
    {"alphabet": "utf-8", "max_length": 8},
    {"bits": 64},
    {"bits": 8},
]
TEXTS = (
    *(
        "cat",
        " Cat\t",
        "CAT\r\n",
        "Ｃａｔ",
        "wlan-5",
        "ＷＬＡＮ_５",
        "a b",
        "a  b",
        "ﬁsh",
        "Kelvin \u212a",
        "\u212a",
    ),
    *(
        "İ",
        "ſo",
        "é",
        "e\u0301",
        "É",
        "\u00e5ngström",
        "A\u030a",
        "ΟΔΟΣ",
        "日本",
        "日本語",
        "🦆🦆",
        "🦆🦆🦆",
        "\u00a0cat",
    ),
    *(
        "\u3000cat",
        "cat\u2003",
        "\ud800",
        "a\u0000b",
        "\u0000",
        "",
        " \t ",
        "zzzzzzzzzzzz",
        "zzzzzzzzzzzzz",
        "Ⅷ",
        "½",
    ),
    *(
        "0",
        "7",
        "007",
        "-1",
        "255",
        "256",
        "18446744073709551615",
        "18446744073709551616",
        "1e3",
        "2.0",
        "٣",
        "x",
    ),
)


def write_words():
    """Texts as codes, and the messages of those that are words of each kind."""
    found = []
    for spelling in SPELLINGS:
        protocol = protocols.local_prefixes.make_local(**spelling, epsilon=2.0, seed=11)
        device, domain = protocol.randomizer, protocol.randomizer.domain
        cases = []
        for place, text in enumerate(TEXTS):
            codes, faults = domain.read([text])
            if faults[0]:
                cases.append({"text": text, "said": domain.complain(int(faults[0]))})
                continue
            tape = SeededWords(place).words(2, 64).reshape(1, 2)
            sent = carry(protocol).encode_message(device.encode(codes, tape).payload)
            words = [str(word) for word in tape[0].tolist()]
            case = {"text": text, "code": str(codes[0]), "words": words}
            cases.append({**case, "message": sent[0].tobytes().hex()})
        found.append({"law": describe_law(device), "cases": cases})
    return found


WRITERS = {
    "laws": write_laws,
    "messages": write_messages,
    "words": write_words,
    "documents": write_documents,
    "choices": write_choices,
}


def write(name, content):
    # Half a character cannot be written in UTF-8, and that it is no word is one of the vectors.
    text = json.dumps(content, ensure_ascii=name == "words", indent=1) + "\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name, writer in {**WRITERS, "report": write_report}.items():
        write(name, writer())
