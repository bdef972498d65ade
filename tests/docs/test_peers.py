"""The code of other libraries that the guides show runs too, wherever those libraries are installed.

They live in an environment of their own, because their requirements are not ours: `make peers` makes it in
.venv-peers, and PEERS_PYTHON names another. A block belongs to a library if its fence has the title "NAME VERSION".
"""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from repository import ROOT, documents

MODULES = {"OpenDP": "opendp", "pure-ldp": "pure_ldp", "multi-freq-ldpy": "multi_freq_ldpy"}
TITLED = re.compile(r"^```python +(.+)\n((?:.*\n)*?)```$", re.MULTILINE)
TITLE = re.compile(r'title="([\w-]+) ([\d.]+)"')
LOCAL = ROOT / ".venv-peers" / "bin" / "python"
PYTHON = os.environ.get("PEERS_PYTHON", str(LOCAL) if LOCAL.exists() else sys.executable)
REQUIREMENTS = (ROOT / "benchmarks" / "requirements.txt").read_text()

RUN = """
import doctest, json, sys, warnings
warnings.simplefilter("ignore")
blocks, flags = json.load(sys.stdin), doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
space, runner = {}, doctest.DocTestRunner(optionflags=flags)
for number, block in enumerate(blocks):
    test = doctest.DocTestParser().get_doctest(block, space, f"block {number}", None, 0)
    assert test.examples, block
    runner.run(test, clear_globs=False)
    space = test.globs
sys.exit(runner.summarize().failed)
"""

LOOK = """
import importlib, inspect, json, pkgutil, sys, warnings
warnings.simplefilter("ignore")
package, asked = json.load(sys.stdin)
roots = {"opendp": ["opendp.prelude"], "pure_ldp": ["pure_ldp.frequency_oracles", "pure_ldp.heavy_hitters"]}
where = [importlib.import_module(name) for name in roots.get(package, [])]
if not where:
    import multi_freq_ldpy.pure_frequency_oracles as home
    where = [importlib.import_module(f"{home.__name__}.{each.name}") for each in pkgutil.iter_modules(home.__path__)]
for name, words in asked:
    first, *rest = name.split(".")
    found = [getattr(place, first) for place in where if hasattr(place, first)]
    assert found, name
    thing = found[0]
    for part in rest:
        thing = getattr(thing, part)
    parameters = inspect.signature(getattr(thing, "py_func", thing)).parameters if words else {}
    assert set(words) <= set(parameters), (name, words, list(parameters))
"""


def blocks():
    """(page, library, version, code) of every block with a title."""
    for path in documents():
        for info, code in TITLED.findall(path.read_text()):
            match = TITLE.fullmatch(info.strip())
            assert match, f"{path}: {info} is neither ours nor another library's"
            yield path, match[1], match[2], code


SHOWN = [*blocks()]
PAGES = sorted({(path, library) for path, library, _, _ in SHOWN})


@cache
def is_installed(library):
    asked = f"import importlib.util; assert importlib.util.find_spec({MODULES[library]!r})"
    done = subprocess.run([PYTHON, "-c", asked], capture_output=True, check=False)
    return done.returncode == 0


def run_there(library, program, given):
    if not is_installed(library):
        pytest.skip(f"{library} is not installed for {PYTHON}: run make peers")
    done = subprocess.run(
        [PYTHON, "-c", program],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("path", "library"), PAGES, ids=lambda given: getattr(given, "stem", given)
)
def test_the_code_of_others_runs(path, library):
    run_there(
        library, RUN, [code for page, name, _, code in SHOWN if (page, name) == (path, library)]
    )


def test_both_guides_show_the_code_of_others():
    assert {library for _, library, _, _ in SHOWN} == set(MODULES)
    assert {path.stem for path, _ in PAGES} == {"from-local-libraries", "from-opendp"}


@pytest.mark.parametrize(("library", "version"), sorted({block[1:3] for block in SHOWN}))
def test_a_title_names_the_version_that_is_tried(library, version):
    assert f"\n{library.lower()}=={version}\n" in REQUIREMENTS


def names_in_tables(library):
    """The names of a library in the column that is headed by it, with their keywords."""
    for path in sorted({path for path, name in PAGES if name == library}):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in path.read_text().splitlines()
            if line.startswith("| ")
        ]
        column = rows[0].index(library)
        for row in rows[1:]:
            for quoted in re.findall(r"`([^`]+)`", row[column]):
                name, _, given = quoted.partition("(")
                if name.startswith("measurement.") or name.endswith("..."):
                    continue  # a method of what a maker returns; a family of names
                yield name.removeprefix("dp."), re.findall(r"(\w+)=", given)


@pytest.mark.parametrize("library", MODULES)
def test_the_tables_name_what_exists(library):
    asked = [*names_in_tables(library)]
    assert len(asked) >= 4
    run_there(library, LOOK, [MODULES[library], asked])


def test_a_wrong_block_is_noticed(monkeypatch):
    monkeypatch.setitem(MODULES, "Python", "doctest")
    with pytest.raises(AssertionError, match="Expected"):
        run_there("Python", RUN, [">>> 1 + 1\n3\n"])


def test_a_missing_library_is_said():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODULES, "nothing", "no_such_library")
        with pytest.raises(pytest.skip.Exception, match="make peers"):
            run_there("nothing", RUN, [])


def test_the_interpreter_is_there():
    assert Path(PYTHON).exists()
