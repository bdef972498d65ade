"""Files out: whole or not at all.

A file is written in a private folder beside its place and moved there when it is complete. Whatever
goes wrong before, an interruption included, leaves nothing behind. What was there already is never
overwritten unless that is asked for; and of several files, all get to their places or none.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shuffledp.core.errors import DataError

__all__ = ["Staged", "explain_unwritable", "stage", "write_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Where each output is written first, and how all of them get to their places."""

    places: dict[Path, Path]
    force: bool

    def __getitem__(self, target: Path) -> Path:
        return self.places[target]

    def add(self, target: Path, place: Path) -> None:
        """One more output that has been written, in the folder of another."""
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
                _put_back(_backup(self.places[target]), target)
            raise

    def _move(self, place: Path, target: Path) -> None:
        if self.force:
            _keep(target, _backup(place))
            place.replace(target)
            return
        try:
            os.link(place, target)  # fails if there is something; a rename does not
        except FileExistsError:
            raise DataError(f"{target} exists already: somebody wrote it meanwhile") from None
        except OSError:  # a file system without links
            place.rename(target)


def _backup(place: Path) -> Path:
    """Where the file that an output replaces waits until all outputs are in their places."""
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
            claims.callback(shutil.rmtree, _work_folder(target, folders), ignore_errors=True)
            claims.enter_context(_claim(target))
            if target.exists() and not force:
                raise DataError(f"{target} exists already: choose another name, or remove it first")
        places = zip(targets, folders, strict=True)
        yield Staged(
            places={target: folder / target.name for target, folder in places}, force=force
        )


def _work_folder(target: Path, folders: list[Path]) -> Path:
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
        with explain_unwritable(target):
            outputs[target].write_text(text, encoding="utf-8")
        outputs.publish()
    return target
