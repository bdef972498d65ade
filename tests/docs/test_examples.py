"""Every Python block of the README and of the documentation runs."""

import re

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from repository import ROOT, documents

FENCE = re.compile(r"^```+ *python *$", re.MULTILINE)
OTHER_PYTHON = re.compile(r"^```+ *(py|py3|Python|pycon|python3|\{.*python.*\})\b", re.MULTILINE)
EXAMPLES = Sybil(parsers=[PythonCodeBlockParser()])
WITH_EXAMPLES = [path for path in documents() if FENCE.search(path.read_text())]


def shown(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=shown)
def test_examples_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = 0
    for example in EXAMPLES.parse(path).examples():
        example.evaluate()
        blocks += 1
    assert blocks >= len(FENCE.findall(path.read_text())), "a block was not found by the parser"


def test_examples_are_found():
    assert ROOT / "README.md" in WITH_EXAMPLES
    assert len(WITH_EXAMPLES) > 5


@pytest.mark.parametrize("path", documents(), ids=shown)
def test_no_python_block_escapes_by_another_name(path):
    assert not OTHER_PYTHON.search(path.read_text())


def test_a_wrong_example_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> 1 + 1\n3\n```\n")
    (example,) = EXAMPLES.parse(page).examples()
    with pytest.raises(AssertionError, match="Expected"):
        example.evaluate()
