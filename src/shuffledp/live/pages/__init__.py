"""The pages of a live collection: static files, plain JavaScript modules, one style sheet, nothing from elsewhere.

The servers hand them out. They can also be hosted apart from the shuffler, with a published hash: `write_site`.

What the pages say, in every language: one file of texts for each, `texts/NAME.json`.

English and German come with the package; others are files of the same form in `languages` of the data folder. A file
has every text of the English one, with the same placeholders, or it is refused: no page is half translated.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shuffledp.core.errors import DataError

__all__ = [
    "Asset",
    "Catalogue",
    "find_asset",
    "find_data_folder",
    "list_assets",
    "list_languages",
    "speak",
    "write_site",
]


_SHIPPED = Path(__file__).parent / "texts"
_SLOT = re.compile(r"\{(\w+)\}")
_FORMS = {"zero", "one", "two", "few", "many", "other"}
_TAG = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8})*")


def find_data_folder() -> Path:
    """Return where surveys, the outbox and more languages of this person are: `shuffledp` in the folder for data.

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
