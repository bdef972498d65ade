"""Every sentence that states a number about privacy, and what it is about: who sees what, of which releases, of whom.

A number without its view is worth nothing: epsilon = 1 against readers of an answer may be epsilon = 3 against whoever
sees the messages. So each kind of sentence has a line here, with the words that it is recognised by and the fields of
JSON that hold the same number. docs/reference/claims.md shows the table, and a test runs every command and finds no
number that is in none of the lines.
"""

import re
from dataclasses import dataclass

_NUMBER = re.compile(
    r"(?<!--)\b(?:epsilon0?|delta0?)\b(?:\s*[:(]\s*|[^0-9.,:;()]{0,12})[0-9](?!/n)"
    r"|\bguess(?:es)? [^.]{0,30}right[^.]{0,30}[0-9]"
)
"""What states a number about privacy; an option of a command (--epsilon 1) states none."""
_AMOUNT = r"[0-9][0-9.e+-]*[0-9]|[0-9]"

_THIS = "this release alone"
_PERSON = (
    "one person with all their rows if a column names the person, otherwise one row; replaced by any other; n and who "
    "takes part are public"
)
_DEVICE = "all answers of one device, replaced by any others; who takes part is public"
_NOBODY = "nobody"
_SHUFFLER = "the shuffler forgets who sent what; the stated number of people make their noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A kind of sentence about privacy, and its view."""

    name: str
    says: str
    """A regular expression for the sentence, on one line."""
    fields: tuple[str, ...] = ()
    """Regular expressions for `COMMAND.FIELD.FIELD` in JSON, where lists have no number."""
    sees: str
    releases: str = _THIS
    unit: str = _PERSON
    trust: str


_LINE = rf"epsilon = (?:{_AMOUNT}), delta = (?:{_AMOUNT}): {{}} model, [a-z-]+ neighbours"
_ANSWERS = "(run|estimate|randomize|plan|learn|test|robust|frequencies|amplify|calibrate)"
_OWN = (rf"{_ANSWERS}\.(epsilon|delta)", rf"{_ANSWERS}\.guarantee(\.\w+)?")

CLAIMS = (
    Claim(
        name="sum of several shuffles",
        says=r"For readers of nothing but the sum: " + _LINE.format("shuffle"),
        fields=(r"estimate\.guarantee_of_sum(\.\w+)?",),
        sees="the sum of the tallies of several shuffles, and nothing of a single one",
        trust="every shuffler; the stated number of people of all shuffles together",
    ),
    Claim(
        name="guarantee, shuffle model",
        says=_LINE.format("shuffle"),
        fields=_OWN,
        sees="all messages of a shuffle without senders, and so its tally and the answer; of several shuffles, each by "
        "itself: the number is that of the smallest. Of a file that one machine answers: the answer",
        trust=_SHUFFLER,
    ),
    Claim(
        name="guarantee, local model",
        says=_LINE.format("local"),
        fields=_OWN,
        sees="the messages of every person, with the sender",
        trust=_NOBODY,
    ),
    Claim(
        name="guarantee, central model",
        says=_LINE.format("central"),
        fields=_OWN,
        sees="the answer",
        trust="the machine that has the values",
    ),
    Claim(
        name="bounds that were estimated",
        says=rf"(?:a first release(?: for all questions)? that|the release of the bands) spent epsilon = (?:{_AMOUNT})"
        rf"(?: and delta = (?:{_AMOUNT}))?",
        fields=(r"run\.bounds\.(.*\.)?(epsilon|delta)",),
        sees="the bounds and which part of the people is beyond them, and nothing of the answer: the line of the "
        "guarantee is about both",
        releases="the first of the two releases of an answer",
        trust="as the line of the guarantee beside it",
    ),
    Claim(
        name="the promise in words",
        says=rf"\(e\^epsilon, epsilon = (?:{_AMOUNT})\)(?:, up to an extra probability of delta = (?:{_AMOUNT}))?",
        sees="as the line of the guarantee above it",
        trust="as the line of the guarantee above it",
    ),
    Claim(
        name="delta in words",
        says=rf"delta = (?:{_AMOUNT}) is a slack on top of the factor",
        sees="as the line of the guarantee above it",
        trust="as the line of the guarantee above it",
    ),
    Claim(
        name="a large delta",
        says=rf"delta = (?:{_AMOUNT}) is large for n = [0-9,]+: with delta = 1/n = (?:{_AMOUNT})",
        sees="as the line of the guarantee beside it",
        trust="as the line of the guarantee beside it",
    ),
    Claim(
        name="delta that is not needed",
        says=rf"The delta of (?:{_AMOUNT}) was not needed: \w+ has delta = 0",
        sees="as the line of the guarantee beside it",
        trust="as the line of the guarantee beside it",
    ),
    Claim(
        name="without the shuffler",
        says=rf"each person still has the local promise: epsilon = (?:{_AMOUNT})",
        fields=(r"plan\.rows\.local_(floor|guess)",),
        sees="the messages of every person, with the sender",
        trust=_NOBODY,
    ),
    Claim(
        name="words of the generator",
        says=rf"(?:delta includes (?:{_AMOUNT}) for telling such words|ours could add at most (?:{_AMOUNT}))",
        sees="as the line of the guarantee above it, with the words of everybody",
        trust="AES-256 and HMAC-SHA256",
    ),
    Claim(
        name="what a curator would promise",
        says=r"[Tt]he same epsilon,[^.]*with delta = 0",
        sees="the answer of another run, in the central model",
        trust="the machine that has the values",
    ),
    Claim(
        name="what people who trust nobody would promise",
        says=r"(?:They|people who trust nobody) split epsilon evenly, with delta = 0",
        sees="the messages of every person, with the sender, of another run, in the local model",
        trust=_NOBODY,
    ),
    Claim(
        name="what is planned",
        says=rf"(?:n = [0-9,]+, |RMSE of [^,]+ <= (?:{_AMOUNT}), )epsilon = (?:{_AMOUNT})(?:, delta = (?:{_AMOUNT}))?"
        rf"|RMSE of [^,]+ <= (?:{_AMOUNT}), delta = (?:{_AMOUNT})",
        fields=(r"plan\.(honest|rows\.(epsilon|delta))", r"plan\.questions\.\w+\.(epsilon|delta)"),
        sees="nothing yet; what the protocol of a row would show, in its model",
        trust="as the model of the row",
    ),
    Claim(
        name="why a row is missing",
        says=rf"no epsilon up to (?:{_AMOUNT}) is enough|a local epsilon of (?:{_AMOUNT}), and (?:{_AMOUNT}) was asked for"
        rf"|(?:do not reach|are too few for|cannot hide one of them at) epsilon=(?:{_AMOUNT})(?:, delta=(?:{_AMOUNT}))?",
        sees="nothing: what a protocol would have to do, and does not",
        trust="as the model of the row",
    ),
    Claim(
        name="no local protocol does better",
        says=rf"rounds \(epsilon = (?:{_AMOUNT}), delta = (?:{_AMOUNT})\)",
        fields=(r"plan\.local_bound(\.\w+)*",),
        sees="the messages of every person, with the sender, of any protocol with that guarantee",
        trust=_NOBODY,
    ),
    Claim(
        name="parameters",
        says=rf"Made with epsilon = (?:{_AMOUNT})"
        rf"|\w+ needs (?:epsilon0?|delta0?) (?:[<>]=?) (?:{_AMOUNT})(?:/[0-9]+)?, got (?:{_AMOUNT})"
        rf"|delta=(?:{_AMOUNT}) must be at most 1/n = (?:{_AMOUNT})|people trust nobody, so delta is 0",
        fields=(
            r"\w+\.parameters\.(parts\.)?(epsilon0?|delta0?)",
            r"(amplify|calibrate)\.(epsilon0|delta0)",
        ),
        sees="what was asked of a protocol, or of its parts, which keep it or do better: no guarantee",
        trust="as the guarantee beside it",
    ),
    Claim(
        name="people of several levels",
        says=rf"epsilon0 = (?:{_AMOUNT}), [0-9,]+ people: epsilon = (?:{_AMOUNT}) if messages hide the level, (?:{_AMOUNT}) if "
        rf"they reveal it|delta = (?:{_AMOUNT}), if (?:{_AMOUNT}) % of the people of each level are honest",
        fields=(r"amplify\.levels\.(epsilon0|hidden|visible)",),
        sees="all messages of a shuffle without senders, and the level of each if messages reveal it, of people who chose "
        "this level",
        trust=_SHUFFLER + "; no level depends on a value",
    ),
    Claim(
        name="what shuffling gives",
        says=rf"Shuffling turns epsilon0 = (?:{_AMOUNT}) into epsilon = (?:{_AMOUNT}) \(delta = (?:{_AMOUNT})\)",
        fields=(r"amplify\.bounds\.epsilon",),
        sees="all messages of a shuffle without senders, of any randomizer with that local epsilon",
        trust=_SHUFFLER,
    ),
    Claim(
        name="local budget",
        says=rf"epsilon0 = (?:{_AMOUNT})",
        sees="the message of one person, with the sender",
        trust=_NOBODY,
    ),
    Claim(
        name="lower bound",
        says=rf"No analysis of [^.]* can give less than epsilon = (?:{_AMOUNT})",
        fields=(r"amplify\.lower",),
        sees="all messages of a shuffle without senders, of the worst randomizer with that local epsilon",
        trust=_SHUFFLER,
    ),
    Claim(
        name="ledger",
        says=rf"(?:Spent(?: of data set '[^']*')?: epsilon (?:{_AMOUNT}) of (?:{_AMOUNT}), delta (?:{_AMOUNT}) of "
        rf"(?:{_AMOUNT})|The budget of '[^']*' is now epsilon = (?:{_AMOUNT}), delta = (?:{_AMOUNT})"
        rf"|with it, (?:epsilon|delta) would be (?:{_AMOUNT})[^;]*, and the budget is (?:{_AMOUNT}))",
        fields=(r"ledger\.\w+\.(budget|releases|spent)\.\w+", r"ledger\.(budget|spent)\.\w+"),
        sees="all releases of the data set together, each in its own view",
        releases="all that the ledger holds, composed by the rule that it names",
        trust="as each release needs; and whoever writes the file of the ledger",
    ),
    Claim(
        name="audit",
        says=rf"(?:The claim \(epsilon = (?:{_AMOUNT}), delta = (?:{_AMOUNT})\)"
        rf"|delta (?:=|>=|<=) (?:{_AMOUNT}) at epsilon = (?:{_AMOUNT})"
        rf"|epsilon >= (?:{_AMOUNT}) at delta = (?:{_AMOUNT}), with confidence (?:{_AMOUNT}))",
        fields=(r"audit\.(claimed_delta|claimed_epsilon|delta|lower|epsilon)",),
        sees="what the audited view is: one message, or all messages of n people without senders",
        trust="that the audited code is the one that runs",
    ),
    Claim(
        name="an example",
        says=rf"(?:said yes \(500 did\), with epsilon = (?:{_AMOUNT})|on their way to work, epsilon = (?:{_AMOUNT}) "
        r"for each question)",
        sees="made-up people: nobody is protected",
        trust=_NOBODY,
    ),
    Claim(
        name="live: noise of the servers",
        says=r"epsilon = \$\{(?:p\.)?epsilon\}, delta = \$\{(?:p\.)?delta\} \(\$\{together\}\), (?:whoever|even if|by the) "
        rf"|epsilon = (?:{_AMOUNT}), delta = (?:{_AMOUNT}) \(for (?:all reports of a device together|each report of a "
        r"device)\), (?:whoever lies, drops|even if it drops|by the (?:analyzer's noise|shuffler's messages) alone)",
        sees="the analyzer: all messages of a window among the shuffler's; the shuffler: who took part, and what is "
        "published, with the analyzer's noise; readers: what is published",
        releases="one window, or all windows of the collection together where that is said (composed)",
        unit=_DEVICE,
        trust="shuffler and analyzer do not conspire, and the one that is not compromised adds its noise; nobody else's "
        "honesty",
    ),
    Claim(
        name="live: the promise",
        says=r"epsilon = \{epsilon\}, delta = \{delta\}"
        rf"|epsilon = (?:{_AMOUNT}), delta = (?:{_AMOUNT}) \(for (?:all reports of a device together|each report of a device)\)",
        fields=(r"collection\.results\.(promise\.(epsilon|delta)|if_honest(\.\w+)*)",),
        sees="what is published: the answers of a window, and the tallies behind them",
        releases="one window, or all windows of the collection together where that is said (composed)",
        trust="shuffler and analyzer do not conspire; the stated number of reports of a batch are honest",
    ),
    Claim(
        name="live: a rehearsal",
        says=rf"epsilon = (?:{_AMOUNT}), delta = (?:{_AMOUNT}), (?:no floor|local epsilon = (?:{_AMOUNT})), for one report of "
        r"each device in one window; the (?:devices|servers) add the noise",
        fields=(r"collection\.(epsilon|delta|local_epsilon)",),
        sees="made-up people: nobody is protected; what one window of the survey would promise",
        unit=_DEVICE,
        trust=_NOBODY,
    ),
    Claim(
        name="live: nothing to add",
        says=rf"a local epsilon of (?:{_AMOUNT}) keeps (?:epsilon=(?:{_AMOUNT})|the (?:{_AMOUNT}) of a question) without any "
        "dummies",
        sees="every report of a device, with the device",
        releases="one window, or all windows of the collection together where these are composed",
        unit=_DEVICE,
        trust=_NOBODY,
    ),
    Claim(
        name="live: what a device has spent",
        says=rf"epsilon: (?:{_AMOUNT}) of (?:{_AMOUNT}) spent, (?:{_AMOUNT}) left; floor: (?:{_AMOUNT}) of (?:{_AMOUNT}) spent"
        rf"|the device has spent epsilon = (?:{_AMOUNT}) of (?:{_AMOUNT}), and this collection costs (?:{_AMOUNT})",
        sees="all that the collections publish, each in its own view; floors: every report, with the device",
        releases="all reports of this device, over all collections; epsilons are added",
        unit=_DEVICE,
        trust="as the promise of each collection; floors: " + _NOBODY,
    ),
    Claim(
        name="live: hardly a floor",
        says=rf"a local epsilon above (?:{_AMOUNT}), which hides nothing from a shuffler that conspires",
        sees="every report of a device, with the device",
        releases="one report",
        unit=_DEVICE,
        trust="the shuffler: without it nothing is left",
    ),
    Claim(
        name="live: the floor",
        says=r"(?:local epsilon|conspire: epsilon) = \{"
        rf"|local epsilon = (?:{_AMOUNT})(?: for each of [0-9,]+ reports, (?:{_AMOUNT}) together)?: somebody who thought "
        rf"yes and no equally likely guesses right in at most (?:{_AMOUNT}) %",
        fields=(r"collection\.results\.promise\.local_epsilon",),
        sees="every report of a device, with the device",
        releases="all reports that a device may send: reports_per_device times the local epsilon",
        unit=_DEVICE,
        trust=_NOBODY + ": all others may conspire",
    ),
)
"""Every kind of sentence, the more special ones first."""


def find_claims(text: str) -> list[tuple[int, int, Claim]]:
    """Return where in a text which claims are made; line breaks count as spaces.

    >>> found = find_claims("rr: epsilon = 1, delta = 0: local model, replace-one neighbours, no other honest user")
    >>> [claim.name for _, _, claim in found]
    ['guarantee, local model']
    """
    line = _join_lines(text)
    spans: list[tuple[int, int, Claim]] = []
    for claim in CLAIMS:
        for match in re.finditer(claim.says, line):
            start, end = match.span()
            if not any(s <= start and end <= e for s, e, _ in spans):
                spans.append((start, end, claim))
    return sorted(spans, key=lambda each: each[:2])


def list_unclaimed(text: str) -> list[str]:
    """Return what a text states about privacy that no claim is known for.

    >>> list_unclaimed("Trust us: epsilon = 0.1 for everybody.")
    ['Trust us: epsilon = 0.1 for everybody.']
    """
    line, spans = _join_lines(text), find_claims(text)
    return [
        line[max(0, match.start() - 60) : match.end() + 40]
        for match in _NUMBER.finditer(line)
        if not any(start <= match.start() < end for start, end, _ in spans)
    ]


def find_field(command: str, path: str) -> Claim | None:
    """Return the claim that a field of a command's JSON makes; None: none is known.

    >>> find_field("run", "epsilon").name, find_field("run", "secret_epsilon")
    ('guarantee, shuffle model', None)
    """
    for claim in CLAIMS:
        if any(re.fullmatch(field, f"{command}.{path}") for field in claim.fields):
            return claim
    return None


def _join_lines(text: str) -> str:
    return re.sub(r"\s+", " ", text)
