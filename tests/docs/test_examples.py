"""Every Python block and every `shuffledp` command of the README and of the documentation runs."""

import doctest
import hashlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from typer.testing import CliRunner

import shuffledp as sdp
from repository import ROOT, documents
from shuffledp.cli import app

FENCE = re.compile(r"^```+ *(python|console) *$", re.MULTILINE)
OTHER_PYTHON = re.compile(r"^```+ *(py|py3|Python|pycon|python3|\{.*python.*\})\b", re.MULTILINE)
OTHER_CONSOLE = re.compile(
    r"^```+ *(?!console)\w* *\n(?:(?!```).*\n)*?\$? *shuffledp ", re.MULTILINE
)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def typed(text):
    """The commands of a console block, each with the output that it shows."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield shlex.split(command, comments=True), output.strip()


SERVERS = ("serve", "shuffler", "analyzer")
PORTS = {}


def place_of(folder):
    """The id of the collection that a page made, and ports that are free instead of those that it names."""
    ports = PORTS.setdefault(folder, {})
    for port in ("8000", "8001"):
        ports.setdefault(port, str(sdp.live.serve.find_port()))
    made = folder / "survey" / "collection.json"
    found = {
        **ports,
        "ID": hashlib.sha256(made.read_bytes()).hexdigest() if made.exists() else "ID",
    }
    return lambda word: re.sub(r"\b(8000|8001|ID)\b", lambda match: found[match[0]], word)


def serve_until_the_end(words, folder):
    """A server is a process of its own; it answers before the page goes on, and ends with it."""
    command = [sys.executable, "-m", "shuffledp", *words[1:]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    RUNNING.append(process)
    for line in process.stdout:
        if "End with Ctrl-C" in line:
            return
    raise AssertionError(f"{shlex.join(words)} ended with {process.wait()}")


RUNNING = []


@pytest.fixture(autouse=True)
def servers():
    yield
    while RUNNING:
        process = RUNNING.pop()
        process.send_signal(signal.SIGINT)
        process.stdout.close()
        process.wait(30)


def write_survey(example):
    """The survey file that the text before the block names."""
    before = example.document.text[: example.start]
    for name in re.findall(r"`(\w+\.toml)`", before)[-1:]:
        Path(name).write_text(example.parsed)


def run_commands(example):
    for typed_words, expected in typed(example.parsed):
        words = [*map(place_of(Path.cwd()), typed_words)]
        if words[0] == "cp":
            shutil.copy(words[1], words[2])
        if words[0] != "shuffledp":
            continue  # make and pip are not ours to run here
        if words[1] in SERVERS:
            serve_until_the_end(words, Path.cwd())
            continue
        target = None
        if ">" in words:
            words, target = words[: words.index(">")], Path(words[-1])
        result = CliRunner().invoke(app, words[1:])
        if target is not None:
            target.write_text(result.stdout)
        assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"
        OUTPUTS[Path.cwd()] = result.output
        same = doctest.OutputChecker().check_output(expected + "\n", result.stdout, SAME)
        assert same or not expected, f"{shlex.join(words)} printed {result.stdout}"


OUTPUTS = {}


def strip_numbers(line):
    """A line of output without what noise decides: digits, the widths of columns and the lengths of bars."""
    words = re.sub(r"[─━═┏┓┗┛┡┩┃│└┘┳┻╇┴╈●├┤█▏▎▍▌▋▊▉░]+", " ", line)
    return " ".join(re.sub(r"[+-]?[0-9][0-9.,e+-]*", "#", words).split())


def compare_output(example):
    """The output that a page shows below a command has the lines of the real one, but for the numbers."""
    before = example.document.text[: example.start]
    if not re.search(r"```console\n(?:(?!```)[\s\S])*```\s*$", before):
        return
    wanted = [strip_numbers(line) for line in example.parsed.splitlines()]
    real = " ".join(strip_numbers(line) for line in OUTPUTS[Path.cwd()].splitlines())
    for line in filter(None, wanted):
        assert line.removesuffix(" ...").removesuffix(" …") in real, f"{line!r} is not in: {real}"


PYTHON = PythonCodeBlockParser(doctest_optionflags=SAME)
EXAMPLES = Sybil(
    parsers=[
        PYTHON,
        CodeBlockParser("console", run_commands),
        CodeBlockParser("toml", write_survey),
        CodeBlockParser("text", compare_output),
    ]
)
WITH_EXAMPLES = [path for path in documents() if FENCE.search(path.read_text())]


def shown(path):
    return str(path.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the examples run; the files that the pages talk about are there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "tests" / "plugin")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sdp.tasks, "_TASKS", known := dict(sdp.tasks.TASKS))
    monkeypatch.setattr(sdp.tasks, "TASKS", known)  # a task of a page is for that page alone
    (tmp_path / "demo").mkdir()
    sdp.samples.survey(3000).write_csv(tmp_path / "people.csv")
    sdp.samples.survey(3000).write_csv(tmp_path / "demo" / "people.csv")
    sdp.samples.trips().write_csv(tmp_path / "demo" / "trips.csv")
    (tmp_path / "words.txt").write_text("cat\n" * 2000 + "dog\n" * 1000, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=shown)
def test_examples_run(path, folder):
    blocks = 0
    for example in EXAMPLES.parse(path).examples():
        example.evaluate()
        blocks += 1
    assert blocks >= len(FENCE.findall(path.read_text())), "a block was not found by the parser"


def test_examples_are_found():
    assert ROOT / "README.md" in WITH_EXAMPLES
    assert len(WITH_EXAMPLES) > 5


@pytest.mark.parametrize("path", documents(), ids=shown)
def test_no_block_escapes_by_another_name(path):
    assert not OTHER_PYTHON.search(path.read_text())
    assert not OTHER_CONSOLE.search(path.read_text())


@pytest.mark.parametrize(
    "block",
    [
        "```python\n>>> 1 + 1\n3\n```\n",
        "```console\n$ shuffledp abacus\n```\n",
        "```console\n$ shuffledp --version\nshuffledp 99\n```\n",
        "```console\n$ shuffledp \\\n    abacus\n```\n",
    ],
)
def test_a_wrong_example_is_noticed(tmp_path, block):
    page = tmp_path / "page.md"
    page.write_text(block)
    (example,) = EXAMPLES.parse(page).examples()
    with pytest.raises(AssertionError):
        example.evaluate()


def test_a_stale_output_is_noticed(folder):
    page = folder / "page.md"
    command = "```console\n$ shuffledp run count people.csv --column home --epsilon 1 --delta 1e-8\n```\n\n"
    for shown_below, right in (("count of home, 50,000 people", True), ("count of house", False)):
        page.write_text(f"{command}```text\n{shown_below}\n```\n")
        run, compare = EXAMPLES.parse(page).examples()
        run.evaluate()
        if right:
            compare.evaluate()
        else:
            with pytest.raises(AssertionError, match="count of house"):
                compare.evaluate()


def test_output_may_be_shortened(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ shuffledp --version  # which\nshuffledp 0...\n```\n")
    (example,) = EXAMPLES.parse(page).examples()
    example.evaluate()
