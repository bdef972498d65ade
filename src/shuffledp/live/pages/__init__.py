"""The pages of a live collection: static files, plain JavaScript modules, one style sheet, nothing from elsewhere.

The servers hand them out. They can also be hosted apart from the shuffler, with a published hash: `write_site`.

What the pages say is in one file of texts for each language, `texts/NAME.json`.

English and German come with the package; others are files of the same form in `languages` of the data folder. A file
has every text of the English one, with the same placeholders, or it is refused: no page is half translated.

What people are told about a collection comes from its document alone. The table of who may learn what has the
collection's own numbers: everybody is shown it before they answer. The privacy notice is for people and their data
protection officer: who processes what, and for how long. What only the operators can say (who they are, on which legal
basis) is left to them, and marked.
"""

import hashlib
import html
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from shuffledp.core.errors import DataError
from shuffledp.core.notebook import frame_page
from shuffledp.core.privacy import round_up
from shuffledp.core.protocol import honest_users
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.promise import Noise

__all__ = [
    "Asset",
    "Catalogue",
    "describe_trust",
    "find_asset",
    "find_data_folder",
    "list_assets",
    "list_languages",
    "speak",
    "write_privacy",
    "write_site",
]


_SHIPPED = Path(__file__).parent / "texts"
_SLOT = re.compile(r"\{(\w+)\}")
_FORMS = {"zero", "one", "two", "few", "many", "other"}
_TAG = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8})*")


def find_data_folder() -> Path:
    """Return the folder of this person's surveys, outbox and added languages: `shuffledp` in the folder for data.

    That is $XDG_DATA_HOME, by default ~/.local/share.
    """
    given = os.environ.get("XDG_DATA_HOME", "")
    base = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "share"
    return base / "shuffledp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The texts of a language, by part and key."""

    language: str
    direction: str
    table: Mapping[str, Any]

    def look(self, key: str) -> Any:
        """Return what a key like "answer.states.sent" stands for: a text, a list, or texts by number."""
        part: Any = self.table
        for name in key.split("."):
            part = part[name]
        return part

    def say(self, key: str, **values: object) -> str:
        """Return the text of a key, filled in; `n` chooses singular or plural.

        >>> speak("en").say("desk.accepted", n=2)
        '2 reports accepted.'
        """
        text = self.look(key)
        if not isinstance(text, str):
            text = text.get("one" if values.get("n") == 1 else "other", text["other"])
        return _SLOT.sub(lambda slot: self.count(values[slot[1]]), text)

    def count(self, value: object) -> str:
        """Return a number as the language writes it; a text stays as it is.

        >>> speak("de").count(12500), speak("en").count(12500)
        ('12.500', '12,500')
        """
        if isinstance(value, str):
            return value
        shown = f"{value:,}"
        if self.say("about.thousands") != ",":
            shown = shown.translate(
                {44: self.say("about.thousands"), 46: self.say("about.decimal")}
            )
        return shown

    def module(self, part: str) -> bytes:
        """Return a part as a JavaScript module, with what is known about the language."""
        content = {"about": self.table["about"], part: self.table[part]}
        return f"export default {json.dumps(content, ensure_ascii=False, separators=(',', ':'))};\n".encode()


@cache
def _read_catalogues() -> dict[str, Catalogue]:
    catalogues = {path.stem: _read(path) for path in sorted(_SHIPPED.glob("*.json"))}
    for path in sorted((find_data_folder() / "languages").glob("*.json")):
        if path.stem in catalogues:
            raise DataError(f"{path}: {path.stem} comes with the package already")
        catalogues[path.stem] = _read(path)
        _compare(path, catalogues["en"].table, catalogues[path.stem].table)
    return catalogues


def _read(path: Path) -> Catalogue:
    try:
        table = json.loads(path.read_bytes())
        about = table["about"]
        language, direction = about["language"], about["direction"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} is not a catalogue of texts: {error}") from None
    if not _TAG.fullmatch(path.stem) or language != path.stem or direction not in ("ltr", "rtl"):
        raise DataError(
            f"{path}: about must have the language of the file's name and the direction ltr or rtl"
        )
    return Catalogue(language=language, direction=direction, table=table)


def _list_texts(table: object, key: str = "") -> Iterator[tuple[str, frozenset[str]]]:
    """List keys and their placeholders; forms by number count as one text."""
    if isinstance(table, dict) and set(table) <= _FORMS and "other" in table:
        yield key, frozenset().union(*(set(_SLOT.findall(each)) for each in table.values()))
    elif isinstance(table, dict):
        for name, each in table.items():
            yield from _list_texts(each, f"{key}.{name}" if key else name)
    elif isinstance(table, list):
        for place, each in enumerate(table):
            yield from _list_texts(each, f"{key}.{place}")
    elif isinstance(table, str):
        yield key, frozenset(_SLOT.findall(table))
    else:
        raise DataError(f"{key} must be a text")


def _compare(path: Path, english: Mapping[str, Any], table: Mapping[str, Any]) -> None:
    wanted, have = dict(_list_texts(english)), dict(_list_texts(table))
    for key in sorted(wanted.keys() | have.keys()):
        if key not in have:
            raise DataError(f"{path}: the text {key} is missing")
        if key not in wanted:
            raise DataError(f"{path}: there is no text {key}")
        if wanted[key] != have[key]:
            slots = ", ".join(f"{{{each}}}" for each in sorted(wanted[key])) or "no placeholder"
            raise DataError(f"{path}: the text {key} must have {slots}")


def list_languages() -> tuple[str, ...]:
    """Return the languages that the pages speak, English first.

    >>> list_languages()[:2]
    ('en', 'de')
    """
    return tuple(sorted(_read_catalogues(), key=lambda each: (each != "en", each)))


def speak(language: str) -> Catalogue:
    """Return the catalogue of a language, of its main language (de for de-at), or English.

    >>> speak("de-at").language, speak("xx").language
    ('de', 'en')
    """
    catalogues = _read_catalogues()
    tag = language.lower()
    return catalogues.get(tag) or catalogues.get(tag.partition("-")[0]) or catalogues["en"]


_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
_PAGES = Path(__file__).parent / "static"
_REFERRER = b'<meta name="referrer" content="no-referrer">\n'
_COMMENTS = re.compile(
    rb"^[ ]*//[^\n]*\n|^[ ]*/\*\*(?:(?!\*/).)*\*/[ ]*\n|/\*\* @(?:type|param)[^*]*\*/ ?",
    re.M | re.S,
)
"""Lines of comments, and types within a line; no text or pattern of a module looks like one."""
_LANGUAGES = b'<meta name="languages" content="en">'
_PARTS = ("answer", "more", "result", "desk")
"""The parts of a catalogue: a page loads those that it needs."""
_POLICY = (
    b"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'self'; "
    b"style-src 'self'; img-src 'self' data:; connect-src https: http://127.0.0.1:* http://localhost:*; "
    b"base-uri 'none'; form-action 'none'\">\n"
)
"""For a host that sends no policy of its own: scripts are those of the page, whatever a document says."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the pages."""

    content: bytes
    media_type: str


def _find_device() -> Path:
    """Return the device's modules: part of the wheel, and of the repository beside the tests that run them."""
    packed = Path(__file__).parent / "device"
    return packed if packed.is_dir() else Path(__file__).parents[4] / "clients" / "js" / "src"


def _strip(content: bytes, suffix: str) -> bytes:
    """Return the code of a module without its comments, which are half of it: people wait for what they load.

    >>> _strip(b"// Add.\\n/** @param {number} a */\\nconst f = (/** @type {any} */ a) => a + 1; // one\\n", ".js")
    b'const f = (a) => a + 1; // one\\n'
    """
    return _COMMENTS.sub(b"", content) if suffix == ".js" else content


@cache
def _read_all() -> dict[str, Asset]:
    """Read all files, by address: /assets/NAME and /device/NAME. Node's own module is not for browsers."""
    assets: dict[str, Asset] = {}
    languages = list_languages()
    spoken = _LANGUAGES.replace(b'"en"', f'"{" ".join(languages)}"'.encode())
    for prefix, folder in (("assets", _PAGES), ("device", _find_device())):
        for path in sorted(folder.iterdir()):
            if path.suffix in _TYPES and path.name != "node.js":
                content = _strip(path.read_bytes().replace(_LANGUAGES, spoken), path.suffix)
                assets[f"/{prefix}/{path.name}"] = Asset(content, _TYPES[path.suffix])
    for language in languages:
        for part in _PARTS:
            content = speak(language).module(part)
            assets[f"/assets/{language}.{part}.js"] = Asset(content, _TYPES[".js"])
    return assets


def list_assets() -> tuple[str, ...]:
    """Return the addresses of all files.

    >>> "/device/laws.js" in list_assets()
    True
    """
    return tuple(_read_all())


def find_asset(address: str) -> Asset | None:
    """Return the file of an address, or None.

    >>> find_asset("/assets/../secret") is None
    True
    """
    return _read_all().get(address)


def write_site(folder: Path) -> str:
    """Write the participation page to a folder, for a host of its own; returns the hash to publish.

    The hash is the SHA-256 of the lines "SHA-256 address", sorted, which are also written as SHA256SUMS.
    """
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty")
    lines = []
    for address, asset in _read_all().items():
        wanted = "/index.html" if address == "/assets/answer.html" else address
        if wanted.endswith(".html") and wanted != "/index.html":
            continue
        path = folder / wanted[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        content = asset.content
        if wanted == "/index.html":  # it may stand in a subfolder: everything is found from there
            content = content.replace(_REFERRER, _REFERRER + _POLICY)
            content = content.replace(b'"/assets/', b'"assets/').replace(b'"/device/', b'"device/')
        path.write_bytes(content)
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {wanted[1:]}\n")
    sums = "".join(sorted(lines)).encode()
    (folder / "SHA256SUMS").write_bytes(sums)
    return hashlib.sha256(sums).hexdigest()


_SERVES = ("whoever serves the page or the program that asks", "nothing: it sees the answers")
_NETWORK = (
    "the network",
    "everything, but it sees who takes part, when, and in which collection",
)


def describe_trust(collection: Collection) -> list[tuple[str, str]]:
    """Return who may learn what, with the collection's own numbers: (who is compromised, what people still have)."""
    served = collection.pledge.noise is Noise.SERVERS
    rows = _list_servers(collection) if served else _list_devices(collection)
    rows += [_SERVES, _NETWORK]
    if collection.development:
        rows.insert(0, ("one operator plays all roles here", "trust as in the central model"))
    return rows


def _state_promise(collection: Collection) -> str:
    pledge = collection.pledge
    together = (
        "for all reports of a device together" if pledge.composed else "for each report of a device"
    )
    return (
        f"epsilon = {round_up(pledge.epsilon, 6)}, delta = {round_up(pledge.delta, 3)} ({together})"
    )


def _list_devices(collection: Collection) -> list[tuple[str, str]]:
    pledge = collection.pledge
    needed = honest_users(pledge.min_batch, pledge.honest)
    return [
        (
            "readers of the result; an analyzer that only watches",
            f"{_state_promise(collection)}, if {needed:,} of the reports of a batch come from honest devices, which "
            "nobody can verify",
        ),
        (
            "a shuffler that only watches",
            "everything, but it knows that they took part, and when",
        ),
        (
            "a shuffler that drops or adds reports; whoever floods the collection and blocks the others; "
            "shuffler and analyzer together",
            pledge.describe_floor(),
        ),
    ]


def _list_servers(collection: Collection) -> list[tuple[str, str]]:
    """List who may learn what if the servers add the noise: either one's is enough, whoever of the people lies."""
    promise = _state_promise(collection)
    added = sum(each.noise.mean_total for each in collection.questions if each.noise is not None)
    return [
        (
            "the analyzer alone",
            f"{promise}, whoever lies, drops out or takes part under many names: the shuffler adds about {added:,} "
            "messages that the analyzer cannot tell apart",
        ),
        (
            "the shuffler alone, with the published result",
            f"{promise}, even if it drops all other reports: the analyzer adds as much noise before anything leaves "
            "it; the shuffler knows that they took part, and when",
        ),
        ("readers of the result", "at least as much, through the noise of both servers"),
        ("shuffler and analyzer together", collection.pledge.describe_floor()),
        (
            "a shuffler that adds nothing",
            f"against readers of the result {promise}, by the analyzer's noise alone; the analyzer sees exact counts of the messages",
        ),
        (
            "an analyzer that adds nothing",
            f"against readers of the result {promise}, by the shuffler's messages alone; the shuffler can subtract them, and see one "
            "message if it drops all others",
        ),
    ]


_STYLE = (
    "td{overflow-wrap:anywhere}th,td{text-align:start;vertical-align:top;padding:.3em 1em .3em 0}"
    "mark{padding:0 .3em}@media(max-width:40em){th,td{display:block;padding:.3em 0 0}}"
)


def write_privacy(collection: Collection) -> str:
    """Write the notice as one page without scripts, in the survey's language; every text is escaped."""
    words, pledge, windows = speak(collection.texts.language), collection.pledge, collection.windows

    def say(key: str, **values: object) -> str:
        return html.escape(words.say(f"privacy.{key}", **values))

    def show_time(moment: int) -> str:
        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"

    times = {
        "start": show_time(windows.opens(0)),
        "end": show_time(windows.closes(windows.count - 1)),
    }
    promise = {
        "epsilon": f"{round_up(pledge.epsilon, 6)}",
        "delta": f"{round_up(pledge.delta, 3)}",
        "together": words.say("answer.together" if pledge.composed else "answer.each"),
    }
    alone = {"operator": say("operatorText")} if collection.development else {}
    facts = {
        "controller": f"<mark>{say('fill')}</mark>",
        "basis": f"<mark>{say('fill')}</mark>",
        "contact": html.escape(collection.texts.contact or "") or f"<mark>{say('fill')}</mark>",
        **alone,
        "purpose": "; ".join(html.escape(each.text) for each in collection.questions),
        "device": say("deviceText" if math.isfinite(pledge.local_epsilon) else "devicePlain"),
        "shuffler": say("shufflerText", url=collection.url, **times),
        "analyzer": say("analyzerText", n=pledge.min_batch),
        "public": say("publicText", **promise),
        "kept": say("keptText", **times),
        "rights": say("rightsText"),
        "id": collection.id.hex(),
    }
    rows = "".join(f"<tr><th scope=row>{say(key)}<td>{value}" for key, value in facts.items())
    title = html.escape(collection.title)
    body = (
        f"<main><h1>{say('title')}</h1><p dir=auto><strong>{title}</strong></p><p>{say('intro')}</p>"
        f"<table>{rows}</table></main>"
    )
    heading = f"{words.say('privacy.title')}: {collection.title}"
    spoken = {"language": words.language, "direction": words.direction}
    return frame_page(heading, body, _STYLE, **spoken)
