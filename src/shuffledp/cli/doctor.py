"""`shuffledp doctor`: what works on this machine, and how to get the rest."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
import time
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import typer

import shuffledp as sdp
from shuffledp.cli._options import JsonOption
from shuffledp.cli._terminal import echo_json, is_quiet, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_PATIENCE = 20  # seconds that a program may take to say its version
_WORDS = 1 << 20  # eight megabytes of keystream
_FIRST_JAVA = 17  # that Spark 4 runs on
_WIDTH = 80 - 27  # what is left beside the marks and names
_EXTRAS = {
    "data": ("files: run, learn, test, randomize", ("duckdb", "pyarrow")),
    "plot": ("pictures: --plot, demo, lab", ("matplotlib",)),
    "frames": ("to_pandas(), to_polars(), to_arrow()", ("pandas", "polars", "pyarrow")),
    "serve": (
        "live collections: collection, serve, report",
        ("starlette", "uvicorn", "httptools", "httpx"),
    ),
    "spark": ("the Spark engine", ("pyspark", "pandas")),
}
"""What each extra is for, and what has to be importable."""
_BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "firefox",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """One thing that was checked."""

    name: str
    works: bool
    needed: bool
    """Whether nothing works without it."""
    found: str
    advice: str | None = None
    """How to get it."""


def doctor(as_json: JsonOption = False) -> None:
    """Report what works on this machine, and how to get the rest.

    The exit code is 1 if something that every command needs is missing or broken.

    $ shuffledp doctor
    """
    findings = list(_examine())
    well = all(each.works for each in findings if each.needed)
    if as_json:
        echo_json({"well": well, "findings": [asdict(each) for each in findings]})
    else:
        for each in findings:
            if not (is_quiet() and each.works):
                _print(each)
        tell("All that is needed works." if well else "Something that is needed is broken.")
    if not well:
        raise typer.Exit(1)


def _print(finding: _Finding) -> None:
    mark = "ok" if finding.works else "BROKEN" if finding.needed else "-"
    lines = textwrap.wrap(finding.found, _WIDTH, break_long_words=False, break_on_hyphens=False)
    if finding.advice is not None and not finding.works:
        lines += textwrap.wrap(finding.advice, _WIDTH)
    for place, line in enumerate(lines or [""]):
        head = "" if place else f"{mark:<7}{finding.name:<20}"
        typer.echo(f"{head:<27}{line}")


def _examine() -> Iterator[_Finding]:
    """Yield all findings; whatever happens while looking is a finding, too."""
    yield _look(
        "Python", lambda: f"{platform.python_version()}, {sys.platform} {platform.machine()}"
    )
    yield _look("shuffledp", _tell_version)
    for name in ("numpy", "scipy", "cryptography", "typer", "rich"):
        yield _look(name, partial(_import_all, (name,)))
    yield _look("entropy", _try_entropy)
    yield _look("AES-256-CTR", _measure_aes)
    yield _look("a first answer", _try_answer)
    for name, (purpose, modules) in _EXTRAS.items():
        get = f"{purpose}: install the extra shuffledp[{name}]"
        yield _look(f"extra {name}", partial(_import_all, modules), get)
    yield _look("Java", _find_java, f"the Spark engine needs Java {_FIRST_JAVA} or later")
    yield _look("browser", _find_browser, "to answer live collections: chromium or firefox")
    yield _look(
        "node", lambda: _ask_version("node"), "to run the JavaScript device in programs: nodejs.org"
    )


def _look(name: str, look: Callable[[], str], advice: str | None = None) -> _Finding:
    """Return what `look` says; without advice it is something that every command needs."""
    try:
        found, works = look(), True
    except Exception as error:  # a doctor does not faint
        found, works = _describe(error), False
    return _Finding(name=name, works=works, needed=advice is None, found=found, advice=advice)


def _describe(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"{error.name} is not installed"
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _tell_version() -> str:
    place = Path(__file__).parents[1]
    try:
        version("shuffledp")
    except PackageNotFoundError:
        return f"{sdp.__version__}, imported from {place} without being installed"
    return f"{sdp.__version__} in {place}"


def _import_all(modules: tuple[str, ...]) -> str:
    return ", ".join(f"{name} {_import(name)}" for name in modules)


def _import(name: str) -> str:
    module = import_module(name)
    try:
        return version(name)
    except PackageNotFoundError:
        return str(getattr(module, "__version__", "of unknown version"))


def _try_entropy() -> str:
    """Return the system's source, and that our words come from it and differ."""
    if len(set(os.urandom(32))) < 2:
        raise OSError("os.urandom returned 32 equal bytes")
    first, second = sdp.SecureWords().words(4), sdp.SecureWords().words(4)
    if (first == second).any():
        raise OSError("two secure sources gave the same word")
    return "getrandom of the system" if hasattr(os, "getrandom") else "os.urandom of the system"


def _measure_aes() -> str:
    source = sdp.SecureWords()
    source.words(_WORDS)
    start = time.perf_counter()
    source.words(_WORDS)
    speed = _WORDS * 8 / (time.perf_counter() - start) / 1e9
    slow = "" if speed > 0.5 else "; slow: does the processor have instructions for AES?"
    return f"{speed:.1f} GB of words a second{slow}"


def _try_answer() -> str:
    protocol = sdp.protocols.rr.make_local(epsilon=1.0)
    value = sdp.run(protocol, [True, False] * 500).value
    return f"about {value:.0f} of 1,000 said yes (500 did), with epsilon = 1"


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    own = None if home is None else shutil.which(Path(home, "bin", "java"))
    text = _ask_version(own or "java", "-version")
    match = re.search(r'"(\d+)', text)
    if match is not None and int(match[1]) < _FIRST_JAVA:
        raise OSError(f"{text}: too old")
    return text


def _find_browser() -> str:
    for name in _BROWSERS:
        if shutil.which(name):
            return _ask_version(name)
    return _find_playwright()


def _find_playwright() -> str:
    """Return the browser installed by Playwright, if any."""
    places = (Path.home() / ".cache/ms-playwright", Path.home() / "Library/Caches/ms-playwright")
    browsers = sorted(each.name for place in places for each in place.glob("chromium-*"))
    if not browsers:
        raise OSError("none was found")
    return f"{browsers[-1]} of Playwright"


def _ask_version(program: str | Path, option: str = "--version") -> str:
    """Return the first line that a program says about itself."""
    path = shutil.which(program)
    if path is None:
        raise OSError(f"no {program} on the path")
    done = subprocess.run(  # noqa: S603
        [path, option], capture_output=True, text=True, timeout=_PATIENCE, check=False
    )
    lines = (done.stdout + done.stderr).strip().splitlines()
    if done.returncode or not lines:
        raise OSError(f"{path} {option} failed: {lines[0] if lines else done.returncode}")
    return lines[0].strip()
