"""Files out: whole or not at all.

A file is written in a private folder beside its place and moved there when it is complete. Whatever
goes wrong before, an interruption included, leaves nothing behind. What was there already is never
overwritten unless that is asked for; and of several files, all get to their places or none.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shuffledp.core.errors import DataError

__all__ = ["Staged", "stage", "write_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Where each output is written first, and how all of them get to their places."""

    places: dict[Path, Path]
    force: bool

    def __getitem__(self, target: Path) -> Path:
        return self.places[target]

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
    try:
        for target in targets:
            if target.exists() and not force:
                raise DataError(f"{target} exists already: choose another name, or remove it first")
            folders.append(_work_folder(target))
        places = zip(targets, folders, strict=True)
        yield Staged(
            places={target: folder / target.name for target, folder in places}, force=force
        )
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


def _work_folder(target: Path) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=f".{target.name[:50]}.", dir=target.parent))
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror}") from error


def write_text(out: str | Path, text: str) -> Path:
    """Write a text file, whole or not at all.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/a.txt", "done").read_text()
    'done'
    """
    target = Path(out)
    with stage([target]) as outputs:
        outputs[target].write_text(text, encoding="utf-8")
        outputs.publish()
    return target
