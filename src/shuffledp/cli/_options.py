"""The options that several commands share, and what they describe.

A group of options is a dataclass. `@spread` lets a command take a group as one parameter: its fields
become options of the command. What a question asks for is declared by the tasks, not here.
"""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, make_dataclass
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

import shuffledp as sdp
from shuffledp.cli._completion import (
    complete_column,
    complete_protocol,
    complete_randomizer,
    complete_task,
)
from shuffledp.core.protocol import Maker

_data, _privacy, _machine, _output, _budget = (
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


def round_down(value: float) -> str:
    """Write six digits, never more than the value.

    >>> round_down(9.6870419999)
    '9.68704'
    """
    return str(Context(prec=6, rounding=ROUND_FLOOR).create_decimal_from_float(value))


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
    int | None, _privacy(help="Seed the noise: reproducible, NOT private. Default: secure noise.")
]
LargeDeltaOption = Annotated[
    bool, _privacy("--allow-large-delta", help="Accept a delta above 1/n: it may protect nobody.")
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
    _privacy(help="The delta of the guarantee, far below 1/n, or 0; the shuffle model needs one."),
]
_ColumnOption = Annotated[
    str | None,
    _data(help="The column; optional if there is only one.", autocompletion=complete_column),
]
_WhereOption = Annotated[
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
_OnInvalidOption = Annotated[
    str,
    _data(
        help="How to handle nulls and out-of-domain values: error, drop, other, clamp, or one for each "
        "fault, such as null=drop,out_of_range=clamp."
    ),
]
ProtocolOption = Annotated[
    str | None,
    _privacy(
        help="Use this protocol or mechanism instead of the best one.",
        autocompletion=complete_protocol,
    ),
]
MaxMessagesOption = Annotated[
    float | None, _privacy(help="The most messages a person may send, on average.")
]
_HonestShare = Annotated[
    float | None,
    _privacy(help="Share of participants assumed to follow the protocol; default: 0.9."),
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


def _list_declared(tasks: Iterable[str]) -> list[sdp.tasks.Option]:
    """List every option of these tasks, once."""
    return list(dict.fromkeys(each for name in tasks for each in sdp.tasks.TASKS[name].options))


_DECLARED = _list_declared(TASK_NAMES)
TaskOptions: Any = make_dataclass("TaskOptions", map(_declare_option, _DECLARED), frozen=True)
"""What the questions ask for: categories, lower, upper, ..."""
ROBUST_TASKS = ("count", "histogram", "sum", "mean")
RobustOptions: Any = make_dataclass(
    "RobustOptions", map(_declare_option, _list_declared(ROBUST_TASKS)), frozen=True
)
"""What the questions ask for that `robust` answers."""
_ABOUT_DATA = ("true_value", "categories_from_data", "k")
PlannedOptions: Any = make_dataclass(
    "PlannedOptions",
    (_declare_option(each) for each in _DECLARED if each.name not in _ABOUT_DATA),
    frozen=True,
)
"""What a plan asks for, which has no data; it reads k itself, since k may be written as 1e6."""
CategoryOptions: Any = make_dataclass(
    "CategoryOptions", map(_declare_option, sdp.tasks.Histogram.options), frozen=True
)
"""Which categories there are, from public knowledge."""


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How files are written."""

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
class SimulateOptions(FileOptions):
    """Which people of a file simulated devices answer for, and what becomes of values that no device would send.

    >>> SimulateOptions(on_invalid="drop", missing="NA").taken["on_invalid"].missing
    ('NA',)
    """

    where: _WhereOption = None
    on_invalid: _OnInvalidOption = "error"

    @property
    def taken(self) -> dict[str, Any]:
        """The arguments of `read_places`."""
        where = self.where
        chosen = None if where is None else sdp.engine.Filter.read(where, self.missing)
        policy = sdp.OnInvalid.read(self.on_invalid, self.missing)
        return {"where": chosen, "on_invalid": policy}


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(FileOptions):
    """Which column to read, of whom, how its files are written, and how the noise is made."""

    column: _ColumnOption = None
    where: _WhereOption = None
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

    epsilon: Annotated[float | None, _privacy(help="The epsilon of the guarantee, above 0.")] = None
    delta: _PromisedDelta = None
    on_invalid: _OnInvalidOption = "error"
    honest: _HonestShare = None
    allow_large_delta: LargeDeltaOption = False


class _SenderModel(StrEnum):
    SHUFFLE = "shuffle"
    LOCAL = "local"


@dataclass(frozen=True, kw_only=True)
class SenderOptions(ColumnOptions):
    """How people's messages are made: without a curator, and without a first release that finds bounds."""

    model: Annotated[_SenderModel, _privacy(help="Trust a shuffler, or nobody (local).")] = (
        _SenderModel.SHUFFLE
    )
    protocol: ProtocolOption = None
    max_messages: MaxMessagesOption = None
    bounds_share: ClassVar[None] = None
    """Messages have declared bounds."""


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions(ColumnOptions):
    """How private an answer is, and which protocol gives it."""

    model: Annotated[
        _Model, _privacy(help="Trust a shuffler, nobody (local), or this machine (central).")
    ] = _Model.SHUFFLE
    protocol: ProtocolOption = None
    max_messages: MaxMessagesOption = None
    bounds_share: Annotated[
        float | None,
        _privacy(
            help="Share of epsilon and delta spent on estimating --lower auto and --upper auto; default: 0.1."
        ),
    ] = None


class _InferenceModel(StrEnum):
    SHUFFLE = "shuffle"
    LOCAL = "local"
    CENTRAL = "central"
    NONE = "none"


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
    """Whom a row is about, and what becomes of one person's rows."""

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
class InferenceOptions(ColumnOptions):
    """What learning and testing share."""

    model: Annotated[
        _InferenceModel,
        _privacy(
            help="Trust a shuffler, nobody (local), this machine (central); none: NOT private."
        ),
    ] = _InferenceModel.SHUFFLE

    def refuse_needless(self, max_messages: float | None = None) -> None:
        """Refuse options that the model has no use for.

        >>> InferenceOptions(model=_InferenceModel.CENTRAL, honest=0.5).refuse_needless()
        Traceback (most recent call last):
        shuffledp.core.errors.UnsupportedError: the model central takes no --honest
        """
        if self.model == _InferenceModel.SHUFFLE:
            return
        needless = {"delta": self.delta, "honest": self.honest, "max-messages": max_messages}
        if self.model == _InferenceModel.NONE:
            needless["epsilon"] = self.epsilon
        wrong = [f"--{name}" for name, value in needless.items() if value is not None]
        if wrong:
            raise sdp.UnsupportedError(f"the model {self.model.value} takes no {', '.join(wrong)}")

    @property
    def promise(self) -> dict[str, Any]:
        """What to promise, as arguments of `sdp.learn` and the tests."""
        more = {} if self.honest is None else {"honest": self.honest}
        asked = {"epsilon": self.epsilon, "delta": self.delta, "model": self.model.value}
        return {**asked, "rng": self.rng, **more}


@dataclass(frozen=True, kw_only=True)
class CuratorOptions(ReadingOptions):
    """A column, and what a trusted curator promises about its answer."""

    epsilon: Annotated[float, _privacy(help="The epsilon of the guarantee, above 0.")]


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How to show an answer, and where to write it."""

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


@dataclass(frozen=True, kw_only=True)
class ParameterOptions:
    """The parameters of a protocol that is named, all but its privacy.

    >>> ParameterOptions(k=3).given
    {'k': 3}
    """

    k: Annotated[int | None, typer.Option(help="Categories of the randomizer.")] = None
    lower: Annotated[float | None, typer.Option(help="Smallest value, for means.")] = None
    upper: Annotated[float | None, typer.Option(help="Largest value, for means.")] = None
    steps: Annotated[int | None, typer.Option(help="Steps of the grid, for means.")] = None

    @property
    def given(self) -> dict[str, float]:
        """Those that were given."""
        named = {name: getattr(self, name) for name in ("k", "lower", "upper", "steps")}
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class RandomizerOptions(ParameterOptions):
    """A local protocol by name with its parameters, all but epsilon; or any randomizer.

    >>> RandomizerOptions(randomizer="krr", k=16).make(1.0).domain.size
    16
    >>> RandomizerOptions(randomizer="krr").check()
    Traceback (most recent call last):
    shuffledp.core.errors.UnsupportedError: krr needs --k
    """

    randomizer: Annotated[
        str | None,
        typer.Option(
            help="A local protocol by name (krr, rr, hadamard, ...). Default: any.",
            autocompletion=complete_randomizer,
        ),
    ] = None

    def check(self) -> None:
        """Refuse parameters that the randomizer does not take, or lacks."""
        given = self.given
        if self.randomizer is None:
            if given:
                raise sdp.UnsupportedError(f"{_list_flags(given)} needs --randomizer")
            return
        maker = self._find_maker(self.randomizer)
        wanted = [name for name, needed in maker.options.items() if needed]
        missing = [name for name in wanted if name not in given]
        if missing:
            raise sdp.UnsupportedError(f"{self.randomizer} needs {_list_flags(missing)}")
        unused = [name for name in given if name not in wanted]
        if unused:
            raise sdp.UnsupportedError(f"{self.randomizer} does not take {_list_flags(unused)}")

    def make(self, epsilon0: float) -> Any:
        """Return the randomizer at this epsilon0; None if none is named."""
        if self.randomizer is None:
            return None
        return self._find_maker(self.randomizer)(**self.given, epsilon=epsilon0).randomizer

    def _find_maker(self, name: str) -> Maker:
        maker = sdp.protocols.spec(name).make_local
        if maker is None:
            raise sdp.UnsupportedError(f"{name} is not local: there is no epsilon0 to amplify")
        return maker

    def law(self, epsilon0: float) -> dict[str, Any]:
        """Return what everybody runs, as arguments of `sdp.amplify` and `sdp.profile`."""
        made = self.make(epsilon0)
        return {"epsilon0": epsilon0} if made is None else {"randomizer": made}


def _list_flags(names: list[str] | dict[str, float]) -> str:
    return ", ".join(f"--{name}" for name in names)
