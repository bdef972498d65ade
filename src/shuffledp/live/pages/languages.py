"""What the pages say, in every language: one file of texts for each, `texts/NAME.json`.

English and German come with the package; others are files of the same form in `languages` of the data folder. A file
has every text of the English one, with the same placeholders, or it is refused: no page is half translated.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from shuffledp.core.errors import DataError

__all__ = ["Catalogue", "find_data_folder", "list_languages", "speak"]

_SHIPPED = Path(__file__).parent / "texts"
_SLOT = re.compile(r"\{(\w+)\}")
_FORMS = {"zero", "one", "two", "few", "many", "other"}
_TAG = re.compile(r"[a-z]{2,3}(-[a-z0-9]{2,8})*")


def find_data_folder() -> Path:
    """Where surveys, the outbox and more languages of this person are: `shuffledp` in the folder for data.

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
        found: Any = self.table
        for name in key.split("."):
            found = found[name]
        return found

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
    found = {path.stem: _read(path) for path in sorted(_SHIPPED.glob("*.json"))}
    for path in sorted((find_data_folder() / "languages").glob("*.json")):
        if path.stem in found:
            raise DataError(f"{path}: {path.stem} comes with the package already")
        found[path.stem] = _read(path)
        _compare(path, found["en"].table, found[path.stem].table)
    return found


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
    """Keys and their placeholders; forms by number count as one text."""
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
    found = _read_catalogues()
    tag = language.lower()
    return found.get(tag) or found.get(tag.partition("-")[0]) or found["en"]
