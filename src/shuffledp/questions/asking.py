"""Ask one question, or a survey, of a file or a table.

One question is a survey of one. Whatever asks takes the same steps: open the columns, open the ledger (which refuses
what no guarantee covers), prepare (read who is there, choose protocols), check that the budget has room, answer,
charge, show. The answer is charged before anybody sees it, so a crash in between costs budget and never privacy.
"""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from shuffledp.core.errors import ParameterError, UnsupportedError
from shuffledp.core.privacy import Model
from shuffledp.core.randomizer import WordSource
from shuffledp.core.validate import level as valid_level
from shuffledp.core.validate import positive
from shuffledp.engine.chunks import Engine, Report
from shuffledp.engine.codes import OnInvalid
from shuffledp.engine.files import find_engine
from shuffledp.engine.filters import Filter
from shuffledp.engine.people import People
from shuffledp.ledger import DATASET
from shuffledp.numerics.entropy import SeededWords
from shuffledp.questions.answer import Answer
from shuffledp.questions.prepared import prepare
from shuffledp.questions.question import Question, take_auto
from shuffledp.questions.survey import Survey

if TYPE_CHECKING:
    from shuffledp.ledger import Budget, Ledger, Spending
    from shuffledp.questions.answer import SurveyAnswer

End = float | str | date | None
"""An end of a range: a number, or a date."""


@overload
def ask(
    data: Any,
    task: Survey,
    *,
    model: Model | str = Model.SHUFFLE,
    engine: Engine | str | None = None,
    rng: WordSource | None = None,
    level: float = 0.95,
    where: Filter | str | None = None,
    where_public: bool = False,
    ledger: "Ledger | str | Path | None" = None,
    budget: "Budget | None" = None,
    dataset: str = DATASET,
    report: Report | None = None,
) -> "SurveyAnswer": ...


@overload
def ask(
    data: Any,
    task: str,
    *,
    epsilon: float,
    delta: float | None = None,
    column: str | None = None,
    model: Model | str = Model.SHUFFLE,
    protocol: str | None = None,
    max_messages: float | None = None,
    honest: float | None = None,
    allow_large_delta: bool = False,
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
    missing: Sequence[str] | str | None = None,
    engine: Engine | str | None = None,
    rng: WordSource | None = None,
    level: float = 0.95,
    population: bool = False,
    where: Filter | str | None = None,
    where_public: bool = False,
    by: str | None = None,
    groups: Sequence[str] | None = None,
    person: Sequence[str] | str | None = None,
    reduce: str | None = None,
    of: str | None = None,
    max_rows: int | None = None,
    max_categories: int | None = None,
    missing_person: str | None = None,
    ledger: "Ledger | str | Path | None" = None,
    budget: "Budget | None" = None,
    dataset: str = DATASET,
    report: Report | None = None,
    lower: End = None,
    upper: End = None,
    bounds_share: float | None = None,
    steps: int | None = None,
    categories: Sequence[Any] | str | None = None,
    categories_file: str | Path | None = None,
    categories_from_data: bool = False,
    k: int | None = None,
    true_value: Any = None,
    at: Sequence[float] | str | None = None,
    edges: Sequence[float] | str | None = None,
    alphabet: str | None = None,
    max_length: int | None = None,
    bits: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Answer: ...


def ask(
    data: Any,
    task: str | Survey,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    column: str | None = None,
    model: Model | str = Model.SHUFFLE,
    protocol: str | None = None,
    max_messages: float | None = None,
    honest: float | None = None,
    allow_large_delta: bool = False,
    on_invalid: OnInvalid | Mapping[str, str] | str = OnInvalid.ERROR,
    missing: Sequence[str] | str | None = None,
    engine: Engine | str | None = None,
    rng: WordSource | None = None,
    level: float = 0.95,
    population: bool = False,
    where: Filter | str | None = None,
    where_public: bool = False,
    by: str | None = None,
    groups: Sequence[str] | None = None,
    person: Sequence[str] | str | None = None,
    reduce: str | None = None,
    of: str | None = None,
    max_rows: int | None = None,
    max_categories: int | None = None,
    missing_person: str | None = None,
    ledger: "Ledger | str | Path | None" = None,
    budget: "Budget | None" = None,
    dataset: str = DATASET,
    report: Report | None = None,
    lower: End = None,
    upper: End = None,
    bounds_share: float | None = None,
    steps: int | None = None,
    categories: Sequence[Any] | str | None = None,
    categories_file: str | Path | None = None,
    categories_from_data: bool = False,
    k: int | None = None,
    true_value: Any = None,
    at: Sequence[float] | str | None = None,
    edges: Sequence[float] | str | None = None,
    alphabet: str | None = None,
    max_length: int | None = None,
    bits: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Answer a question about a column privately: what `shuffledp run` does, in Python.

    What is asked:
        data: A path or a pattern like `"data/*.csv"` (or several as `Path` objects), or in memory: a pandas or Polars
            DataFrame or an Arrow table, a Series, an Arrow or NumPy array, or a list of values.
        task: The name of the question, such as "count", "sum", "mean", "histogram" or "quantiles". Or an `sdp.Survey`:
            several questions, which state what they ask and how privately; the answer is an `sdp.SurveyAnswer`.
        column: The column, for files and tables.
        where: Whom the question is about: `"distance > 1000 and carrier = 'AA'"`.
        where_public: Declare that it is public who matches `where`, so that the exact n reveals nothing. Otherwise,
            with a ledger, everybody stays in n, and people who do not match count as nothing.
        by: The column of groups: answer the question for each group.
        groups: The groups, which are public knowledge; who is in which group is protected like the answer.

    Whom a row is about:
        person: The column (or several) that says which person a row is about. The promise then protects one person
            with all their rows. Without it each row is taken to be one person.
        reduce: How to make one value of a person's rows: "sum", "mean", "min", "max", "any", "all", "rows" (how many), "one"
            (at random), "first by COLUMN" or "last by COLUMN". By default any for a count, the sum for a sum, one for
            a histogram and words, and the mean for the others.
        of: "rows", if the answer is about rows and not about people: a count or a sum of them.
        max_rows: With `of="rows"`: how many rows of a person count at most. If there are more, this many at random.
        max_categories: In how many different categories of a histogram a person counts at most, once in each. If
            there are more, in this many at random.
        missing_person: What to do with a row that names no person: "error", "drop", or "own", to count it as a
            separate person.

    How privately:
        epsilon: The privacy loss, at most.
        delta: The slack on top of it: the probability of any result may exceed what epsilon allows by this much. The
            local model takes none, the central model needs none.
        model: "shuffle"; "local" trusts nobody; "central" trusts this machine. A survey states its own model; any
            other value than "shuffle" replaces it.
        honest: The share of people whose noise the guarantee relies on.
        allow_large_delta: Accept a delta above 1/n.
        ledger: Charge the answer to this ledger (or its path) before it is returned; refuse it if the budget is spent.
        budget: The budget, stated with the first release.
        dataset: What the ledger calls the people.

    By which protocol and engine:
        protocol: Use this protocol. Without it the planner chooses.
        max_messages: Choose among protocols that send at most this many messages per person, on average.
        engine: "memory", "duckdb" or "spark", or an engine object.
        rng: A `SeededWords` for tests. Without it the noise is secure.
        level: The confidence level of the intervals.
        population: Treat these people as a random sample: also give the shares of the population, with intervals that cover
            noise and sampling (`answer.shares`).
        on_invalid: How to handle nulls and values outside the domain: "error", "drop", "other", "clamp", or an action
            for each fault, `{"null": "drop", "out_of_range": "clamp"}`.
        missing: How missing values are written, besides an empty text: ["NA", "-9"]. By default NA, N/A, #N/A, <NA>,
            NaN, null and none, in any case.
        report: Called with the progress.

    What the task asks for, from public knowledge (`task.options` lists it):
        lower, upper: The smallest and the largest number; a histogram has a bin for each integer between them. "auto"
            if nobody knows them: a first release estimates them, and the answer is about values limited to them.
        bounds_share: The share of epsilon and delta that this first release may spend; a tenth by default.
        steps: Steps of the grid for real numbers.
        categories, categories_file: The categories of a histogram, or a file with one per line.
        categories_from_data: Use the categories that occur in the data. Not private.
        k: The number of categories, if they are the codes 0 .. k-1.
        true_value: What counts as yes.
        at: Which quantiles, or where to evaluate a distribution.
        edges: The edges of bins of numbers.
        alphabet, max_length, bits: Which words there may be, and how they are packed.
        options: Options of a task from a plug-in, by name.

    >>> from shuffledp import SeededWords
    >>> answer = ask([True, False] * 500, "count", epsilon=1, delta=1e-6, rng=SeededWords(1))
    >>> answer.n, answer.protocol.name, abs(answer.estimate.value - 500) < 20
    (1000, 'split_and_mix', True)
    """
    given = {
        "lower": lower,
        "upper": upper,
        "steps": steps,
        "categories": categories,
        "categories_file": categories_file,
        "categories_from_data": categories_from_data,
        "k": k,
        "true_value": true_value,
        "at": at,
        "edges": edges,
        "alphabet": alphabet,
        "max_length": max_length,
        "bits": bits,
        **(options or {}),
    }
    asked = {
        name: value for name, value in given.items() if value is not None and value is not False
    }
    if where is not None:
        where = Filter.read(where, missing, public=where_public)
    elif where_public:
        raise UnsupportedError("where_public needs where: the filter that it declares public")
    if isinstance(task, str):
        asked, auto = take_auto(asked, bounds_share)
        question = Question(
            name=task if column is None else column,
            task=task,
            column=column,
            options=asked,
            by=by,
            groups=None if groups is None else tuple(groups),
            protocol=protocol,
            population=population,
            auto=auto,
            people=People.read(
                person,
                reduce=reduce,
                of=of,
                max_rows=max_rows,
                max_categories=max_categories,
                missing_person=missing_person,
            ),
        )
        if epsilon is None:
            raise ParameterError(
                "epsilon", None, "must be given: the privacy loss, at most, such as 1"
            )
        survey = Survey.of(
            question,
            epsilon=positive("epsilon", epsilon),
            delta=delta,
            honest=honest,
            model=model,
            max_messages=max_messages,
            allow_large_delta=allow_large_delta,
            on_invalid=on_invalid,
            missing=missing,
        )
    else:
        own = {"epsilon": epsilon, "delta": delta, "column": column, "protocol": protocol, **asked}
        own |= {"max_messages": max_messages, "honest": honest, "by": by, "groups": groups}
        own |= {"missing": missing, "population": population or None}
        own |= {"person": person, "reduce": reduce, "of": of, "max_rows": max_rows}
        own |= {"max_categories": max_categories, "missing_person": missing_person}
        own |= {"bounds_share": bounds_share}
        for name, value in own.items():
            if value is not None:
                raise ParameterError(name, value, "is for one question: a survey states its own")
        survey = task if model == Model.SHUFFLE else task.trust(model)
    valid_level(level)
    chosen = None if engine is None else find_engine(engine)
    columns = survey.open(data, survey.read_filter(where, charged=ledger is not None))
    seen, hidden = next(iter(columns.values())).where, survey.from_data
    spending = open_spending(ledger, budget, dataset, rng=rng, from_data=hidden, where=seen)
    given = {"engine": chosen, "rng": rng, "report": report, "charged": spending is not None}
    prepared = prepare(survey, columns, read_early=True, **given)
    answer = prepared.answer(level=level, report=report, spending=spending)
    with prepared.release(spending, answer):
        return answer


def open_spending(
    ledger: "Ledger | str | Path | None",
    budget: "Budget | None",
    dataset: str,
    *,
    rng: WordSource | None,
    from_data: bool = False,
    where: Filter | None = None,
) -> "Spending | None":
    """Return the ledger that an answer is charged to, if there is one; refuses what no guarantee covers."""
    if ledger is None:
        return None
    from shuffledp.ledger import Ledger, Spending

    if isinstance(rng, SeededWords):
        raise UnsupportedError(
            "a seed protects nobody, so a ledger cannot charge it: leave out the seed or the ledger"
        )
    if from_data:
        raise UnsupportedError(
            "categories_from_data releases which categories occur, and no epsilon covers that, so "
            "a ledger cannot charge it: declare categories or categories_file"
        )
    if where is not None and not where.public and not where.private:
        raise UnsupportedError(
            f"where={str(where)!r} makes n the exact answer to a question, and no epsilon covers that, so a ledger "
            "cannot charge it: ask by group instead (by), or declare that it is public who matches (where_public)"
        )
    opened = ledger if isinstance(ledger, Ledger) else Ledger(Path(ledger))
    return Spending(ledger=opened, budget=budget, dataset=dataset)
