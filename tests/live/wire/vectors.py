"""Writes `vectors/`: what every implementation of a device must do, byte for byte.

    PYTHONPATH=src:tests python -m wire.vectors

`laws.json`: tiny randomizers with their whole law, to enumerate. `messages.json`: words and what is sent for them.
`words.json`: texts, their codes or what is wrong with them, and the messages of those that are words.
`documents.json`: documents of format 1 that must be refused, and why. `formats.json`: the same for format 2, and
documents that are accepted, with answers and what is sent for them. `report.json`: a collection, its keys, answers, words,
and a report that was sealed once (sealing is not reproducible, so that part is opened, not compared). `noise.json`: what
servers add to a question, word for word, and what it is worth.
"""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from contract.examples import all_examples
from live.server_support import hashed_questions
from live.server_support import make_collection as make_noisy
from live_support import as_format_1, make_collection, questions, secret
from shuffledp import Reals, SeededWords, protocols
from shuffledp.accounting.server_noise import Scattered
from shuffledp.core.randomizer import encode_places, tape_width
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.noise import Dummies, DummyKind, HashedDummies
from shuffledp.live.wire.promise import Pledge
from shuffledp.live.wire.question import Asking, Kind, Question, carry, describe_law
from shuffledp.live.wire.report import (
    encode_answers,
    join_upload,
    report_id,
    seal_inner,
    seal_report,
)
from shuffledp.protocols.krr import KRR
from shuffledp.protocols.server_hashing import HashedBin, make_server_hashing
from shuffledp.protocols.server_noise import OneBin, make_server_noise

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


DOMAINS = [
    {"task": "count"},
    {"task": "histogram", "k": 5},
    {"task": "mean", "lower": -1.0, "upper": 3.0, "steps": 7},
    {"task": "quantiles", "lower": 0, "upper": 30},
    {"task": "cdf", "lower": 0.0, "upper": 1.5, "steps": 16},
]


def served(*, tiny):
    """Devices whose answers hide among the servers' messages, with and without a floor."""
    for domain, floor in product(DOMAINS, (None, 1.0)):
        if floor is not None and domain["task"] in ("quantiles", "cdf"):
            continue
        made = make_server_noise(**domain, epsilon=floor, rate=0.5, most=36)
        if not tiny:
            yield made
        elif made.randomizer.domain.size <= 8:
            response = (
                None
                if floor is None
                else KRR(k=made.randomizer.domain.size, epsilon0=1.0, word_bits=6)
            )
            device = OneBin(domain=made.randomizer.domain, response=response, word_bits=6)
            yield replace(made, randomizer=device)
    for floor in (None, 1.0):
        size = (
            {"k": 3, "r": 2, "s": 2, "width": 3}
            if tiny
            else {"k": 9000, "r": 32, "s": 13, "width": 40}
        )
        made = make_server_hashing(**size, messages=13_000, epsilon=floor)
        if tiny:
            made = replace(made, randomizer=HashedBin(**size, floor=floor, word_bits=4))
        yield made


def write_noise():
    """Laws of what servers add: words, and the numbers of messages that they make; and what each is worth."""
    found = []
    for kind, bins, rate, most in [
        ("bins", 5, 0.5, 36),
        ("count", 2, 1.0, 18),
        ("bins", 3, 1 / 3, 55),
        ("count", 2, 0.0195, 1064),
    ]:
        law = Dummies(kind=DummyKind(kind), bins=bins, rate=rate, most=most)
        tapes = SeededWords(3).words(_PEOPLE * 2 * law.draws, 64).reshape(_PEOPLE, law.draws, 2)
        found.append(
            {
                "noise": law.to_dict(),
                "epsilon": float(law.epsilon),
                "delta": float(law.delta),
                "messages": law.mean_total,
                "totals": law.totals,
                "cases": [
                    {
                        "words": [[str(word) for word in row] for row in tape.tolist()],
                        "counts": law.read(tape).tolist(),
                    }
                    for tape in tapes
                ],
            }
        )
    for messages, r, s, width in [(64_000, 32, 10, 1), (113_092, 32, 16, 36), (90, 4, 3, 3)]:
        law = HashedDummies(messages=messages, r=r, s=s, width=width)
        words = SeededWords(3).words(_PEOPLE, 64)
        sent = [[int(each) for each in row] for row in law.read(words)]
        moved = Scattered(messages=messages, support=law.support).moved
        found.append(
            {
                "noise": law.to_dict(),
                "epsilon": 1.0,
                "delta": float(f"{moved.delta(1.0):.10g}"),
                "messages": law.mean_total,
                "totals": law.totals,
                "cases": [
                    {"words": [[str(word)]], "message": row}
                    for word, row in zip(words.tolist(), sent, strict=True)
                ],
            }
        )
    return found


def write_laws():
    """For tiny randomizers: how many tapes send each message, for every code."""
    found = []
    for protocol in [*carried("local_tiny"), *served(tiny=True)]:
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
    for protocol in [*carried("local"), *served(tiny=False)]:
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
    good = as_format_1(survey().raw).decode()
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
        ("another format", "collection 1", "collection 3", "document"),
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
    collection, window = Collection.read(as_format_1(survey().raw)), 1
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
    collection, cases = Collection.read(as_format_1(survey_of_one().raw)), []
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


def ask_in_format_2():
    """A yes or no in its own words, a choice that may be skipped, and a number."""
    way, home = questions(0.8)
    labels = (*way.labels, "prefer not to say")
    skip = replace(
        way,
        protocol=protocols.krr.make_local(k=4, epsilon=0.8),
        labels=labels,
        asking=Asking(kind=Kind.CHOICE, skip=True),
    )
    return skip, replace(home, labels=("nein", "ja")), ask_all()[2]


def set_at(path, value):
    """A change of a document: `value` at a path such as promise.noise; None is null, ... leaves it out."""

    def change(content):
        *names, last = path.split(".")
        for name in names:
            content = content[int(name) if name.isdigit() else name]
        if value is ...:
            del content[last]
        else:
            content[last] = value

    return change


def _several(content, text="Which?", of="ways"):
    for each in content["questions"][1:]:
        each.update(task="count", labels=["no", "yes"], protocol="rr")
        each["parameters"] = content["questions"][1]["parameters"]
        each["law"] = content["questions"][1]["law"]
        each["asked"] |= {"kind": "several", "part_of": {"name": of, "text": "Which?"}}
    content["questions"][2]["asked"]["part_of"]["text"] = text


def _scale(content, labels=("1", "2", "3", "4")):
    asked = {"kind": "scale", "skip": False, "ends": ["bad", "good"]}
    content["questions"][0]["asked"] |= asked
    content["questions"][0]["labels"] = list(labels)


LOGO = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
NOISE = {"kind": "bins", "bins": 4, "rate": "0.5", "most": 36}
FINE = {
    "as it is": [],
    "another title": [set_at("texts.title", "Another")],
    "a floor of 15 that is pledged": [
        set_at("promise.local_epsilon", "15"),
        set_at("promise.trust_the_shuffler", True),
    ],
    "a trusted shuffler, and a floor all the same": [set_at("promise.trust_the_shuffler", True)],
    "nothing that may be skipped": [set_at("questions.0.asked.skip", False)],
    "another language": [set_at("texts.language", "pt-BR")],
    "another script": [set_at("texts.language", "sr-Latn")],
    "right to left": [set_at("texts.direction", "rtl")],
    "a welcome": [set_at("texts.welcome", "w" * 4000)],
    "a consent": [set_at("texts.consent", "I agree.")],
    "a contact": [set_at("texts.contact", "office@survey.example")],
    "a logo": [set_at("texts.logo", LOGO)],
    "a description": [set_at("questions.2.asked.description", "On an ordinary day.")],
    "a unit": [set_at("questions.2.asked.unit", "minutes")],
    "a scale": [_scale],
    "several choices": [_several],
}
OTHERWISE = {
    "a scale": [{"way": "4", "home": "ja", "minutes": 37.5}],
    "several choices": [{"way": "bus", "home": "yes", "minutes": "no"}],
}
"""Answers to what is asked in another way."""
PLANNED = {
    "two shufflers": [lambda content: content["shufflers"].append(content["shufflers"][0])],
}
WRONG = {
    "a floor of 15": [set_at("promise.local_epsilon", "15")],
    "a floor a little above 8": [set_at("promise.local_epsilon", "8.0000000001")],
    "no floor and nobody to trust": [set_at("promise.local_epsilon", "none")],
    "no floor and no servers that add noise": [
        set_at("promise.local_epsilon", "none"),
        set_at("promise.trust_the_shuffler", True),
    ],
    "a floor in other words": [set_at("promise.local_epsilon", "None")],
    "an infinite floor": [set_at("promise.local_epsilon", "Infinity")],
    "trust that is a word": [set_at("promise.trust_the_shuffler", "yes")],
    "no word about trust": [set_at("promise.trust_the_shuffler", ...)],
    "noise of somebody else": [set_at("promise.noise", "analyzer")],
    "no word about noise": [set_at("promise.noise", ...)],
    "noise of servers without a law": [set_at("promise.noise", "servers")],
    "a law of servers that add nothing": [set_at("questions.0.noise", NOISE)],
    "a law of another kind": [set_at("questions.0.noise", NOISE | {"kind": "poisson"})],
    "a law without a rate": [set_at("questions.0.noise", NOISE | {"rate": "0"})],
    "a law with a rate below zero": [set_at("questions.0.noise", NOISE | {"rate": "-0.5"})],
    "a law with no cut": [set_at("questions.0.noise", NOISE | {"most": 0})],
    "a law with too large a cut": [set_at("questions.0.noise", NOISE | {"most": 65_537})],
    "a law with one bin": [set_at("questions.0.noise", NOISE | {"bins": 1})],
    "a law with one field more": [set_at("questions.0.noise", NOISE | {"word_bits": 64})],
    "a count of three": [set_at("questions.0.noise", NOISE | {"kind": "count", "bins": 3})],
    "no shuffler": [set_at("shufflers", [])],
    "three shufflers": [lambda content: content["shufflers"].extend(content["shufflers"] * 2)],
    "a shuffler as in format 1": [
        lambda content: content.update(shuffler=content.pop("shufflers")[0])
    ],
    "a title as in format 1": [set_at("title", "A test")],
    "no texts": [set_at("texts", ...)],
    "no welcome at all": [set_at("texts.welcome", ...)],
    "an empty welcome": [set_at("texts.welcome", " ")],
    "too long a welcome": [set_at("texts.welcome", "w" * 4001)],
    "a language in words": [set_at("texts.language", "English")],
    "a language with a line of its own": [set_at("texts.language", "en_US")],
    "a logo that may have scripts": [set_at("texts.logo", "data:image/svg+xml;base64,PHN2Zy8+")],
    "a logo that says to be another": [set_at("texts.logo", LOGO.replace("png", "jpeg", 1))],
    "a logo of somebody else": [set_at("texts.logo", "https://a.example/logo.png")],
    "a logo that is null": [set_at("texts.logo", None)],
    "too large a logo": [set_at("texts.logo", LOGO[:33] + "A" * 10_680)],
    "a direction in words": [set_at("texts.direction", "up")],
    "one more text": [set_at("texts.imprint", "?")],
    "no way to ask": [set_at("questions.0.asked", ...)],
    "one more way to ask": [set_at("questions.0.asked.more", None)],
    "a choice asked as a number": [set_at("questions.0.asked.kind", "number")],
    "a number asked as a text": [set_at("questions.2.asked.kind", "text")],
    "a unit of a choice": [set_at("questions.0.asked.unit", "km")],
    "a yes or no that may be skipped": [set_at("questions.1.asked.skip", True)],
    "ends of a choice": [set_at("questions.0.asked.ends", ["bad", "good"])],
    "a scale without ends": [_scale, set_at("questions.0.asked.ends", None)],
    "a scale with three ends": [_scale, set_at("questions.0.asked.ends", ["a", "b", "c"])],
    "a scale from 0": [lambda content: _scale(content, ("0", "1", "2", "3"))],
    "several that belong to nothing": [_several, set_at("questions.1.asked.part_of", None)],
    "several that say different things": [lambda content: _several(content, text="What?")],
    "one choice of several": [_several, set_at("questions.2.asked.part_of.name", "other")],
    "a part without a name": [_several, set_at("questions.1.asked.part_of.name", "1")],
    "yes for no": [set_at("questions.1.labels", ["yes", "no"])],
    "True for no": [set_at("questions.1.labels", ["True", "ja"])],
    "format 3": [set_at("format", "shuffledp collection 3")],
    "another suite": [set_at("suite", 2)],
}


NOISY = {
    "and a question without": [set_at("questions.0.noise", None)],
    "and devices that add it": [set_at("promise.noise", "devices")],
    "for another number of bins": [set_at("questions.0.noise.bins", 4)],
    "of a count for three bins": [set_at("questions.0.noise.kind", "count")],
    "of bins for a count": [set_at("questions.1.noise.kind", "bins")],
    "by another protocol": [set_at("questions.0.protocol", "krr")],
    "and one of two questions": [set_at("questions.0.parameters.parts", 2)],
    "with too many dummies": [
        set_at("questions.0.noise.most", 65_536),
        set_at("questions.1.noise.most", 65_536),
    ],
    "and no word of trust": [
        set_at("promise.trust_the_shuffler", False),
        set_at("promise.local_epsilon", "8.1"),
    ],
}
HASHED = {
    "and messages of another family": [set_at("questions.0.noise.width", 1)],
    "and a hashed count": [
        lambda content: content["questions"][1].update(noise=content["questions"][0]["noise"])
    ],
    "and a law of bins": [
        set_at("questions.0.noise", {"kind": "bins", "bins": 3, "rate": "0.5", "most": 4})
    ],
    "and one message more than servers may add": [set_at("questions.0.noise.messages", 200_000)],
    "and no message at all": [set_at("questions.0.noise.messages", 0)],
    "and one field more": [set_at("questions.0.noise.rate", "0.5")],
    "and a field of 2^25 elements": [set_at("questions.0.noise.r", 25)],
}


def write_formats():
    """Documents of format 2: accepted with answers and plaintexts, or refused."""
    asked = ask_in_format_2()
    good = make_collection(questions=asked)
    width = sum(each.width for each in asked)
    words = [str(word) for word in SeededWords(3).words(width, 64).tolist()]
    given = [
        {"way": "bus", "home": "ja", "minutes": 37.5},
        {"home": "True", "minutes": 0},
        {"way": "prefer not to say", "home": "0", "minutes": 240},
    ]
    accepted, refused = [], []
    for what, changes in FINE.items():
        raw = _change(good.raw, changes)
        collection = Collection.read(raw)
        cases = [
            {
                "answers": each,
                "plains": [p.hex() for p in encode_answers(collection, each, Listed(words))],
            }
            for each in OTHERWISE.get(what, given)
            if collection.questions[0].asked.skip or "way" in each
        ]
        accepted.append({"what": what, "document": raw.decode(), "words": words, "cases": cases})
    for what, floor in (("without a floor", None), ("with a floor", 1.5)):
        collection = make_noisy(floor)
        answers = {"way": "bus", "home": "yes"}
        plains = [each.hex() for each in encode_answers(collection, answers, Listed(words))]
        case = {"answers": answers, "plains": plains}
        raw = collection.raw.decode()
        what = f"noise of the servers {what}"
        accepted.append({"what": what, "document": raw, "words": words, "cases": [case]})
        for change in NOISY:
            changed = _change(collection.raw, NOISY[change])
            case = {"what": f"{what}, {change}", "document": changed.decode()}
            refused.append({**case, "reason": "document"})
    for what, floor in (("without a floor", None), ("with a floor", 1.5)):
        collection = make_noisy(floor, asked=hashed_questions(floor))
        answers = {"way": "bus", "home": "yes"}
        plains = [each.hex() for each in encode_answers(collection, answers, Listed(words))]
        case = {"answers": answers, "plains": plains}
        what = f"a hashed question {what}"
        raw = collection.raw.decode()
        accepted.append({"what": what, "document": raw, "words": words, "cases": [case]})
        for change, changes in HASHED.items():
            changed = _change(collection.raw, changes)
            case = {"what": f"{what}, {change}", "document": changed.decode()}
            refused.append({**case, "reason": "document"})
    for reason, listed in (("planned", PLANNED), ("document", WRONG)):
        for what, changes in listed.items():
            raw = _change(good.raw, changes)
            refused.append({"what": what, "document": raw.decode(), "reason": reason})
    return {"accepted": accepted, "refused": refused}


def _change(raw, changes):
    content = json.loads(raw)
    for change in changes:
        change(content)
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


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
    "formats": write_formats,
    "noise": write_noise,
}


def write(name, content):
    # Half a character cannot be written in UTF-8, and that it is no word is one of the vectors.
    text = json.dumps(content, ensure_ascii=name == "words", indent=1) + "\n"
    (FOLDER / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name, writer in {**WRITERS, "report": write_report}.items():
        write(name, writer())
