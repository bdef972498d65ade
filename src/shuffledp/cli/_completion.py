"""What a shell offers after TAB: names of tasks, protocols and engines, and the columns of the files on the line.

Nothing here may fail or print: whatever goes wrong, there is nothing to offer. Files are looked at as
lightly as possible, since somebody is waiting: the first line of a text, the schema of a Parquet file.
"""

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import typer

import shuffledp as sdp

_SURVEYS = "*.toml"


def _offer(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    """Return the names with this beginning; none if they cannot be listed."""
    with suppress(Exception):
        return [name for name in names() if name.startswith(incomplete)]
    return []


def complete_task(incomplete: str) -> list[str]:
    """Return the questions, and survey files in this folder.

    >>> complete_task("hist")
    ['histogram']
    """
    return _offer(_list_tasks, incomplete)


def _list_tasks() -> Iterator[str]:
    yield from (name for name, task in sdp.tasks.TASKS.items() if task.elsewhere is None)
    yield from (str(path) for path in sorted(Path().glob(_SURVEYS)))


def complete_protocol(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the protocols and mechanisms for the question on the line, or all of them.

    >>> from types import SimpleNamespace
    >>> complete_protocol(SimpleNamespace(params={"task": "count"}, args=[]), "rr")
    ['rr']
    """
    return _offer(lambda: _list_protocols(_list_words(ctx)), incomplete)


def _list_words(ctx: typer.Context) -> list[str]:
    """Return the arguments on the line. Before an option whose value is missing, they are not parsed yet."""
    known = (ctx.params.get("task"), *(ctx.params.get("paths") or ()))
    return [word for word in (*known, *ctx.args) if word]


def _list_protocols(words: list[str]) -> list[str]:
    known = {each.name: {each.task} for each in sdp.protocols.PROTOCOLS}
    known |= {each.name: {*each.tasks} for each in sdp.mechanisms.MECHANISMS}
    asked = next((sdp.tasks.TASKS[word] for word in words if word in sdp.tasks.TASKS), None)
    wanted = None if asked is None else {asked.name, *asked.answered_by}
    return sorted(name for name, own in known.items() if wanted is None or own & wanted)


def complete_randomizer(incomplete: str) -> list[str]:
    """Return the local protocols.

    >>> complete_randomizer("kr")
    ['krr']
    """
    return _offer(
        lambda: sorted(each.name for each in sdp.protocols.PROTOCOLS if each.make_local), incomplete
    )


def complete_audited(incomplete: str) -> list[str]:
    """Return the protocols, and tables of probabilities in this folder.

    >>> complete_audited("kr")
    ['krr']
    """
    return _offer(_list_audited, incomplete)


def _list_audited() -> Iterator[str]:
    yield from sorted(each.name for each in sdp.protocols.PROTOCOLS)
    yield from (str(path) for path in sorted(Path().glob("*.json")))


def complete_engine(incomplete: str) -> list[str]:
    """Return the engines.

    >>> complete_engine("s")
    ['spark']
    """
    return _offer(lambda: sdp.engine.ENGINES, incomplete)


def complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns of the files that are on the line already."""
    columns = _offer(lambda: list_columns(_list_words(ctx)), incomplete)
    # Bash inserts what it is offered as it is; the other shells put quotes where they are needed.
    in_bash = os.environ.get("_SHUFFLEDP_COMPLETE", "").endswith("bash")
    return [re.sub(r"([^\w@%+=:,./-])", r"\\\1", name) for name in columns] if in_bash else columns


def list_columns(paths: Iterable[str]) -> list[str]:
    """Return the columns of the first of these paths that has some.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp(), "pets.csv")
    >>> _ = path.write_text("name,legs\\ncat,4\\n")
    >>> list_columns(["nowhere.csv", str(path)])
    ['name', 'legs']
    """
    for path in filter(None, map(_find_file, paths)):
        with suppress(sdp.ShuffledpError, OSError):
            (file,) = sdp.engine.find_files(path)
            return [*file.columns, *dict(file.partition)]
    return []


def _find_file(path: str) -> Path | None:
    """Return the first file that a path names; None for standard input, which can be read only once."""
    if Path(path).is_file():
        return Path(path)
    if Path(path).is_dir():
        return next((each for each in sorted(Path(path).rglob("*.*")) if each.is_file()), None)
    return next(map(Path, sorted(glob.glob(path))), None)  # noqa: PTH207  (it may be absolute)
