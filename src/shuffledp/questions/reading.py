"""The columns of a survey, read while its protocols are made: one pass over the files for all questions.

Every column, or pair of columns, that a question is about is grouped by value in the same query. What the values mean
follows when it is known how many people there are. Columns that are not grouped (fractions, words, filters) are read
one by one, by the same thread.

How often each value occurs is as secret as the data.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from shuffledp.core.arrays import Counts
from shuffledp.core.domain import Reals
from shuffledp.core.errors import DataError
from shuffledp.core.privacy import Model
from shuffledp.core.task import Task
from shuffledp.engine.chunks import Engine, Headcount
from shuffledp.engine.codes import FAULTS, Coder, OnInvalid
from shuffledp.engine.columns import Column, TooManyGroupsError
from shuffledp.engine.files import group_early, read_codes
from shuffledp.engine.local import add_pairs, count_pairs, is_counted, is_listable
from shuffledp.engine.values import as_numpy
from shuffledp.questions.remarks import tell_recoded
from shuffledp.questions.survey import Survey
from shuffledp.tasks.groups import Grouped

if TYPE_CHECKING:
    from shuffledp.questions.prepared import Part

_FEW_CODES = 1 << 20  # of a question that is read early: eight megabytes
_FEW_VALUES = 1 << 20  # of a set of columns that are kept

Columns = Mapping[str | None, Column]
Names = tuple[tuple[str, str | None], ...]
"""The names of columns, each with the unit in which its dates are read."""
Early = Future[Headcount | Counts | None]
"""What is known of a question's column: its people by code, or by pair of codes; None: it is still to be read."""


class _Now(Executor):
    """Runs at once what it is given."""

    def submit(self, work: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*given, **named))
        except Exception as error:  # whoever asks for the result is told
            done.set_exception(error)
        return done


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reader:
    """Reads the columns of a survey, in a thread of its own if the engine may have several."""

    survey: Survey
    columns: Columns
    engine: Engine
    pool: Executor = field(repr=False)
    grouped: "Future[dict[Names, _Groups]]" = field(repr=False)
    """What the pass over the files has found."""

    @classmethod
    def start(
        cls, survey: Survey, tasks: Mapping[str, Task], columns: Columns, engine: Engine
    ) -> "Reader | None":
        """Start to read, for tasks as they are declared; None if everybody answers one question, or of arrays."""
        if survey.model is Model.LOCAL or any(each.array is not None for each in columns.values()):
            return None
        sets: dict[Names, tuple[Column, ...]] = {}
        for question in survey.questions:
            chosen: tuple[Column, ...] = (question.measure(columns[question.column]),)
            if question.by is not None:
                chosen = (*chosen, columns[question.by])
            if _is_groupable(tasks[question.name], chosen):
                sets[_name(*chosen)] = chosen
        pool = _Now() if engine.threads == 1 else ThreadPoolExecutor(1, thread_name_prefix="survey")
        grouped = pool.submit(_group, sets, engine)
        return cls(survey=survey, columns=columns, engine=engine, pool=pool, grouped=grouped)

    def count_people(self) -> int | None:
        """Return how many rows there are, if the pass over the files says so: a survey leaves out nobody."""
        for groups in self.grouped.result().values():
            return sum(int(as_numpy(times).sum()) for _, _, times in groups)
        return None

    def read(self, tasks: Sequence[Task]) -> dict[str, Early]:
        """Read what the questions, which are these tasks now, are about; by their names."""
        early: dict[str, Early] = {}
        for question, task in zip(self.survey.questions, tasks, strict=True):
            policy = self.survey.find_policy(question, task)
            if task.domain.size > _FEW_CODES:
                continue
            column = question.measure(self.columns[question.column])
            if not isinstance(task, Grouped):
                work = partial(self._group_one, column, task, policy)
                early[question.name] = self.pool.submit(work)
            elif not task.step:  # otherwise numbers are rounded at random
                both = column, self.columns[question.by]
                early[question.name] = self.pool.submit(self._group_pairs, both, task, policy)
        self.pool.shutdown(wait=False)
        return early

    def _group_one(self, column: Column, task: Task, policy: OnInvalid) -> Headcount | None:
        groups = self.grouped.result().get(_name(column))
        values = None if groups is None else ((value, times) for _, (value,), times in groups)
        return group_early(column, task.domain, policy, engine=self.engine, groups=values)

    def _group_pairs(
        self, both: tuple[Column, Column], task: Grouped, policy: OnInvalid
    ) -> Counts | None:
        groups = self.grouped.result().get(_name(*both))
        if groups is not None:
            try:
                return add_pairs(groups, task.domain, policy)
            except DataError:
                if not self.engine.local:  # otherwise row by row, which names the row
                    raise
        return count_pairs(both, task.domain, self.engine, on_invalid=policy)


def _name(*columns: Column) -> Names:
    return tuple((column.name, column.moments) for column in columns)


_Groups = Sequence[tuple[int, tuple[Any, ...], Any]]


def _is_groupable(task: Task, columns: Sequence[Column]) -> bool:
    """Return whether a question's columns are grouped by value, and neither filtered nor counted by code."""
    filtered = any(column.where is not None for column in columns)
    if filtered or isinstance(task.domain, Reals) or not is_listable(task.domain):
        return False
    return not any(is_counted(column, task.domain) for column in columns)


def _group(sets: Mapping[Names, tuple[Column, ...]], engine: Engine) -> dict[Names, _Groups]:
    """Group the files by each set of columns, in one pass; those with too many values are left out."""
    kept: dict[Names, list[tuple[int, tuple[Any, ...], Any]]] = {names: [] for names in sets}
    size = dict.fromkeys(sets, 0)
    if len(sets) < 2:
        return {}
    listed = [*sets]
    try:
        for group in engine.group([*sets.values()]) or ():
            names = listed[group[0]]
            size[names] += len(group[2])
            if size[names] <= _FEW_VALUES:
                kept[names].append(group)
    except TooManyGroupsError:
        return {}
    return {names: groups for names, groups in kept.items() if 0 < size[names] <= _FEW_VALUES}


def tell_recoded_values(part: "Part", invalid: Mapping[str, int] | None) -> str | None:
    """Say how many values of a question became something else, in words; None: none did."""
    if invalid is None:  # of two columns: each is treated by itself
        assert isinstance(part.task, Grouped)
        counts: Counter[str] = Counter()
        for column, domain in zip(part.both, part.task.domain.parts, strict=True):
            own = Coder.for_part(domain, part.policy).on_invalid
            if own.recodes:
                counts.update(read_codes(column, domain, own).invalid)
        invalid = {fault: counts[fault] for fault in FAULTS}
    return tell_recoded(part.policy, invalid)
