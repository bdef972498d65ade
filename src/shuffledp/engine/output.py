"""Files out: whole or not at all.

A file is written beside its place under a name that starts with a dot, and moved there when it is
complete. Whatever goes wrong before, an interruption included, leaves nothing behind; and what was
there already is never overwritten.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shuffledp.core.errors import DataError

__all__ = ["publish", "staged", "text_file", "work_folder"]


@contextmanager
def staged(out: str | Path) -> Iterator[Path]:
    """A private folder for the work; the file of the same name in it becomes `out` at the end.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with staged(f"{folder}/a.txt") as work:
    ...         _ = Path(work, "a.txt").write_text("done")
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['a.txt']
    """
    target = Path(out)
    if target.exists():
        raise DataError(f"{target} exists already: choose another name, or remove it first")
    work = work_folder(target)
    try:
        yield work
        publish(work / target.name, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def work_folder(target: Path) -> Path:
    """A new private folder beside the target, in which to write it.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     work_folder(Path(folder, "a.txt")).name.startswith(".a.txt.")
    True
    """
    try:
        return Path(tempfile.mkdtemp(prefix=f".{target.name[:50]}.", dir=target.parent))
    except OSError as error:
        raise DataError(f"{target} cannot be written: {error.strerror}") from error


def publish(done: Path, target: Path) -> None:
    """Move without overwriting: a link fails if there is something, a rename does not.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     done = text_file(f"{folder}/a.txt", "done")
    ...     publish(done, Path(folder, "b.txt"))
    ...     Path(folder, "b.txt").read_text()
    'done'
    """
    try:
        os.link(done, target)
    except FileExistsError:
        raise DataError(f"{target} exists already: somebody wrote it meanwhile") from None
    except OSError:  # a file system without links
        done.rename(target)


def text_file(out: str | Path, text: str) -> Path:
    """Write a text file, whole or not at all.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text_file(f"{folder}/a.txt", "done").read_text()
    'done'
    """
    with staged(out) as work:
        (work / Path(out).name).write_text(text, encoding="utf-8")
    return Path(out)
