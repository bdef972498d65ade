"""The options that several commands share, and what they describe: files, questions, a promise, a budget.

A group of options is a dataclass. `@spread` lets a command take a group as one parameter: its fields
become options of the command. What a question asks for is declared by the tasks, not here.
"""

import inspect
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, make_dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

import shuffledp as sdp
from shuffledp.cli._completion import (
    complete_column,
    complete_protocol,
    complete_task,
)
from shuffledp.cli._progress import meter
from shuffledp.cli._terminal import check_picture, check_result, is_quiet, keep_inputs, say_aside

_data, privacy_option, _machine, _output, _budget = (
    partial(typer.Option, rich_help_panel=panel)
    for panel in ("Data", "Privacy", "Machine", "Output", "Budget")
)
_MOST_DIGITS = 30  # of a whole number: 1e999999999 must not fill the memory


def is_survey(task: str) -> bool:
    """Return whether a task names a survey file.

    >>> is_survey("survey.toml"), is_survey("count")
    (True, False)
    """
    return task.lower().endswith(".toml")


def spread(function: Callable[..., None]) -> Callable[..., None]:
    """Let a command take groups of options: a parameter that is a dataclass stands for its fields.

    >>> @dataclass
    ... class Size:
    ...     width: int = 3
    >>> @spread
    ... def draw(name: str, size: Size) -> None:
    ...     print(name, size.width)
    >>> draw(name="line", width=5)
    line 5
    """
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    groups = {name: hints[name] for name in signature.parameters if is_dataclass(hints[name])}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name in groups:
            parameters.extend(_list_fields(groups[name]))
        else:
            parameters.append(_make_option(name, hints[name], parameter.default))

    @wraps(function)
    def command(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{each.name: given.pop(each.name) for each in fields(group)})
        function(**given)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def _list_fields(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    defaults = inspect.signature(group).parameters
    return [
        _make_option(each.name, hints[each.name], defaults[each.name].default)
        for each in fields(group)
    ]


def _make_option(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def whole_number(text: str, name: str = "n") -> int:
    """Read a whole number as people write it.

    >>> whole_number("1e6"), whole_number("2500000"), whole_number("1_000")
    (1000000, 2500000, 1000)
    """
    wanted = f"must be a whole number such as 1e6, of at most {_MOST_DIGITS} digits"
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise sdp.ParameterError(name, text, wanted) from None
    if not value.is_finite() or value.adjusted() >= _MOST_DIGITS or value != int(value):
        raise sdp.ParameterError(name, text, wanted)
    return int(value)


class _Model(StrEnum):
    SHUFFLE = "shuffle"
    LOCAL = "local"
    CENTRAL = "central"


TASK_NAMES = [name for name, task in sdp.tasks.TASKS.items() if task.elsewhere is None]
TaskArgument = Annotated[
    str,
    typer.Argument(
        help=f"The question: {', '.join(TASK_NAMES)}; or a survey file, such as survey.toml.",
        show_default=False,
        autocompletion=complete_task,
    ),
]
PathsArgument = Annotated[
    list[str],
    typer.Argument(
        help="CSV, Parquet, Arrow or JSON; a folder, a pattern like 'data/*.csv', or - for standard input."
    ),
]
UsersOption = Annotated[str, typer.Option("--n", help="How many people; 1e6 is a million.")]
DeltaOption = Annotated[float, typer.Option(help="The delta of the guarantee.")]
Delta0Option = Annotated[
    float, typer.Option(help="The delta of each message, if it is only (epsilon0, delta0)-local.")
]
HonestOption = Annotated[float, typer.Option(help="The share of people who follow the protocol.")]
SeedOption = Annotated[
    int | None,
    privacy_option(help="Seed the noise: reproducible, NOT private. Default: secure noise."),
]
LargeDeltaOption = Annotated[
    bool,
    privacy_option("--allow-large-delta", help="Accept a delta above 1/n: it may protect nobody."),
]
JsonOption = Annotated[bool, _output("--json", help="Print one JSON object and nothing else.")]
LevelOption = Annotated[float, _output(help="Confidence level of the intervals.")]
OutOption = Annotated[
    Path | None,
    _output(
        help="Write the result to a file: .json has everything; .csv, .tsv and .parquet have the numbers."
    ),
]
ForceOption = Annotated[bool, _output("--force", help="Overwrite existing outputs.")]
_PromisedDelta = Annotated[
    float | None,
    privacy_option(
        help="The delta of the guarantee, far below 1/n, or 0; the shuffle model needs one."
    ),
]
_ColumnOption = Annotated[
    str | None,
    _data(help="The column; optional if there is only one.", autocompletion=complete_column),
]
WhereOption = Annotated[
    str | None,
    _data(help="Use only the people who match: \"distance > 1000 and carrier in ('AA', 'UA')\"."),
]
_WherePublicOption = Annotated[
    bool,
    _data(
        "--where-public",
        help="Declare that it is public who matches --where. Otherwise, with --ledger, everybody stays in n, and "
        "people who do not match count as nothing.",
    ),
]
_MissingOption = Annotated[
    str | None,
    _data(
        help="How missing values are written, comma-separated, such as NA,-9; an empty field is always missing. "
        "Default: NA, N/A, #N/A, <NA>, NaN, null, none."
    ),
]
_DelimiterOption = Annotated[
    str | None,
    _data(
        help="The separator of the fields of a CSV, such as ; or tab. Default: detected from its first lines."
    ),
]
_DecimalOption = Annotated[
    str, _data(help="The decimal mark of numbers in text: . or , (then 1.234,5 is 1234.5).")
]
_StripOption = Annotated[
    str,
    _data(help="Characters to leave out of numbers in text, such as '$' or the ',' of 1,234."),
]
_DatesOption = Annotated[
    str,
    _data(
        help="How dates are written in text: iso (2024-12-31), ymd (2024/12/31), dmy (31.12.2024), mdy (12/31/2024)."
    ),
]
_EncodingOption = Annotated[
    str | None,
    _data(
        help="The encoding of text, such as latin-1. Default: UTF-8, or UTF-16 with a byte order mark."
    ),
]
OnInvalidOption = Annotated[
    str,
    _data(
        help="How to handle nulls and out-of-domain values: error, drop, other, clamp, or one for each "
        "fault, such as null=drop,out_of_range=clamp."
    ),
]
ProtocolOption = Annotated[
    str | None,
    privacy_option(
        help="Use this protocol or mechanism instead of the best one.",
        autocompletion=complete_protocol,
    ),
]
MaxMessagesOption = Annotated[
    float | None, privacy_option(help="The most messages a person may send, on average.")
]
_HonestShare = Annotated[
    float | None,
    privacy_option(help="Share of participants assumed to follow the protocol; default: 0.9."),
]
_ThreadsOption = Annotated[int | None, _machine(help="Number of threads; default: all cores.")]


def _declare_option(option: sdp.tasks.Option) -> tuple[str, Any, Any]:
    """Return an option that a task declares, as a field; lists are typed with commas between them."""
    if option.kind is bool:
        flag = f"--{option.name.replace('_', '-')}"
        return option.name, Annotated[bool, _data(flag, help=option.help)], False
    # The task reads numbers: a number may be a date.
    kind: Any = str if option.kind in (tuple, list, float) else option.kind
    return option.name, Annotated[kind | None, _data(help=option.help)], None


def make_options(name: str, declared: Iterable[sdp.tasks.Option]) -> Any:
    """Make a group of options out of those that tasks declare."""
    return make_dataclass(name, map(_declare_option, declared), frozen=True)


def list_declared(tasks: Iterable[str]) -> list[sdp.tasks.Option]:
    """List every option of these tasks, once."""
    return list(dict.fromkeys(each for name in tasks for each in sdp.tasks.TASKS[name].options))


DECLARED = list_declared(TASK_NAMES)
TaskOptions: Any = make_options("TaskOptions", DECLARED)
"""What the questions ask for: categories, lower, upper, ..."""


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options that say how files are written."""

    missing: _MissingOption = None
    delimiter: _DelimiterOption = None
    decimal: _DecimalOption = "."
    strip: _StripOption = ""
    dates: _DatesOption = "iso"
    encoding: _EncodingOption = None

    def find(self, paths: list[str] | Path) -> sdp.Files:
        """Return the files, written as the options say."""
        return sdp.Files(
            paths,
            delimiter=self.delimiter,
            decimal=self.decimal,
            strip=self.strip,
            dates=self.dates,
            encoding=self.encoding,
        )


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(FileOptions):
    """Which column to read, of whom, how its files are written, and how the noise is made."""

    column: _ColumnOption = None
    where: WhereOption = None
    where_public: _WherePublicOption = False
    seed: SeedOption = None
    threads: _ThreadsOption = None

    @property
    def filter(self) -> "sdp.engine.Filter | None":
        """Whom the question is about."""
        if self.where is None:
            if self.where_public:
                raise sdp.UnsupportedError(
                    "--where-public needs --where: the filter that it declares public"
                )
            return None
        return sdp.engine.Filter.read(self.where, self.missing, public=self.where_public)

    @property
    def rng(self) -> sdp.SeededWords | None:
        """The source of the noise; None means secure."""
        return None if self.seed is None else sdp.SeededWords(self.seed)

    def open(self, paths: list[str]) -> "sdp.engine.Column":
        """Return the column of these files."""
        return sdp.open_column(self.find(paths), self.column, where=self.filter)


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(ReadingOptions):
    """How to read the column, and how private the answer is."""

    epsilon: Annotated[
        float | None, privacy_option(help="The epsilon of the guarantee, above 0.")
    ] = None
    delta: _PromisedDelta = None
    on_invalid: OnInvalidOption = "error"
    honest: _HonestShare = None
    allow_large_delta: LargeDeltaOption = False


class _SenderModel(StrEnum):
    SHUFFLE = "shuffle"
    LOCAL = "local"


@dataclass(frozen=True, kw_only=True)
class SenderOptions(ColumnOptions):
    """How people's messages are made: without a curator, and without a first release that finds bounds."""

    model: Annotated[_SenderModel, privacy_option(help="Trust a shuffler, or nobody (local).")] = (
        _SenderModel.SHUFFLE
    )
    protocol: ProtocolOption = None
    max_messages: MaxMessagesOption = None
    bounds_share: ClassVar[None] = None
    """Messages have declared bounds."""


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions(ColumnOptions):
    """Options that say how private an answer is, and which protocol gives it."""

    model: Annotated[
        _Model, privacy_option(help="Trust a shuffler, nobody (local), or this machine (central).")
    ] = _Model.SHUFFLE
    protocol: ProtocolOption = None
    max_messages: MaxMessagesOption = None
    bounds_share: Annotated[
        float | None,
        privacy_option(
            help="Share of epsilon and delta spent on estimating --lower auto and --upper auto; default: 0.1."
        ),
    ] = None


_GROUPS = sdp.tasks.Option(name="groups", kind=tuple, help="The public groups.")


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """For which groups a question is asked."""

    by: Annotated[
        str | None, _data(help="The column of groups: answer the question for each group.")
    ] = None
    groups: Annotated[str | None, _data(help="The public groups, comma-separated; needs --by.")] = (
        None
    )

    @property
    def given(self) -> dict[str, Any]:
        """What a question takes."""
        return {"by": self.by, "groups": None if self.groups is None else _GROUPS.read(self.groups)}


@dataclass(frozen=True, kw_only=True)
class PeopleOptions:
    """Options that say whom a row is about, and what becomes of one person's rows."""

    person: Annotated[
        str | None,
        _data(
            help="The column that says which person a row is about, or several, comma-separated. Default: each row "
            "is one person."
        ),
    ] = None
    reduce: Annotated[
        str | None,
        _data(
            help="How to make one value of a person's rows: sum, mean, min, max, any, all, rows, one, 'first by "
            "COLUMN' or 'last by COLUMN'."
        ),
    ] = None
    of: Annotated[
        str | None,
        _data(help="What the answer is about: people, or rows (needs --max-rows)."),
    ] = None
    max_rows: Annotated[
        int | None, _data(help="With --of rows: how many rows of one person count at most.")
    ] = None
    max_categories: Annotated[
        int | None,
        _data(
            help="Count a person in up to this many different categories of a histogram, once in each."
        ),
    ] = None
    missing_person: Annotated[
        str | None,
        _data(
            help="What to do with a row that names no person: error, drop, or own (count it as a separate person)."
        ),
    ] = None

    @property
    def people(self) -> "sdp.engine.People | None":
        """What a question takes."""
        given = {**vars(self), "person": None if self.person is None else _PERSON.read(self.person)}
        return sdp.engine.People.read(**given)


_PERSON = sdp.tasks.Option(name="person", kind=tuple, help="The columns that name a person.")


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options that say how to show an answer, and where to write it."""

    level: LevelOption = 0.95
    as_json: JsonOption = False
    population: Annotated[
        bool,
        _output(
            "--population",
            help="Treat these people as a random sample: also show shares of the population, with sampling error.",
        ),
    ] = False
    out: OutOption = None
    plot: Annotated[Path | None, _output(help="Draw the result: .png, .svg, .pdf or .html.")] = None
    explain: Annotated[
        bool, _output("--explain", help="Explain in plain words what was promised to whom.")
    ] = False
    force: ForceOption = False

    @property
    def shown(self) -> dict[str, bool]:
        """The arguments of `print_answer` that say what to print."""
        written = self.out is not None or self.plot is not None
        return {"as_json": self.as_json, "explain": self.explain, "written": written}


@dataclass(frozen=True, kw_only=True)
class BudgetOptions:
    """The ledger that a release is charged to."""

    ledger: Annotated[
        Path | None, _budget(help="Charge the release to this ledger (.json, .sqlite).")
    ] = None
    budget_epsilon: Annotated[
        float | None,
        _budget(
            help="Total epsilon of all releases together; only the first release has to state it."
        ),
    ] = None
    budget_delta: Annotated[
        float | None,
        _budget(
            help="Total delta of all releases together; only the first release has to state it."
        ),
    ] = None
    budget_reserve: Annotated[
        float,
        _budget(help="Part of the budget's delta set aside for composing many small releases."),
    ] = 0.0
    dataset: Annotated[
        str | None, _budget(help="The data set in the ledger whose budget is charged.")
    ] = None

    def open(
        self,
        rng: "sdp.WordSource | None",
        *,
        from_data: bool = False,
        where: "sdp.engine.Filter | None" = None,
    ) -> "sdp.ledger.Spending | None":
        """Return the ledger, and the budget if one is stated; None without a ledger."""
        if self.ledger is None:
            if self != BudgetOptions():
                raise sdp.UnsupportedError(
                    "--budget-epsilon, --budget-delta, --budget-reserve and --dataset need --ledger"
                )
            return None
        dataset = sdp.ledger.DATASET if self.dataset is None else self.dataset
        budget = self._read_budget()
        return sdp.questions.open_spending(
            self.ledger, budget, dataset, rng=rng, from_data=from_data, where=where
        )

    def _read_budget(self) -> "sdp.ledger.Budget | None":
        epsilon, delta = self.budget_epsilon, self.budget_delta
        if (epsilon is None) != (delta is None):
            raise sdp.UnsupportedError("--budget-epsilon and --budget-delta belong together")
        if epsilon is None or delta is None:
            if self.budget_reserve:
                raise sdp.UnsupportedError(
                    "--budget-reserve needs --budget-epsilon and --budget-delta"
                )
            return None
        return sdp.ledger.Budget(epsilon=epsilon, delta=delta, reserve=self.budget_reserve)


def read_questions(
    task: str,
    options: Any,
    privacy: "PrivacyOptions | SenderOptions",
    grouping: GroupOptions,
    people: PeopleOptions,
    *,
    population: bool = False,
) -> sdp.Survey:
    """Return the survey of a file, or of the one question that the options ask."""
    if is_survey(task):
        refuse({"by": grouping.by, "groups": grouping.groups, **vars(people), **vars(options)})
        own = ("epsilon", "delta", "column", "protocol", "max_messages", "honest", "missing")
        refuse({name: getattr(privacy, name) for name in (*own, "bounds_share")})
        # These have defaults, so only another value tells that they were given.
        other = {"on_invalid": privacy.on_invalid != "error"}
        refuse({**other, "population": population})
        refuse({"allow_large_delta": privacy.allow_large_delta}, "it does not apply to a survey")
        trusted = None if privacy.model == "shuffle" else privacy.model.value
        return sdp.Survey.load(task, model=trusted)
    if privacy.epsilon is None:
        raise sdp.ParameterError("epsilon", None, "must be given, with --epsilon")
    stated = vars(options).items()
    given = {name: value for name, value in stated if value is not None and value is not False}
    declared, auto = sdp.questions.take_auto(given, privacy.bounds_share)
    question = sdp.Question(
        name=privacy.column or task,
        task=task,
        column=privacy.column,
        options=declared,
        auto=auto,
        protocol=privacy.protocol,
        population=population,
        people=people.people,
        **grouping.given,
    )
    return sdp.Survey.of(
        question,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        honest=privacy.honest,
        model=privacy.model.value,
        max_messages=privacy.max_messages,
        allow_large_delta=privacy.allow_large_delta,
        on_invalid=privacy.on_invalid,
        missing=privacy.missing,
    )


@contextmanager
def prepare_files(
    survey: sdp.Survey,
    paths: list[str],
    privacy: ReadingOptions,
    budget: BudgetOptions,
    written: Sequence[Path | None],
    kept: Sequence[str | Path | None],
    **more: Any,
) -> Iterator[
    "tuple[sdp.questions.Prepared, sdp.ledger.Spending | None, sdp.engine.Report | None]"
]:
    """Prepare a survey of files, with its ledger and a progress bar; no input may be `written` over."""
    where, rng = privacy.filter, privacy.rng
    where = survey.read_filter(where, charged=budget.ledger is not None)
    spending = budget.open(rng, from_data=survey.from_data, where=where)
    with meter() as report:
        columns = survey.open(privacy.find(paths), where)
        read = [file.path for column in columns.values() for file in column.files]
        keep_inputs(written, [*read, budget.ledger, *kept])
        _ask_about_person(survey, columns)
        more |= {"rng": rng, "report": report, "charged": spending is not None}
        prepared = sdp.questions.prepare(survey, columns, **more)
        yield prepared, spending, report


def _ask_about_person(
    survey: sdp.Survey, columns: "Mapping[str | None, sdp.engine.Column]"
) -> None:
    """Ask about a column whose name looks as if it said which person a row is about; values are not read."""
    if survey.people is not None or is_quiet():
        return
    names = dict.fromkeys(
        name for column in columns.values() for file in column.files for name in file.columns
    )
    likely = sdp.engine.looks_like_person([*names])
    if likely:
        say_aside(
            f"Does {likely[0]!r} say which person a row is about? Each row is taken to be one person; if people "
            f"have several rows, add --person {_quote(likely[0])}."
        )


def _quote(name: str) -> str:
    """Return a name of a column as a shell takes it, in an option that takes several with commas.

    >>> _quote("id"), _quote("user id"), _quote("last, first")
    ('id', "'user id'", '\\'"last, first"\\'')
    """
    return shlex.quote(f'"{name}"' if "," in name else name)


def check_targets(output: OutputOptions, *, survey: bool) -> None:
    """Refuse results that could not be written, before anything is read or charged."""
    if survey and output.plot is not None and output.plot.suffix.lower() != ".html":
        raise sdp.UnsupportedError("a survey is drawn as a page: --plot must end in .html")
    if survey and output.out is not None and output.out.suffix.lower() != ".json":
        raise sdp.UnsupportedError("a survey is written as JSON: --out must end in .json")
    check_result(output.out)
    check_picture(output.plot, force=output.force, page=True)


def refuse(given: dict[str, Any], why: str = "a survey file states it") -> None:
    """Refuse options that a survey states itself: what it asks, and how privately."""
    said = [name for name, value in given.items() if value is not None and value is not False]
    if said:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in said)
        raise sdp.UnsupportedError(f"{flags} is for one question: {why}")
