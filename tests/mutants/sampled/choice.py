"""Which tests to run against a mutant: those that cover its line, the nearest and the fastest first.

Lines that run when a module is imported (constants, fields, defaults) belong to no test. For them it is
the tests of the lines that mention the name, or of the function whose default it is. Then come other
tests of the function and of the module: what is remembered between tests is covered by the first of
them only.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.sampled.recording import Recorded
from mutants.sampled.sample import Mutant, room_of

SECONDS = 60.0
"""How long the tests of one mutant may take, as recorded; those beyond are not run."""
_FURTHER = 20.0  # seconds of them for tests that do not cover the line itself
_BATCHES = (3.0, 15.0)  # seconds of tests: few files are collected for a mutant that dies early


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Tests to be run one batch after the other."""

    batches: Sequence[Sequence[str]]
    seconds: Sequence[float]
    """How long each batch takes, as recorded."""
    covering: int
    """How many tests run the line."""


def choose_tests(mutant: Mutant, recorded: Recorded, limit: float = SECONDS) -> Choice:
    """Return the tests of a mutant, in batches, up to the limit."""
    near, further = find_lines(mutant.text, mutant.place.line)
    covering: set[str] = set()
    for lines in near:
        covering = covering or recorded.covering(mutant.file, lines)
    named, others = find_by_name(mutant.file, recorded)
    own = covering | named
    chosen = list(_up_to(limit, sort_tests(mutant.file, own, recorded), recorded))
    left = min(_FURTHER if covering else limit, limit - sum(map(recorded.seconds, chosen)))
    for found in (others, *(recorded.covering(mutant.file, lines) for lines in further)):
        more = sort_tests(mutant.file, found - set(chosen), recorded)
        more = list(_up_to(left, more, recorded))
        chosen += more
        left -= sum(map(recorded.seconds, more))
    batches = list(_cut(chosen, recorded))
    return Choice(
        batches=batches,
        seconds=[sum(map(recorded.seconds, batch)) for batch in batches],
        covering=len(covering),
    )


def find_by_name(file: str, recorded: Recorded) -> tuple[set[str], set[str]]:
    """Of the files that no recording knows: the module's examples and tests that mention it; other tests of its room."""
    path = Path(file)
    stem = path.parent.name if path.stem == "__init__" else path.stem
    known, near, others = recorded.files, {file}, set()
    for test in (recorded.root / "tests" / room_of(file)).rglob("test_*.py"):
        says = f"{test.stem} {test.read_text(encoding='utf-8')}"
        found = near if re.search(rf"\b(test_)?{stem}\b", says) else others
        found.add(test.relative_to(recorded.root).as_posix())
    return near - known, others - known


def find_lines(text: str, line: int) -> tuple[list[set[int]], list[set[int]]]:
    """Return sets of lines that stand for a line, the best first; then those of the function and the module."""
    tree = ast.parse(text)
    inside = [node for node in _statements(tree) if line in _range(node)]
    functions = [
        node for node in inside if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    everything = set(range(1, len(text.splitlines()) + 1))
    near = [{line}]
    running = [node for node in functions if line >= node.body[0].lineno]
    if inside:
        near.append(_header(inside[-1]))
    if functions and functions[-1] not in running:
        near.append(set(_range(functions[-1])))
    elif not running and inside:
        near.append(_mentions(tree, _names(inside[-1])))
    if (
        not running
    ):  # a test that imports a module late runs all of these lines, and says nothing of most
        near = [set.union(*near)]
    return near, [*(set(_range(node)) for node in reversed(functions)), everything]


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements, the outer before the inner."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            yield node
        yield from _statements(node)


def _range(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _header(node: ast.stmt) -> set[int]:
    """The lines of a statement without the block that it has."""
    inner = min((each.lineno for each in _statements(node)), default=None)
    return {line for line in _range(node) if inner is None or line < inner} or {node.lineno}


def _names(node: ast.stmt) -> set[str]:
    """What a statement of a module or a class gives a value to."""
    match node:
        case ast.Assign(targets=targets):
            found = [each for target in targets for each in ast.walk(target)]
        case ast.AnnAssign(target=target):
            found = list(ast.walk(target))
        case _:
            found = []
    return {each.id for each in found if isinstance(each, ast.Name)}


def _mentions(tree: ast.AST, names: set[str]) -> set[int]:
    """The lines of functions in which one of the names is read."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {
        each.lineno
        for function in functions
        for each in ast.walk(function)
        if (isinstance(each, ast.Name) and each.id in names)
        or (isinstance(each, ast.Attribute) and each.attr in names)
    }


def sort_tests(file: str, tests: Iterable[str], recorded: Recorded) -> list[str]:
    """Return the tests, those of the module and of the room first; one of each kind before a second."""
    stem, room = Path(file).stem, room_of(file)

    def distance(test: str) -> int:
        place = test.partition("::")[0]
        if place == file or Path(place).stem.startswith(f"test_{stem}"):
            return 0
        return 1 if place.startswith((f"tests/{room}/", f"tests/test_{room}")) else 2

    seen = Counter[str]()
    keys = {}
    for test in sorted(tests, key=lambda test: (recorded.seconds(test), test)):
        kind = test.partition("[")[0]
        seen[kind] += 1
        # Two of a kind before anything from another room, then all of them.
        keys[test] = (max(distance(test), min(seen[kind] - 1, 3)), seen[kind])
    return sorted(keys, key=lambda test: (*keys[test], recorded.seconds(test), test))


def _up_to(limit: float, tests: Sequence[str], recorded: Recorded) -> Iterator[str]:
    """The tests, without those that would take more time than is left."""
    left = limit
    for test in tests:
        if recorded.seconds(test) <= left:
            left -= recorded.seconds(test)
            yield test


def _cut(tests: Sequence[str], recorded: Recorded) -> Iterator[list[str]]:
    """Batches of tests, each by file."""
    limits, batch, took = list(_BATCHES), [], 0.0
    for test in tests:
        batch.append(test)
        took += recorded.seconds(test)
        if limits and took >= limits[0]:
            limits.pop(0)
            yield _by_file(batch)
            batch, took = [], 0.0
    if batch:
        yield _by_file(batch)


def _by_file(tests: Sequence[str]) -> list[str]:
    places = list(dict.fromkeys(test.partition("::")[0] for test in tests))
    return sorted(tests, key=lambda test: places.index(test.partition("::")[0]))
