"""The command line: one command per file; each calls the public API only.

Commands are loaded when they are called, so that the help does not wait for all of them.
"""

import codecs
import gc
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import EnumType
from functools import cache, partial
from importlib import import_module
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

import shuffledp as sdp
from shuffledp.core.arrays import keep_freed_memory

__all__ = ["COMMANDS", "GROUPS", "app"]

COMMANDS = {
    "run": "Answer a question about a column of files, or all questions of a survey.",
    "randomize": "Write the messages that everybody in a column would send, shuffled and without senders.",
    "tally": "Count messages. Tallies of several files can be added if their protocol is the same.",
    "estimate": "Estimate the answer from tallies, with standard errors and intervals.",
    "survey": "Write a survey file by answering a few questions, or check one; `shuffledp run survey.toml` runs it.",
    "ledger": "Show or verify a budget ledger, or change a budget.",
    "learn": "Learn how a population is distributed over categories, and how far off that may be.",
    "test": "Test whether everybody's values are uniform, or have a known law: accept or reject.",
    "robust": "Answer a question so that a few liars cannot ruin it: the median of random groups.",
    "frequencies": "List how often the most frequent values occur, without naming them: how guessable are passwords?",
    "plan": "Rank every protocol for a question by its exact error, with its cost.",
    "people-needed": "Find how many people are enough for a question, in every model of trust.",
    "collection": "Make, rehearse, check, watch or close a live collection: a survey on people's own devices.",
    "serve": "Run surveys on this machine, with a desk to make, watch and close them.",
    "shuffler": "Run the shuffler of a live collection: it learns who takes part, but no answers.",
    "analyzer": "Run the analyzer of a live collection: it learns the answers, but not whose they are.",
    "report": "Act as a device: answer a live collection, or send a report for everybody in a file.",
    "lab": "Recompute what the literature states, and write report/index.html.",
    "demo": "Ask made-up people how they get to work: with a trusted curator, a shuffler, or neither.",
    "audit": "Check a privacy claim by computation, or refute it by samples.",
    "doctor": "Report what works on this machine, and how to get the rest.",
    "amplify": "Compute the (epsilon, delta) of n shuffled messages, one from each person.",
    "calibrate": "Find the largest epsilon0 with which n shuffled messages are (epsilon, delta)-private.",
}
"""Each command is the module of its name; the line is what the help says about it."""

GROUPS = {
    "Ask": "run survey randomize tally estimate robust frequencies ledger demo",
    "Survey people": "serve collection shuffler analyzer report",
    "Plan": "plan people-needed amplify calibrate",
    "Check": "audit doctor",
    "Research": "learn test lab",
}
"""What belongs together, in the help."""
_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names.split()}


_PLAIN = str.maketrans(
    "█▉▊▋▌▍▎▏░─├┤●…┏━┳┓┃┡╇┩│┼└┴┘",
    "#####   .-||o~+=++|+++|++++",
)


def _spell_out(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for characters that a terminal cannot print: like ones, or their numbers."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_PLAIN)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error("shuffledp", _spell_out)


def _accept_any_terminal() -> None:
    """Let every character be printed somehow: an answer that was paid for must not get lost."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="shuffledp")


_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]{1,4})?")


def _read_plainly(options: list[Any], hints: Mapping[str, Any]) -> list[Any]:
    """Let options that were not given, and plain words and numbers, be taken as they are.

    Typer makes a validator for each option, which is a seventh of the CPU time of a small question. It still reads
    what is unusual, and complains of what is wrong. This replaces a method of Typer's options: tests/cli/test_patches.py
    compares both for every option of every command.
    """
    for each in options:
        hint = hints.get(each.name)
        kinds = {*get_args(hint)} - {NoneType} or {hint}
        kind = kinds.pop() if len(kinds) == 1 else None
        if "process_value" not in vars(each):
            each.process_value = partial(_read_value, each, each.process_value, kind)
    return options


def _read_value(option: Any, usual: Callable[..., Any], kind: Any, ctx: Any, value: Any) -> Any:
    if option.multiple or option.nargs != 1:
        plain = list(value) if kind is str and value and option.callback is None else None
    elif value is None and not option.required:
        return None if option.callback is None else option.callback(ctx, option, None)
    else:
        plain = _read_one(kind, value) if option.callback is None else None
    return usual(ctx, value) if plain is None else plain


def _read_one(kind: Any, value: Any) -> Any:
    """Return the value of a plain word or number; None if it takes more to read it."""
    if kind in (str, float, int, bool) and type(value) is kind:
        return value
    if kind is float and isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    return kind(value) if isinstance(kind, EnumType) and value in [*kind] else None


def _no_type(*_: Any, **__: Any) -> str:
    return ""


def _hide_types(parameters: list[Any]) -> list[Any]:
    """Show flags without the type of a value: they take none."""
    for each in parameters:
        if getattr(each, "is_flag", False):
            each.display_type_rich = each.display_type = _no_type
    return parameters


class _Command(TyperCommand):
    """One command."""

    def get_params(self, ctx: Any) -> list[Any]:
        hints = get_type_hints(self.callback)
        return _hide_types(_read_plainly(super().get_params(ctx), hints))


class _Group(TyperGroup):
    """A command that has commands."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _hide_types(_read_plainly(super().get_params(ctx), {}))


class _LazyGroup(_Group):
    """Knows the names of the commands and a line about each; the rest comes later."""

    _listing = False

    def main(self, *args: Any, **more: Any) -> Any:
        """Run the command, on whatever terminal there is."""
        _accept_any_terminal()
        return super().main(*args, **more)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_GROUP_OF)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command: a stand-in with its help line while the commands are listed."""
        if cmd_name not in COMMANDS:
            return None
        if self._listing:
            group = _GROUP_OF[cmd_name]
            return TyperCommand(cmd_name, help=COMMANDS[cmd_name], rich_help_panel=group)
        return _load(cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command; a question in its place gets the command that asks it."""
        if args and args[0] not in COMMANDS and args[0] in sdp.tasks.TASKS:
            ctx.fail(f"No such command {args[0]!r}. Did you mean 'run {args[0]}'?")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, without loading what it lists."""
        with self._list():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Return what a shell offers, without loading it."""
        with self._list():
            return super().shell_complete(ctx, incomplete)

    @contextmanager
    def _list(self) -> Iterator[None]:
        self._listing = True
        try:
            yield
        finally:
            self._listing = False


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Look for no garbage: imports make many objects that stay, and searching them takes a tenth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.freeze()
            gc.enable()


@cache
def _load(name: str) -> Any:
    """Load what the module `shuffledp.cli.NAME` calls `NAME` or `app`, with underscores for hyphens."""
    spelled = name.replace("-", "_")
    keep_freed_memory()
    with _no_garbage():
        module = import_module(f"shuffledp.cli.{spelled}")
        from shuffledp.cli._terminal import take_quiet
    inner = getattr(module, "app", None)
    if inner is None:
        inner = typer.Typer(add_completion=False)
        inner.command(name)(getattr(module, spelled))
    inner.info.cls = _Group
    for each in inner.registered_commands:
        each.cls = _Command
        if each.callback is not None and "quiet" not in each.callback.__annotations__:
            each.callback = take_quiet(each.callback)
    command = get_command(inner)
    command.name = name
    return command


app = typer.Typer(
    name="shuffledp",
    cls=_LazyGroup,
    help="Differential privacy in the shuffle model.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,  # local variables may hold people's data
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"shuffledp {sdp.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Differential privacy in the shuffle model."""
