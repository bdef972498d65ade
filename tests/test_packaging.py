"""What pyproject.toml states about dependencies is true."""

import importlib.util
import re
import tomllib

import pytest

from repository import ROOT, tracked_files

SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
EXTRAS = PROJECT["optional-dependencies"]
NEEDED = {"pandas"}
"""What nobody imports here, but PySpark does."""
PINS = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().split())


def floors():
    spec = importlib.util.spec_from_file_location("floors", ROOT / ".ci/floors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.floors((ROOT / "pyproject.toml").read_text())


def test_the_extra_all_has_every_other_but_dev():
    (everything,) = EXTRAS["all"]
    inside = set(re.search(r"\[(.*)\]", everything)[1].split(","))
    assert inside == EXTRAS.keys() - {"all", "dev"}


@pytest.mark.parametrize("name", floors())
def test_every_dependency_is_imported_somewhere(name):
    sources = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert name in NEEDED or re.search(rf"^\s*(import|from) {name}\b", sources, re.MULTILINE)


@pytest.mark.parametrize("name", floors())
def test_the_tests_run_with_a_version_above_the_floor(name):
    floor, pinned = floors()[name], PINS[name]
    assert [int(part) for part in pinned.split(".")] >= [int(part) for part in floor.split(".")]


def test_the_workflow_runs_every_python_and_targets_that_exist():
    yaml = pytest.importorskip("yaml")  # of mkdocs
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    runs = workflow["jobs"]["run"]["strategy"]["matrix"]["include"]
    named = [re.search(r":: Python :: (3\.\d+)$", line) for line in PROJECT["classifiers"]]
    assert [run["python"] for run in runs if "target" not in run] == [at[1] for at in named if at]
    others = {run["target"]: run["python"] for run in runs if "target" in run}
    assert {"lowest", "coverage"} <= others.keys()
    makefile = (ROOT / "Makefile").read_text()
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in others)
    assert others["lowest"] == min(run["python"] for run in runs)


def test_the_contracts_of_imports_know_every_room():
    """A room that no layer mentions could import anything."""
    package = ROOT / "src" / "shuffledp"
    ours = [path for path in tracked_files() if package in path.parents and path.suffix == ".py"]
    rooms = {path.relative_to(package).parts[0].removesuffix(".py") for path in ours}
    rooms -= {"__init__", "__main__"}
    contracts = SETTINGS["tool"]["importlinter"]["contracts"]
    layers, *forbidden = [
        {name.removeprefix("shuffledp.") for name in re.findall(r"shuffledp\.\w+", str(modules))}
        for modules in (each.get("layers", each.get("source_modules")) for each in contracts)
    ]
    assert layers == rooms
    assert rooms - {"testing"} in forbidden
    assert set.union(*forbidden) <= rooms
