"""Capabilities are declared, and nothing is sniffed: not from devices and analyzers, not from the names of tasks."""

import ast
from functools import cache

import pytest

from contract.examples import all_examples
from repository import ROOT
from shuffledp.core.capabilities import Capabilities, CentralCapabilities, list_capabilities
from shuffledp.tasks import TASKS

SOURCES = ROOT / "src" / "shuffledp"
FOREIGN = {  # what other libraries' objects have is asked of them here
    "cli/__init__.py",
    "cli/doctor.py",
    "core/domain.py",
    "engine/columns.py",
    "engine/queries.py",
    "live/serve/journal.py",
    "numerics/entropy.py",
    "questions/files.py",
}
NAMES_OF_TASKS = 0  # comparisons outside the tasks' own files
METHODS = {
    "deal": ("randomizer", "deal"),
    "code": ("randomizer", "code"),
    "blankets": ("randomizer", "blankets"),
    "stream": ("randomizer", "deal_words"),
    "influence": ("analyzer", "influence"),
    "reach": ("analyzer", "reach"),
    "bias": ("analyzer", "bias"),
    "bin_errors": ("analyzer", "squared_errors"),
    "foresee": ("analyzer", "foresee"),
    "predict": ("analyzer", "predict"),
    "estimate_stepwise": ("analyzer", "estimate_stepwise"),
}


def list_cases():
    """A case of each protocol and model, a tiny one if there is any."""
    found = {}
    for own in all_examples():
        for case in (*own.cases("tiny"), *own.cases("ordinary")):
            found.setdefault((case.spec.name, case.model), case)
    return [*found.values()]


CASES = list_cases()


@cache
def trees():
    return {
        path.relative_to(SOURCES).as_posix(): ast.parse(path.read_text())
        for path in SOURCES.rglob("*.py")
    }


@cache
def nodes(tree):
    return [*ast.walk(tree)]


def calls(tree, *names):
    return [
        node
        for node in nodes(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    ]


def list_protocol_classes():
    """Structural types: an `isinstance` of them looks for methods. (`Column` is also a class of the engine.)"""
    return {
        node.name
        for tree in trees().values()
        for node in nodes(tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
    } - {"Column"}


def find_questions(tree):
    """Where an object is asked for what it has: hasattr, and getattr with a default."""
    return calls(tree, "hasattr") + [each for each in calls(tree, "getattr") if len(each.args) > 2]


def find_sniffs(tree, structural):
    """The same, and isinstance of a structural type."""
    asked = find_questions(tree)
    for each in calls(tree, "isinstance", "issubclass"):
        kinds = {node.id for node in ast.walk(each.args[1]) if isinstance(node, ast.Name)}
        kinds |= {node.attr for node in ast.walk(each.args[1]) if isinstance(node, ast.Attribute)}
        if kinds & structural:
            asked.append(each)
    return asked


def test_nothing_is_sniffed():
    structural = list_protocol_classes()
    assert {"Randomizer", "Analyzer", "Device", "Stream"} <= structural
    for name, tree in trees().items():
        foreign = find_questions(tree) if name in FOREIGN else []
        assert len(find_sniffs(tree, structural)) == len(foreign), name


@pytest.mark.parametrize(
    "code",
    [
        'hasattr(device, "deal")',
        'getattr(device, "deal", None)',
        "isinstance(device, Stream)",
        "isinstance(device, KRR | core.Stream)",
    ],
)
def test_a_sniff_is_noticed(code):
    assert len(find_sniffs(ast.parse(code), {"Stream"})) == 1
    assert not find_sniffs(ast.parse('isinstance(device, KRR), getattr(self, "x")'), {"Stream"})


def is_home(task, file):
    return task.__module__ == "shuffledp." + file.removesuffix(".py").replace("/", ".")


def find_names_of_tasks(tree, file="elsewhere.py"):
    """Comparisons of something with the name of a task, or with some of them, outside the files of all of these."""
    strange = {name for name, task in TASKS.items() if not is_home(task, file)}
    found = []
    for node in nodes(tree):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        texts = [
            {each.value for each in getattr(side, "elts", [side]) if isinstance(each, ast.Constant)}
            for side in sides
        ]
        named = any(some <= set(TASKS) and some & strange for some in texts)
        about = {"task", "inner", "kind", "answers", "name"} & {
            getattr(side, "attr", getattr(side, "id", "")) for side in sides
        }
        if named and about:
            found.append(node)
    return found


def count_names_of_tasks():
    found = {file: len(find_names_of_tasks(tree, file)) for file, tree in trees().items()}
    return {file: count for file, count in found.items() if count}


def test_tasks_are_not_known_by_name():
    found = count_names_of_tasks()
    assert sum(found.values()) <= NAMES_OF_TASKS, found


def test_a_name_of_a_task_is_noticed():
    code = 'task.name == "mean", self.task in ("sum", "mean"), kind == "path", name == "meaning"'
    assert len(find_names_of_tasks(ast.parse(code))) == 2
    assert not find_names_of_tasks(ast.parse(code), "tasks/totals.py")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_what_a_device_or_an_analyzer_can_do_is_declared(case):
    protocol = case.protocol
    for name, (where, method) in METHODS.items():
        if hasattr(getattr(protocol, where), method):
            assert getattr(protocol.offers, name) is not None, name


def test_every_capability_is_offered_by_some_protocol():
    offered = {name for case in CASES for name in case.protocol.offers.declared()}
    assert offered == set(list_capabilities())


def test_every_line_says_what_and_what_without():
    for kind in (Capabilities, CentralCapabilities):
        for line in list_capabilities(kind).values():
            assert line.what
            assert line.without
