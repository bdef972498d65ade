"""Write files, completely or not at all; and write results: all about an answer as JSON, or its numbers as a table.

A file is written in a private folder beside its place and moved there when it is complete. Whatever
goes wrong before, an interruption included, leaves nothing behind. What was there already is never
overwritten unless that is asked for; and of several files, all get to their places or none.
"""

import csv
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shuffledp.core.display import Number
from shuffledp.core.errors import DataError, ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Where each output is written first, and how all of them get to their places."""

    places: dict[Path, Path]
    force: bool

    def __getitem__(self, target: Path) -> Path:
        return self.places[target]

    def write(self, target: Path | None, write: Callable[[Path], object]) -> None:
        """Let an output be written, if it is wanted; errors name where it belongs."""
        if target is not None:
            with explain_unwritable(target):
                write(self.places[target])

    def add(self, target: Path, place: Path) -> None:
        """Add one more output that has been written, in the folder of another."""
        self.places[target] = place

    def publish(self) -> None:
        """Move what was written to where it belongs: all of it, or what was there before stays."""
        moved: list[Path] = []
        try:
            for target, place in self.places.items():
                self._move(place, target)
                moved.append(target)
        except BaseException:
            for target in moved:
                _put_back(_name_backup(self.places[target]), target)
            raise

    def _move(self, place: Path, target: Path) -> None:
        if self.force:
            _keep(target, _name_backup(place))
            place.replace(target)
            return
        try:
            os.link(place, target)  # fails if there is something; a rename does not
        except FileExistsError:
            raise DataError(f"{target} already exists: somebody wrote it in the meantime") from None
        except OSError:  # a file system without links
            place.rename(target)


def _name_backup(place: Path) -> Path:
    """Return where the file that an output replaces waits until all outputs are in their places."""
    return place.with_name(place.name + ".before")


def _keep(target: Path, backup: Path) -> None:
    if not os.path.lexists(target):
        return
    try:
        os.link(target, backup, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(target, backup, follow_symlinks=False)


def _put_back(backup: Path, target: Path) -> None:
    with suppress(OSError):  # the error that brought us here is the one to tell
        if os.path.lexists(backup):
            backup.replace(target)
        else:
            target.unlink()


@contextmanager
def stage(targets: Sequence[Path], *, force: bool = False) -> Iterator[Staged]:
    """Let outputs be written beside their places; `publish` moves them there.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder, "a.json")
    ...     with stage([target]) as outputs:
    ...         _ = outputs[target].write_text("{}")
    ...         outputs.publish()
    ...     [path.name for path in Path(folder).iterdir()]
    ['a.json']
    """
    folders: list[Path] = []
    with ExitStack() as claims:
        for target in targets:
            claims.callback(shutil.rmtree, _make_folder(target, folders), ignore_errors=True)
            claims.enter_context(_claim(target))
            if target.exists() and not force:
                raise DataError(f"{target} already exists: choose another name, or remove it first")
        places = zip(targets, folders, strict=True)
        yield Staged(
            places={target: folder / target.name for target, folder in places}, force=force
        )


def _make_folder(target: Path, folders: list[Path]) -> Path:
    with explain_unwritable(target):
        folders.append(Path(tempfile.mkdtemp(prefix=f".{target.name[:50]}.", dir=target.parent)))
    return folders[-1]


@contextmanager
def explain_unwritable(target: Path) -> Iterator[None]:
    """Say which file cannot be written: a full disk does not.

    >>> with explain_unwritable(Path("r.json")):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    shuffledp.core.errors.DataError: r.json cannot be written: No space left on device
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror or error}") from error


@contextmanager
def _claim(target: Path) -> Iterator[None]:
    """Lock this file: if two answers that were paid for went into it, one would be lost.

    The lock is that of a file beside it, and the system releases it however this process ends.
    """
    try:
        import fcntl
    except ImportError:  # pragma: no cover  (no such locks on this system)
        yield
        return
    place = target.with_name(f".{target.name[:50]}.lock")
    with explain_unwritable(target):
        file = os.open(place, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    held = False
    try:
        with suppress(BlockingIOError):
            held = _lock(place, file, fcntl.flock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not held:
            raise DataError(f"{target} is being written by another run")
        yield
    finally:
        if held:
            place.unlink(missing_ok=True)
        os.close(file)


def _lock(place: Path, file: int, lock: Callable[[int, int], None], how: int) -> bool:
    """Lock an open file; False if its name has been given to another one meanwhile."""
    try:
        lock(file, how)
    except BlockingIOError:
        raise
    except OSError:  # a network file system without locks
        return True
    return place.exists() and os.path.samestat(os.fstat(file), place.stat())


def write_text(out: str | Path, text: str) -> Path:
    """Write a text file, whole or not at all.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/a.txt", "done").read_text()
    'done'
    """
    target = Path(out)
    with stage([target]) as outputs:
        outputs.write(target, lambda place: place.write_text(text, encoding="utf-8"))
        outputs.publish()
    return target


def write_result(record: Mapping[str, Any], path: Path) -> Path:
    """Write what `to_dict` of an answer says, as the suffix of the path tells: .json, .csv, .tsv or .parquet.

    >>> from tempfile import mkdtemp
    >>> row = {"label": "count", "value": 7.0, "stderr": 1.0, "low": 5.0, "high": 9.0}
    >>> print(write_result({"estimate": [row]}, Path(mkdtemp(), "r.csv")).read_text(), end="")
    label,value,stderr,low,high
    count,7.0,1.0,5.0,9.0
    """
    _WRITERS[check_result(path)](record, path)
    return path


def check_result(path: Path) -> str:
    """Return the suffix of a file for a result; refuses one that no result is written to.

    >>> check_result(Path("r.parquet"))
    '.parquet'
    """
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        raise ParameterError("out", str(path), f"must end in one of {', '.join(_WRITERS)}")
    return suffix


def _write_json(record: Mapping[str, Any], path: Path) -> None:
    text = json.dumps(record, allow_nan=False, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _write_text(record: Mapping[str, Any], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        mark = "\t" if path.suffix.lower() == ".tsv" else ","
        names = list(record["estimate"][0]) if record["estimate"] else Number._fields
        writer = csv.DictWriter(file, names, delimiter=mark, lineterminator="\n")
        writer.writeheader()
        writer.writerows(record["estimate"])


def _write_parquet(record: Mapping[str, Any], path: Path) -> None:
    """Write the rows, and all about them as JSON in the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list(record["estimate"])
    label, *numbers = list(rows[0]) if rows else Number._fields
    about = {"shuffledp": json.dumps(record, allow_nan=False)}
    typed = [(label, pa.string()), *((name, pa.float64()) for name in numbers)]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(typed, metadata=about)), path)


_WRITERS: Mapping[str, Callable[[Mapping[str, Any], Path], None]] = {
    ".json": _write_json,
    ".csv": _write_text,
    ".tsv": _write_text,
    ".parquet": _write_parquet,
}
