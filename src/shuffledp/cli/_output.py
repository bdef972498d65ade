"""Files that a command writes: checked before anything else happens, whole or not at all."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import shuffledp as sdp
from shuffledp.engine.output import Staged, stage

__all__ = ["Staged", "check_free", "check_picture", "drawn", "keep_inputs", "staged"]


@contextmanager
def staged(targets: Sequence[Path | None], *, force: bool) -> Iterator[Staged]:
    """Check that the outputs can be written, and let them be written beside their places.

    Whatever happens before `publish`, an interruption included, leaves nothing behind.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> with staged([folder / "a.json"], force=False) as outputs:
    ...     _ = outputs[folder / "a.json"].write_text("{}")
    ...     outputs.publish()
    >>> [path.name for path in folder.iterdir()]
    ['a.json']
    """
    wanted = [target for target in targets if target is not None]
    if len({target.absolute() for target in wanted}) < len(wanted):
        raise sdp.UnsupportedError(f"two outputs have the same name: {wanted[0]}")
    for target in wanted:
        check_free(target, force=force)
    before = _exit_when_terminated()
    try:
        with stage(wanted, force=force) as outputs:
            yield outputs
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _exit_when_terminated() -> Any:
    """Let a polite kill unwind like an interruption; returns the handler to restore, if any."""
    if threading.current_thread() is not threading.main_thread():
        return None

    def stop(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    return signal.signal(signal.SIGTERM, stop)


def check_free(target: Path | None, *, force: bool) -> None:
    """Refuse to write over a folder, or over a file unless forced.

    >>> check_free(Path("."), force=True)
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: . is a folder: name a file
    """
    if target is None:
        return
    if target.is_dir():
        raise sdp.UnsupportedError(f"{target} is a folder: name a file")
    if target.exists() and not force:
        raise sdp.UnsupportedError(f"{target} exists: choose another name, or give --force")


@contextmanager
def drawn(target: Path, *, force: bool) -> Iterator[Path]:
    """Where to draw a picture that becomes `target` when it is complete; makes missing folders.

    >>> from tempfile import mkdtemp
    >>> target = Path(mkdtemp()) / "pictures" / "a.svg"
    >>> with drawn(target, force=False) as place:
    ...     _ = place.write_text("<svg/>")
    >>> target.read_text()
    '<svg/>'
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with staged([target], force=force) as outputs:
        yield outputs[target]
        outputs.publish()


def keep_inputs(targets: Sequence[Path | None], inputs: Sequence[str | Path | None]) -> None:
    """Refuse to write over a file that is read, whatever --force says.

    >>> keep_inputs([Path("people.csv")], ["people.csv"])
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: people.csv is also read: choose another name for the output
    """
    kept = {Path(path).resolve() for path in inputs if path is not None}
    for target in targets:
        if target is not None and target.resolve() in kept:
            raise sdp.UnsupportedError(f"{target} is also read: choose another name for the output")


def check_picture(path: Path | None, formats: Sequence[str] | None = None) -> None:
    """Refuse a picture that could not be drawn, before anything is read or charged.

    >>> check_picture(Path("result.doc"))
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: result.doc: a picture ends in one of .html, .pdf, .png, .svg
    """
    if path is None:
        return
    from shuffledp.plots.results import FORMATS
    from shuffledp.plots.style import new_figure

    known = FORMATS if formats is None else formats
    if path.suffix not in known:
        raise sdp.UnsupportedError(f"{path}: a picture ends in one of {', '.join(known)}")
    check_free(path, force=True)
    if path.suffix != ".html":
        new_figure(1, 1)
