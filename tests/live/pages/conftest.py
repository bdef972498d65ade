"""A browser and a running desk, shared by all tests of the pages."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from shuffledp.live.pages import speak
from support import need

BROWSER = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def mirror_catalogue():
    """A catalogue of another direction: the English texts, marked, from right to left."""

    def mark(text):
        if isinstance(text, dict):
            return {key: mark(each) for key, each in text.items()}
        if isinstance(text, list):
            return [mark(each) for each in text]
        return f"\N{ARABIC LETTER AIN} {text}"

    table = {key: mark(each) for key, each in speak("en").table.items() if key != "about"}
    about = {**speak("en").table["about"], "language": "ar", "direction": "rtl"}
    return json.dumps({"about": about, **table})


@pytest.fixture(scope="module")
def browser():
    need(BROWSER, "chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        need(False, "playwright")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield started
        started.close()


@contextmanager
def serve(data, *options):
    """`shuffledp serve` in a data folder, and the addresses that it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "shuffledp", "serve", "--workers", "1", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_DATA_HOME": str(data)},
    )
    printed = ""
    while "End with" not in printed:
        line = process.stdout.readline()
        assert line, printed
        printed += line
    names = {"page": "Answer it", "results": "See results", "desk": "Your desk"}
    found = {key: re.search(rf"{name}:\s+(\S+)", printed)[1] for key, name in names.items()}
    yield {**found, "printed": printed}
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) in (0, 143)
    process.stdout.close()


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory):
    """`shuffledp serve`, with a language from right to left."""
    data = tmp_path_factory.mktemp("data")
    (data / "shuffledp" / "languages").mkdir(parents=True)
    (data / "shuffledp" / "languages" / "ar.json").write_text(mirror_catalogue())
    with serve(data) as found:
        yield found
