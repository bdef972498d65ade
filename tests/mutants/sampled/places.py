"""Places where Python code can be changed, with the operators that mutation tools have.

A place is a piece of text and what may stand there instead: another comparison, a constant plus or
minus one, a condition that is always true, a call that is left out. Strings, annotations, decorators,
imports, code for type checkers and the self-check of `zip` are left alone; what is inside an f-string
counts as string.

    >>> for place in find_places("def f(n):\\n    return n < 2 and max(n, 1)\\n"):
    ...     print(place.line, place.old, place.news)
    2 n < 2 and max(n, 1) ('None',)
    2 < ('<=', '>=')
    2 2 ('3', '1')
    2 and ('or',)
    2 max ('min',)
    2 1 ('2', '0')
"""

import ast
import io
import tokenize
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

COMPARISONS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
    "is": ("is not",),
    "is not": ("is",),
    "in": ("not in",),
    "not in": ("in",),
}
ARITHMETIC = {
    "+": ("-",),
    "-": ("+",),
    "*": ("/",),
    "/": ("*",),
    "//": ("/",),
    "%": ("*",),
    "**": ("*",),
    "<<": (">>",),
    ">>": ("<<",),
    "&": ("|",),
    "|": ("&",),
    "^": ("&",),
}
LOGIC = {"and": ("or",), "or": ("and",)}
NAMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "minimum": "maximum",
    "maximum": "minimum",
    "startswith": "endswith",
    "endswith": "startswith",
}
_TYPES = {"int", "float", "str", "bytes", "bool", "object", "list", "tuple", "dict", "set", "None"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A piece of a source file, and what may stand there instead."""

    line: int
    """The first line, counted from 1."""
    start: int
    end: int
    """Where the piece begins and ends, in characters from the beginning of the file."""
    old: str
    news: tuple[str, ...]
    operator: str


def find_places(text: str, required: frozenset[str] = frozenset()) -> list[Place]:
    """Return every place of a source file, in their order.

    `required` are names of arguments that no call can do without: to leave one out is an error that
    every test notices, and says nothing about them.
    """
    finder = _Finder(text=text, required=required)
    found = {
        (place.start, place.end, place.operator): place for place in finder.walk(ast.parse(text))
    }
    return [found[key] for key in sorted(found, key=lambda key: (key[0], -key[1], key[2]))]


def find_required(texts: Iterator[str]) -> frozenset[str]:
    """Return the names that are arguments or fields without a default, and never with one.

    >>> sorted(find_required(iter(["def f(a, b=1, *, c, d=2): ...", "def g(*, d): ..."])))
    ['a', 'c']
    """
    with_default: set[str] = set()
    without: set[str] = set()
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                _sort_arguments(node.args, with_default, without)
            elif isinstance(node, ast.ClassDef):
                for each in node.body:
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                        (with_default if each.value else without).add(each.target.id)
    return frozenset(without - with_default)


def _sort_arguments(found: ast.arguments, with_default: set[str], without: set[str]) -> None:
    names = [each.arg for each in (*found.posonlyargs, *found.args)]
    first = len(names) - len(found.defaults)
    without.update(names[:first])
    with_default.update(names[first:])
    for each, default in zip(found.kwonlyargs, found.kw_defaults, strict=True):
        (without if default is None else with_default).add(each.arg)


@dataclass(kw_only=True)
class _Finder:
    text: str
    required: frozenset[str]
    _starts: list[int] = field(init=False)
    _bytes: list[bytes] = field(init=False)

    def __post_init__(self) -> None:
        lines = self.text.splitlines(keepends=True)
        self._bytes = [line.encode() for line in lines]
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    @cached_property
    def tokens(self) -> list[tuple[int, int, str]]:
        """All tokens but comments and line ends: start, end, text."""
        left_out = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT)
        return [
            (self._starts[a[0] - 1] + a[1], self._starts[b[0] - 1] + b[1], text)
            for kind, text, a, b, _ in tokenize.generate_tokens(io.StringIO(self.text).readline)
            if kind not in left_out and text
        ]

    @cached_property
    def token_starts(self) -> list[int]:
        return [start for start, _, _ in self.tokens]

    def offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._bytes[line - 1][:column].decode())

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def between(self, start: int, end: int) -> list[tuple[int, int, str]]:
        """The tokens from one offset to another."""
        return self.tokens[
            bisect_left(self.token_starts, start) : bisect_left(self.token_starts, end)
        ]

    def place(self, start: int, end: int, news: tuple[str, ...], operator: str) -> Place:
        line = bisect_right(self._starts, start)
        return Place(
            line=line,
            start=start,
            end=end,
            old=self.text[start:end],
            news=news,
            operator=operator,
        )

    def walk(self, node: ast.AST) -> Iterator[Place]:
        if _is_left_alone(node):
            return
        yield from self.look(node)
        for child in _children(node):
            yield from self.walk(child)

    def look(self, node: ast.AST) -> Iterator[Place]:
        """The places of a node itself, without its parts."""
        match node:
            case ast.Compare() | ast.BinOp() | ast.BoolOp():
                yield from self.operators(node)
            case ast.UnaryOp():
                yield from self.prefix(node)
            case ast.Constant():
                yield from self.constant(node)
            case ast.Name() | ast.Attribute():
                yield from self.name(node)
            case ast.Call():
                yield from self.keywords(node)
            case ast.If() | ast.IfExp() | ast.While() | ast.comprehension():
                yield from self.conditions(node)
            case ast.stmt():
                yield from self.statement(node)

    def operators(self, node: ast.Compare | ast.BinOp | ast.BoolOp) -> Iterator[Place]:
        if isinstance(node, ast.Compare):
            pairs = zip((node.left, *node.comparators), node.comparators, strict=False)
            for (left, right), operator in zip(pairs, node.ops, strict=True):
                yield from self.infix(left, right, COMPARISONS, type(operator).__name__)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self.infix(left, right, LOGIC, type(node.op).__name__)
        elif not _is_union(node):
            yield from self.infix(node.left, node.right, ARITHMETIC, type(node.op).__name__)

    def conditions(
        self, node: ast.If | ast.IfExp | ast.While | ast.comprehension
    ) -> Iterator[Place]:
        news = ("False",) if isinstance(node, ast.While) else ("True", "False")
        for each in node.ifs if isinstance(node, ast.comprehension) else [node.test]:
            yield self.place(*self.span(each), news, "condition")

    def infix(
        self, left: ast.expr, right: ast.expr, swaps: dict[str, tuple[str, ...]], operator: str
    ) -> Iterator[Place]:
        tokens = [
            token
            for token in self.between(self.span(left)[1], self.span(right)[0])
            if token[2] not in "()"
        ]
        if not tokens:
            return
        written = " ".join(token[2] for token in tokens)
        if written in swaps:
            yield self.place(tokens[0][0], tokens[-1][1], swaps[written], operator)

    def prefix(self, node: ast.UnaryOp) -> Iterator[Place]:
        start, end = self.span(node)
        if isinstance(node.op, ast.UAdd):
            return
        first, second = self.between(start, end)[:2]
        yield self.place(first[0], second[0], ("",), type(node.op).__name__)

    def constant(self, node: ast.Constant) -> Iterator[Place]:
        value = node.value
        if isinstance(value, bool):
            yield self.place(*self.span(node), (str(not value),), "truth")
        elif isinstance(value, int):
            yield self.place(*self.span(node), (str(value + 1), str(value - 1)), "number")
        elif isinstance(value, float):
            yield self.place(*self.span(node), (repr(value + 1), repr(value - 1)), "number")

    def name(self, node: ast.Name | ast.Attribute) -> Iterator[Place]:
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in NAMES and isinstance(node.ctx, ast.Load):
            _, end = self.span(node)
            yield self.place(end - len(name), end, (NAMES[name],), "name")

    def keywords(self, node: ast.Call) -> Iterator[Place]:
        _, last = self.span(node)
        for each in node.keywords:
            if each.arg is None or each.arg in self.required or _is_left_alone(each):
                continue
            start, end = self.span(each)
            after = self.between(end, last)
            if after[0][2] == ",":
                yield self.place(start, after[1][0], ("",), "keyword left out")
                continue
            before = self.tokens[bisect_left(self.token_starts, start) - 1]
            start = before[0] if before[2] == "," else start
            yield self.place(start, end, ("",), "keyword left out")

    def statement(self, node: ast.stmt) -> Iterator[Place]:
        match node:
            case ast.Return(value=ast.expr() as value) if not _is_truth(value):
                yield self.place(*self.span(value), ("None",), "result")
            case ast.AugAssign():
                yield from self.assignment(node)
            case ast.Break():
                yield self.place(*self.span(node), ("continue",), "loop")
            case ast.Continue():
                yield self.place(*self.span(node), ("break",), "loop")
        if _can_be_left_out(node):
            yield self.place(*self.span(node), ("pass",), "statement left out")

    def assignment(self, node: ast.AugAssign) -> Iterator[Place]:
        tokens = self.between(self.span(node.target)[1], self.span(node.value)[0])
        (token,) = (token for token in tokens if token[2] not in "()")
        news = tuple(f"{each}=" for each in ARITHMETIC.get(token[2][:-1], ()))
        if news:
            yield self.place(token[0], token[1], news, "assignment")


def _can_be_left_out(node: ast.stmt) -> bool:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom()):
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            return True
    return isinstance(node, ast.AugAssign | ast.Raise | ast.Delete)


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.keyword(arg="strict"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.ClassDef():
            return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases)
    return False


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that are code: no annotations, no decorators."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child


def _is_union(node: ast.BinOp) -> bool:
    """Whether this is a type, not a number: `int | None`, `Sequence[int] | float`."""
    return isinstance(node.op, ast.BitOr) and (_is_type(node.left) or _is_type(node.right))


def _is_type(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=None):
            return True
        case ast.Name(id=name):
            return name in _TYPES or (name[0].isupper() and not name.isupper())
        case ast.Attribute(attr=name):
            return name[0].isupper() and not name.isupper()
        case ast.Subscript(value=value):
            return _is_type(value)
        case ast.BinOp():
            return _is_union(node)
    return False


def _is_truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool))
