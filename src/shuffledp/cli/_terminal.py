"""What commands share: errors in one sentence, charts for the terminal, and output files."""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import signal
import sys
import textwrap
import threading
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

import shuffledp as sdp
from shuffledp.core.display import (
    Number,
    arrange,
    draw_steps,
    draw_table,
    format_rows,
    format_share,
    format_shares,
    keep_largest,
    measure_text,
    name_columns,
    pad_labels,
    shorten_label,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from shuffledp.engine import Staged

_IMPORTED = time.perf_counter()

WRONG = 2
"""The exit code when something is wrong with what was asked or given."""
REFUSED = 3
"""The exit code when the ledger refuses a release."""

_BINS = 20
_WIDEST = 100
_LONGEST_LABEL = 24
_EIGHTHS = " ▏▎▍▌▋▊▉"
_MEANING = "What that line means: --explain, or docs/guides/guarantee-line.md."


@contextmanager
def explain_errors() -> Iterator[None]:
    """Turn an error that the library raises on purpose into a sentence and exit code 2, or 3.

    >>> try:
    ...     with explain_errors():
    ...         raise sdp.ParameterError("epsilon", -1.0, "must be > 0")
    ... except typer.Exit as stop:
    ...     stop.exit_code
    2
    """
    try:
        yield
    except BrokenPipeError as error:  # whoever reads has seen enough, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise typer.Exit(128 + signal.SIGPIPE) from error
    except (sdp.ShuffledpError, OSError) as error:
        code = REFUSED if isinstance(error, sdp.BudgetError) else WRONG
        _fail(str(error), code, error)
    except MemoryError as error:
        _fail("this needs more memory than there is: ask for less at once", WRONG, error)
    except ArithmeticError as error:
        _fail("these numbers are too extreme to compute with", WRONG, error)


def _fail(message: str, code: int, error: BaseException) -> None:
    # Without line breaks or control characters of values, and truncated.
    say_aside(f"error: {shorten_label(_name_options(message), 2000)}")
    raise typer.Exit(code) from error


_OF_A_SURVEY = re.compile(r"\bline \d+: question |' is not a field of a survey: ")
"""There the names are keys of the file."""
_QUOTED = re.compile(r"""('[^']*'|"[^"]*")""")


def _name_options(message: str) -> str:
    """Return the names of parameters as options of the command; what is quoted stays as it is.

    >>> _name_options("value 'on_invalid' is missing; to go on: on_invalid null=drop")
    "value 'on_invalid' is missing; to go on: --on-invalid null=drop"
    >>> _name_options("a mean needs both `lower` and `upper`")
    'a mean needs both --lower and --upper'
    >>> _name_options("s.toml, line 9: question 'age': a mean needs both `lower` and `upper`")
    "s.toml, line 9: question 'age': a mean needs both `lower` and `upper`"
    >>> _name_options("s.toml: 'colour' is not a field of a survey: epsilon, on_invalid")
    "s.toml: 'colour' is not a field of a survey: epsilon, on_invalid"
    """
    from shuffledp.cli import _options

    groups = (
        _options.PrivacyOptions,
        _options.TaskOptions,
        _options.GroupOptions,
        _options.PeopleOptions,
        _options.OutputOptions,
        _options.BudgetOptions,
    )
    options = {each.name for group in groups for each in fields(group)}
    long = "|".join(sorted(each for each in options if "_" in each))
    names = re.compile(rf"`({'|'.join(sorted(options))})`|(?<![\w-])({long}|max_bits)(?!\w)")
    if _OF_A_SURVEY.search(message):
        return message
    parts = _QUOTED.split(message)
    for place in range(0, len(parts), 2):
        parts[place] = names.sub(_name_option, parts[place])
    return "".join(parts)


def _name_option(match: re.Match[str]) -> str:
    return "--" + (match[1] or match[2]).replace("_", "-")


def say(text: str, *, err: bool = False, **style: Any) -> None:
    """Print a text, broken between words; 80 columns where there is no terminal. On a terminal it may have a style.

    >>> say("nobody is left out")
    nobody is left out
    """
    width = shutil.get_terminal_size().columns
    filled = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    put(filled, err=err, **style)


def say_aside(text: str) -> None:
    """Print a sentence on standard error: broken between words on a terminal, one line where a program reads it."""
    if sys.stderr.isatty():
        say(text, err=True)
    else:
        put(text, err=True)


def put(text: str, *, err: bool = False, **style: Any) -> None:
    """Print a text as it is, in letters that the stream has: Typer itself would write UTF-8 to one that has ASCII.

    >>> put("a  b")
    a  b
    """
    typer.secho(text, file=sys.stderr if err else sys.stdout, **style)


def say_lines(text: str) -> None:
    """Print lines: sentences broken between words, and rows of a table, which have columns, as they are.

    >>> say_lines("count   3\\nnobody is left out")
    count   3
    nobody is left out
    """
    for line in text.splitlines():
        if "  " in line.strip():
            typer.echo(line)
        else:
            say(line)


_QUIET = ContextVar("quiet", default=False)
QuietOption = Annotated[
    bool,
    typer.Option(
        "--quiet",
        "-q",
        help="Print only the result, or nothing if it goes to a file.",
        rich_help_panel="Output",
    ),
]


def take_quiet(function: Callable[..., None]) -> Callable[..., None]:
    """Return the command with an option `--quiet`, which silences `tell` and the progress bar.

    >>> def greet(name: str) -> None:
    ...     tell(f"good morning, {name}")
    >>> take_quiet(greet)(name="Ada")
    good morning, Ada
    >>> take_quiet(greet)(name="Ada", quiet=True)
    """
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    own = [each.replace(annotation=hints[each.name]) for each in signature.parameters.values()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    flag = inspect.Parameter("quiet", keyword, annotation=QuietOption, default=False)

    @wraps(function)
    def command(*given: Any, quiet: bool = False, **named: Any) -> None:
        before = _QUIET.set(quiet)
        try:
            function(*given, **named)
        finally:
            _QUIET.reset(before)

    command.__signature__ = signature.replace(parameters=[*own, flag])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in (*own, flag)}
    return command


def is_quiet() -> bool:
    """Return whether the result alone is wanted.

    >>> is_quiet()
    False
    """
    return _QUIET.get()


def tell(text: str, *, err: bool = False) -> None:
    """Print a remark, unless the result alone is wanted.

    >>> tell("Written: result.json")
    Written: result.json
    """
    if not is_quiet():
        typer.echo(text, err=err)


def tell_written(targets: Sequence[Path | None], *, as_json: bool) -> None:
    """Say which of the files that were asked for are there now; JSON stands alone.

    >>> tell_written([Path("result.json"), None], as_json=False)
    Written: result.json
    """
    for path in targets:
        if path is not None and not as_json:
            tell(f"Written: {path}")


@contextmanager
def stage_outputs(targets: Sequence[Path | None], *, force: bool) -> Iterator[Staged]:
    """Check that the outputs can be written, and let them be written beside their places.

    Whatever happens before `publish`, an interruption included, leaves nothing behind.

    >>> from tempfile import mkdtemp
    >>> folder = Path(mkdtemp())
    >>> with stage_outputs([folder / "a.json"], force=False) as outputs:
    ...     _ = outputs[folder / "a.json"].write_text("{}")
    ...     outputs.publish()
    >>> [path.name for path in folder.iterdir()]
    ['a.json']
    """
    wanted = [target for target in targets if target is not None]
    if len({target.absolute() for target in wanted}) < len(wanted):
        raise sdp.UnsupportedError(f"two outputs have the same name: {wanted[0]}")
    for target in wanted:
        _check_free(target, force=force)
    from shuffledp.engine import stage

    with _unwind_when_terminated(), stage(wanted, force=force) as outputs:
        yield outputs


@contextmanager
def _unwind_when_terminated() -> Iterator[None]:
    """Let a polite kill unwind like an interruption."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check_free(target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise sdp.UnsupportedError(f"{target} is a folder: name a file")
    if target.exists() and not force:
        raise sdp.UnsupportedError(f"{target} exists: choose another name, or give --force")


@contextmanager
def draw_into(target: Path, *, force: bool) -> Iterator[Path]:
    """Yield where to draw a picture that becomes `target` when it is complete; makes missing folders.

    >>> from tempfile import mkdtemp
    >>> target = Path(mkdtemp()) / "pictures" / "a.svg"
    >>> with draw_into(target, force=False) as place:
    ...     _ = place.write_text("<svg/>")
    >>> target.read_text()
    '<svg/>'
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with stage_outputs([target], force=force) as outputs:
        yield outputs[target]
        outputs.publish()


def keep_inputs(targets: Sequence[Path | None], inputs: Sequence[str | Path | None]) -> None:
    """Refuse to write over a file that is read, whatever --force says.

    >>> keep_inputs([Path("people.csv")], ["people.csv"])
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: people.csv is also read: choose another name for the output
    """
    kept = {Path(path).resolve() for path in inputs if path is not None}
    for target in targets:
        if target is not None and target.resolve() in kept:
            raise sdp.UnsupportedError(f"{target} is also read: choose another name for the output")


def check_picture(path: Path | None, *, force: bool, page: bool = False) -> None:
    """Refuse a picture that could not be drawn, before anything is read or charged.

    >>> check_picture(Path("result.doc"), force=False, page=True)
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: result.doc: a picture ends in one of .html, .pdf, .png, .svg
    """
    if path is not None:
        sdp.show.check_picture(path, page=page)
        _check_free(path, force=force)
        if page and path.suffix in (".pdf", ".png"):
            _check_free(sdp.show.name_page(path), force=force)


def check_folder(path: Path) -> None:
    """Refuse a folder that could not be made or written to, before anything is computed.

    >>> check_folder(Path(__file__) / "demo")
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: ...demo cannot be a folder: ..._terminal.py is a file
    """
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise sdp.UnsupportedError(f"{path} cannot be a folder: {there} is a file")
    if not os.access(there, os.W_OK | os.X_OK):
        raise sdp.UnsupportedError(f"{path} cannot be written: {there} belongs to somebody else")


def check_result(path: Path | None) -> None:
    """Refuse a result that could not be written, before anything is read or charged.

    >>> check_result(Path("result.xlsx"))
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: out='result.xlsx' must end in one of .json, .csv, .tsv, .parquet
    """
    if path is not None:
        sdp.engine.check_result(path)


def write_answer(
    answer: sdp.Answer | sdp.SurveyAnswer, outputs: Staged, *, out: Path | None, plot: Path | None
) -> None:
    """Write the files that were asked for, beside their places; and a page with letters that no font has."""
    outputs.write(out, answer.write)
    outputs.write(plot, answer.plot)
    if plot is not None and (page := sdp.show.name_page(outputs[plot])).exists():
        outputs.add(target := sdp.show.name_page(plot), page)
        tell(f"No installed font has all letters of these labels: {target} shows them.", err=True)


def charge(
    spending: sdp.ledger.Spending | None,
    guarantee: sdp.Guarantee | None,
    note: dict[str, Any],
    *,
    err: bool,
) -> AbstractContextManager[None]:
    """Charge a release, let it be shown, write down that it is out, and tell what is spent."""
    if spending is None or guarantee is None:
        return nullcontext()
    return spending.release(guarantee, note, partial(tell, err=err))


def echo_json(record: dict[str, Any]) -> None:
    """Print one JSON object, in letters that the reader of standard output can decode.

    >>> echo_json({"n": 3})
    {"n": 3}
    """
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    typer.echo(json.dumps(record, allow_nan=False, ensure_ascii=not unicode))


def print_answer(
    answer: sdp.Answer | sdp.SurveyAnswer, *, as_json: bool, explain: bool, written: bool
) -> None:
    """Print an answer, for people or for programs (then people read standard error).

    Quietly, what is `written` to a file is not printed as well, but warnings are.
    """
    try:
        if is_quiet() and written and not as_json and not explain:
            for warning in answer.warnings:
                typer.echo(warning, err=True)
            return
        _print_answer(answer, as_json=as_json, explain=explain)
    except BrokenPipeError:  # whoever reads has seen enough
        raise
    except Exception:  # it may have been paid for: then it is shown in another way
        typer.echo(str(answer), err=True)
        raise


def _print_answer(answer: sdp.Answer | sdp.SurveyAnswer, *, as_json: bool, explain: bool) -> None:
    if isinstance(answer, sdp.Answer) and not as_json:
        _show_answer(answer, explain=explain)
        return
    if not as_json:
        say_lines(str(answer))
        if explain:
            typer.echo(f"\n{answer.explain()}")
        return
    echo_json(answer.to_dict())
    for warning in answer.warnings:
        typer.echo(warning, err=True)
    if explain:
        typer.echo(answer.explain(), err=True)


def _show_answer(answer: sdp.Answer, *, explain: bool) -> None:
    picture = answer.picture
    kept = keep_largest(list(picture.rows), _BINS)
    width = shutil.get_terminal_size().columns
    if kept:
        _print_table(answer.title, picture, kept, width)
    else:
        say(answer.title)
    for line in [] if is_quiet() else _draw_answer(picture, kept, min(_WIDEST, width)):
        put(line)
    for warning in answer.warnings:
        say(f"{warning}.", bold=True, fg="red")
    notes = [] if is_quiet() else [answer.dropped, *answer.notes, *answer.remarks]
    explained = ["", *answer.explain().splitlines()] if explain else []
    for line in (*map(_name_options, filter(None, notes)), *answer.promised, *explained):
        say(line)
    if not explain and not is_quiet():
        say(_MEANING, dim=True)


def _draw_answer(picture: sdp.Picture, kept: list[Number], width: int) -> list[str]:
    if picture.people is not None and len(kept) == 1 and picture.limits is not None:
        share = f"  {format_share(kept[0].value, picture.people)}"
        (line,) = draw_gauges(kept, picture.limits, width - len(share))
        return [line + share]
    if picture.limits is not None and kept:
        return draw_gauges(kept, picture.limits, width)
    if picture.curve is not None:
        return draw_steps(picture, width)
    more = len(picture.rows) - len(kept)
    named, groups = arrange(picture, kept)
    lines = draw_bars(named, width, more, picture) if len(kept) > 1 else []
    for place, group in reversed(groups.items()):
        lines.insert(place, shorten_label(group))
    return lines


def _print_table(title: str, picture: sdp.Picture, kept: list[Number], width: int) -> None:
    heads, more = name_columns(picture.level), len(picture.rows) - len(kept)
    named, groups = arrange(picture, kept)
    rows: list[list[str]] = []
    sections: set[int] = set()
    for place, row in enumerate(format_rows(named, whole=picture.whole)):
        if place in groups:
            sections.add(len(rows))
            rows.append([shorten_label(groups[place]), *("" for _ in heads[1:])])
        rows.append(row)
    caption = f"and {more:,} smaller ones" if more else ""
    lines = draw_table(title, heads, rows, sections, caption)
    if max(map(len, lines)) > width:
        _print_folded(title, heads, rows, sections, caption)
        return
    for line in lines:
        put(line, bold=line.startswith("┃"))


def _print_folded(
    title: str, heads: list[str], rows: list[list[str]], sections: Collection[int], caption: str
) -> None:
    """Print a table for which there is no room: numbers go on in the next line. They and the labels are not cut."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), caption=caption or None)
    width = min(_LONGEST_LABEL, max(measure_text(row[0]) for row in rows))
    table.add_column(heads[0], no_wrap=True, min_width=width)
    for heading in heads[1:]:
        table.add_column(heading, justify="right", overflow="fold")
    for place, row in enumerate(rows):
        if place in sections:
            table.add_section()
        table.add_row(*map(escape, row))
    Console(highlight=False).print(table)


def draw_bars(
    table: list[Number], width: int, more: int = 0, picture: sdp.Picture | None = None
) -> list[str]:
    """Return a line for each row: label, bar, number, and its share if it has one. A negative number has a hatched bar.

    >>> for line in draw_bars([Number("cat", 4, 1, 2, 6), Number("東京", -2, 1, -4, 0)], 30): print(line)
    cat         ██████████████   4
    東京 ░░░░░░░                -2
    """
    whole = picture is not None and picture.whole
    labels, numbers, *_ = zip(*format_rows(table, _LONGEST_LABEL, whole=whole), strict=True)
    if picture is not None and picture.people is not None:
        shares = format_shares(table, picture.people)
        numbers = tuple(map("  ".join, zip(numbers, shares, strict=True)))
    names = pad_labels(labels, _LONGEST_LABEL)
    number_width = max(map(len, numbers))
    room = max(4, width - measure_text(names[0]) - number_width - 3)
    low = min(0.0, *(row.value for row in table))
    high = max(0.0, *(row.value for row in table))
    left = 0 if low == 0 else max(1, round(room * -low / ((high - low) or 1.0)))
    scale = (room - left) / high if high else 0.0
    lines = []
    for row, name, number in zip(table, names, numbers, strict=True):
        bar = _draw_bar(row.value, left, room - left, scale, low)
        lines.append(f"{name} {bar}  {number:>{number_width}}")
    if more:
        lines.append(f"… {more:,} more")
    return lines


def _draw_bar(value: float, left: int, right: int, scale: float, low: float) -> str:
    if value < 0:
        length = min(left, max(1, round(left * value / low)))
        return " " * (left - length) + "░" * length + " " * right
    whole, eighths = divmod(round(8 * value * scale), 8)
    body = "█" * whole + (_EIGHTHS[eighths] if eighths else "")
    return " " * left + body[:right].ljust(right)


def draw_gauge(row: Number, limits: tuple[float, float], width: int) -> list[str]:
    """Draw where one number lies between the limits that are publicly known.

    >>> for line in draw_gauge(Number("mean", 30.0, 1.0, 20.0, 40.0), (0, 120), 40): print(line)
    0 ──────├─●──┤────────────────────── 120
    >>> draw_gauge(Number("sum", 3e6, 1.0, 3e6, 3e6), (0, 12_000_000), 30)
    ['0 ────●──────────── 12,000,000']
    """
    low, high = limits
    ends = _format_end(low), _format_end(high)
    room = max(10, width - len(ends[0]) - len(ends[1]) - 2)

    def place(x: float) -> int:
        return min(room - 1, max(0, round((x - low) / (high - low) * (room - 1))))

    line = ["─"] * room
    line[place(row.low)], line[place(row.high)] = "├", "┤"
    line[place(row.value)] = "●"
    return [f"{ends[0]} {''.join(line)} {ends[1]}"]


def draw_gauges(kept: list[Number], limits: tuple[float, float], width: int) -> list[str]:
    """Return the same for several numbers, each behind its label.

    >>> rows = [Number("0.25", 20.0, 1.0, 10.0, 30.0), Number("0.5", 60.0, 1.0, 50.0, 70.0)]
    >>> for line in draw_gauges(rows, (0, 120), 40): print(line)
    0.25 0 ──├──●─┤───────────────────── 120
    0.5  0 ────────────├─●─┤──────────── 120
    """
    if len(kept) == 1:
        return draw_gauge(kept[0], limits, width)
    names = pad_labels([shorten_label(row.label, _LONGEST_LABEL) for row in kept])
    wide = measure_text(names[0])
    return [
        f"{name} {line}"
        for name, row in zip(names, kept, strict=True)
        for line in draw_gauge(row, limits, width - wide - 1)
    ]


def _format_end(limit: float) -> str:
    """Return a limit as people write it: whole numbers in full, unless they are very long."""
    whole = float(limit).is_integer() and abs(limit) < 1e15
    return f"{limit:,.0f}" if whole else f"{limit:,.6g}"


def age_of_process() -> float:
    """Return the seconds since this process started, or, where the system does not tell, since this import."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[19])  # since the system started
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return time.perf_counter() - _IMPORTED
