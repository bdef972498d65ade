"""Every Python block and every `shuffledp` command of the README and of the documentation runs."""

import doctest
import re
import shlex

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


def run_commands(example):
    for words, expected in typed(example.parsed):
        if words[0] != "shuffledp":
            continue  # make and pip are not ours to run here
        result = CliRunner().invoke(app, words[1:])
        assert result.exit_code == 0, f"{shlex.join(words)}: {result.output}"
        same = doctest.OutputChecker().check_output(expected + "\n", result.stdout, SAME)
        assert same or not expected, f"{shlex.join(words)} printed {result.stdout}"


PYTHON = PythonCodeBlockParser(doctest_optionflags=SAME)
EXAMPLES = Sybil(parsers=[PYTHON, CodeBlockParser("console", run_commands)])
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
    monkeypatch.setattr(sdp.tasks, "_TASKS", known := dict(sdp.tasks.TASKS))
    monkeypatch.setattr(sdp.tasks, "TASKS", known)  # a task of a page is for that page alone
    (tmp_path / "demo").mkdir()
    sdp.samples.survey(3000).write_csv(tmp_path / "people.csv")
    sdp.samples.survey(3000).write_csv(tmp_path / "demo" / "people.csv")
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


def test_output_may_be_shortened(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ shuffledp --version  # which\nshuffledp 0...\n```\n")
    (example,) = EXAMPLES.parse(page).examples()
    example.evaluate()
