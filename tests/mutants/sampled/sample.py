"""A random sample of mutants: uniform over all places of the rooms, the same for the same seed.

Every place has a number: the digest of the seed, its file, its line and what it says. The sample is the
places with the smallest numbers, so it does not depend on any list of ours, a larger sample contains a
smaller one, and code that changes elsewhere leaves it as it is.
"""

import hashlib
import json
import shutil
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.sampled.places import Place, find_places, find_required

HERE = Path(__file__).resolve().parent
PYTHON, SCRIPTS = "src/shuffledp", "clients/js/src"
FOUNDATION = (
    "accounting",
    "core",
    "ledger",
    "live/wire",
    "mechanisms",
    "numerics",
    "protocols",
)
SERVICE = ("clients/js", "engine", "live", "planner", "questions", "tasks")
FLOORS = {"foundation": 0.95, "service": 0.90}
"""The share of sampled mutants that must be killed."""
KINDS = ("equivalent", "tuning")
ANY = "*"
"""In place of the changed lines."""
_KEYS = {"file", "old", "new", "kind", "reason"}


class SampleError(Exception):
    """There is no such sample, or the list of explained mutants is malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one place."""

    file: str
    """The path from the root."""
    text: str
    """The whole file."""
    place: Place
    new: str

    @property
    def room(self) -> str:
        return room_of(self.file)

    @property
    def changed(self) -> str:
        """The whole file with the change."""
        return self.text[: self.place.start] + self.new + self.text[self.place.end :]

    @property
    def diff(self) -> tuple[str, str]:
        """The lines that change, and what they become, without their indentation."""
        first = self.text.rfind("\n", 0, self.place.start) + 1
        last = self.text.find("\n", self.place.end)
        last = len(self.text) if last < 0 else last
        before, after = self.text[first : self.place.start], self.text[self.place.end : last]
        return _strip(self.text[first:last]), _strip(before + self.new + after)

    def __str__(self) -> str:
        old, new = (text.splitlines() for text in self.diff)
        lines = [f"{self.file}:{self.place.line}: {self.place.operator}"]
        lines += [f"    - {line}" for line in old] + [f"    + {line}" for line in new]
        return "\n".join(lines)


def _strip(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


def room_of(file: str) -> str:
    """The room of a source file.

    >>> [room_of(f"src/shuffledp/{end}") for end in ("core/errors.py", "live/wire/report.py", "testing.py")]
    ['core', 'live/wire', 'testing']
    >>> room_of("clients/js/src/laws.js")
    'clients/js'
    """
    if file.startswith(SCRIPTS):
        return "clients/js"
    parts = Path(file).relative_to(PYTHON).with_suffix("").parts
    return "live/wire" if parts[:2] == ("live", "wire") else parts[0]


def choose_rooms(name: str, rooms: Iterable[str]) -> list[str]:
    """The rooms of a group, or those that are named, with commas between them.

    >>> choose_rooms("around", ["core", "engine", "show"]), choose_rooms("show,core", ["core", "show"])
    (['show'], ['core', 'show'])
    """
    known = sorted(set(rooms))
    groups = {
        "all": known,
        "foundation": FOUNDATION,
        "service": SERVICE,
        "around": [room for room in known if room not in FOUNDATION + SERVICE],
    }
    wanted = groups.get(name) or name.split(",")
    unknown = set(wanted) - set(known)
    if unknown and name not in groups:
        raise SampleError(
            f"rooms={name!r} must be one of {', '.join(groups)}, or rooms with commas between them: "
            f"{', '.join(known)}"
        )
    return [room for room in known if room in wanted]


def read_places(root: Path, node: str | None = None) -> dict[str, tuple[str, list[Place]]]:
    """The text and the places of every source file, in Python and, if there is Node, in JavaScript."""
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / PYTHON).rglob("*.py"))
    }
    required = find_required(iter(texts.values()))
    found = {file: (text, find_places(text, required)) for file, text in texts.items()}
    scripts = sorted((root / SCRIPTS).glob("*.js"))
    node = node or shutil.which("node")
    if scripts and node:
        command = [node, "--expose-internals", str(HERE / "places.cjs"), *map(str, scripts)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for path, places in json.loads(done.stdout).items():
            text = Path(path).read_text(encoding="utf-8")
            assert all(ord(each) < 0x10000 for each in text)  # Node counts in 16 bits
            fine = [Place(**(each | {"news": tuple(each["news"])})) for each in places]
            found[Path(path).relative_to(root).as_posix()] = (text, fine)
    return found


def draw_sample(
    places: dict[str, tuple[str, list[Place]]], rooms: Sequence[str], n: int, seed: str
) -> list[Mutant]:
    """Return n mutants of the rooms, each of another place, in random order."""
    drawn = []
    for file, (text, found) in places.items():
        if room_of(file) not in rooms:
            continue
        lines, seen = text.splitlines(), Counter[tuple[str, ...]]()
        for place in found:
            says = (lines[place.line - 1].strip(), place.old, place.operator)
            seen[says] += 1
            digest = hashlib.sha256(repr((seed, file, says, seen[says])).encode()).digest()
            new = place.news[int.from_bytes(digest[-8:], "big") % len(place.news)]
            drawn.append((digest, Mutant(file=file, text=text, place=place, new=new)))
    if n > len(drawn):
        raise SampleError(f"n={n} must be at most {len(drawn)}, the number of places in {rooms}")
    return [mutant for _, mutant in sorted(drawn, key=lambda pair: pair[0])[:n]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Why no test can, or should, tell a mutant from the original."""

    file: str
    """The end of the path."""
    old: str
    new: str
    """The changed lines; * for all changes of lines that say nothing but how fast or how fine something is."""
    kind: str
    """equivalent, or tuning: speed and tables, nothing that is promised."""
    reason: str

    def fits(self, mutant: Mutant) -> bool:
        old, new = mutant.diff
        here = f"/{mutant.file}".endswith(f"/{self.file}") and old == _strip(self.old.strip())
        return here and (self.new == ANY or new == _strip(self.new.strip()))


def load_explained(folder: Path = HERE / "explained") -> list[Explained]:
    """Read the mutants that are left out of the share, from a file for each room.

    `file` is the end of a path, `old` and `new` are the lines that the runner prints after - and +;
    new = "*" is every change of a line that is tuning as a whole (how many at a time, where a search
    starts). Each has its reason.

    >>> all(each.reason for each in load_explained())
    True
    """
    entries: list[Explained] = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", []):
            if entry.keys() != _KEYS or entry["kind"] not in KINDS or not entry["reason"].strip():
                raise SampleError(f"{path.name}: {entry} must have {sorted(_KEYS)}; kind: {KINDS}")
            if entry["old"] == entry["new"]:
                raise SampleError(f"{path.name}: {entry} changes nothing")
            entries.append(Explained(**entry))
    keys = Counter((each.file, each.old, each.new) for each in entries)
    if twice := [key for key, times in keys.items() if times > 1]:
        raise SampleError(f"{folder.name}: explained more than once: {twice}")
    return entries
