"""How a survey will be answered: the building block and the budget of each question, and what they cost.

Everybody answers every question. Each question gets the protocol with the smallest error at about the budget that it
will have. Among many parts, histograms with dummies can be as good as those with correlated noise and send far less,
so both are looked at.

Budgets go by weights. Without weights they make the largest relative error small. With an `error` for each question
no budget is given: every question gets the noise that its error allows, and the survey the smallest epsilon that
covers all of them together.
"""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from shuffledp.accounting.base import find_epsilon, gaussian_epsilon, gaussian_scale
from shuffledp.accounting.rules import Release, share
from shuffledp.core import __version__
from shuffledp.core.display import align, shorten_label
from shuffledp.core.errors import ShuffledpError, UnsupportedError
from shuffledp.core.notebook import make_table, say, stack
from shuffledp.core.privacy import Guarantee, Model, round_up
from shuffledp.core.protocol import Cost, Crowd, Mechanism, Promise, ShuffleProtocol
from shuffledp.core.task import Task
from shuffledp.mechanisms.several import Several
from shuffledp.planner.question import Limits, Problem, candidates
from shuffledp.planner.rows import evaluate
from shuffledp.protocols import bundle, make, spec
from shuffledp.protocols.one_question import OneQuestionAnalyzer
from shuffledp.protocols.shared.joint import PartSpec, account, guess_parts, has_fixed_delta
from shuffledp.questions.answer import name_task
from shuffledp.questions.parts import (
    LocalWay,
    choose_curators,
    choose_part,
    choose_way,
    describe_part,
    find_curator_error,
    find_error,
)
from shuffledp.tasks.groups import Grouped, spread_groups

if TYPE_CHECKING:
    from shuffledp.questions.question import Question
    from shuffledp.questions.survey import Survey

_HEADS = ("question", "task", "protocol", "error", "relative", "budget", "messages", "others")

_LONGEST_NAME = 16  # of a question in a table
_STEEPEST = 8.0  # how far apart the budgets may be that the planner chooses
_AS_GOOD = 1.05  # with fewer messages
_MANY = 6  # histograms, from which dummies are as good as correlated noise by calculation
_COMMON = ("n", "epsilon", "delta", "honest")  # parameters that the whole survey has
_LARGEST_EPSILON = 25.6
_NO_FLOOR = (
    "Asking each person one random question would be worse: the noise of a shuffled answer hardly depends on how "
    "many people answer, and no report has to be private on its own."
)
_CURATED = "A trusted curator has everybody's values, and adds the noise to the exact answers: nobody sends messages."
_CLOSE = 0.99
_TRIES = 12
_POINTS, _FEW_POINTS = 96, 24  # of each curve: for the promise, and for what is said about costs


def make_plan(survey: "Survey", tasks: Sequence[Task], n: int) -> "SurveyPlan":
    """Return the best way to answer these tasks, those of the survey's questions."""
    if survey.model is Model.CENTRAL:
        several = choose_curators(survey, tasks, n)
        return SurveyPlan(
            survey=survey, n=n, tasks=tuple(tasks), weights=several.shares, protocol=several
        )
    if survey.model is Model.LOCAL:
        way = choose_way(survey, tasks, n)
        return SurveyPlan(
            survey=survey,
            n=n,
            tasks=way.tasks,
            weights=way.shares,
            protocol=way.protocol,
            way=way,
        )
    maker = _Maker(survey, tuple(tasks), n)
    if survey.aims:
        return maker.aim()
    parts = maker.choose(survey.part_epsilon)
    frugal = maker.save_messages(parts)
    if frugal is None:
        return maker.fit(parts)
    saving = maker.fit(frugal)
    merit = maker.judge(_list_sent(saving))
    if _count_histograms(frugal) >= _MANY or maker.is_beaten(parts, merit):
        return saving
    fitted = maker.fit(parts)
    return saving if merit <= _AS_GOOD * maker.judge(_list_sent(fitted)) else fitted


def _count_histograms(parts: Sequence[ShuffleProtocol]) -> int:
    """Count each level of a tree as a histogram of its own."""
    return sum(len(part.parameters.get("shape") or (1,)) for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyRow:
    """One question of a plan: who answers it, how well, and what it costs."""

    question: str
    task: str
    protocol: str
    error: float
    """Root of the mean squared error on the worst data; of quantiles in ranks."""
    relative: float
    """The same, relative to everybody or to the whole range."""
    share: float
    """Its part of the privacy budget, of 1 together."""
    messages: float
    """Messages of one person."""
    without: float | None
    """By which factor all other errors would fall without it; None if there are no others."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SurveyPlan:
    """The plan of a survey: how each question will be answered, and what that costs."""

    survey: "Survey"
    n: int
    tasks: tuple[Task, ...]
    weights: tuple[float, ...]
    protocol: ShuffleProtocol | Several
    way: LocalWay | None = None
    """In the local model: whether everybody answers everything, and why."""

    @property
    def parts(self) -> tuple[ShuffleProtocol | Mechanism, ...]:
        """The protocol (or a curator's mechanism) of each question."""
        if isinstance(self.protocol, Several):
            return self.protocol.parts
        analyzer = self.protocol.analyzer
        if isinstance(analyzer, OneQuestionAnalyzer):
            return analyzer.parts
        return tuple(part for _, part in bundle.questions(self.protocol))

    @property
    def cost(self) -> Cost | None:
        """What one person sends; None: nothing, to a curator."""
        return self.protocol.cost if isinstance(self.protocol, ShuffleProtocol) else None

    @property
    def _sent(self) -> tuple[float, float]:
        """Messages and bits of one person."""
        cost = self.cost
        return (0.0, 0.0) if cost is None else (cost.messages_mean, cost.bits_per_message)

    @property
    def one_question(self) -> bool:
        """Whether everybody answers one random question."""
        return self.way is not None and self.way.one

    @property
    def rows(self) -> tuple[SurveyRow, ...]:
        """A row for each question."""
        return _make_rows(self)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about all answers together."""
        return self.protocol.guarantee

    def compare(self, model: Model | str) -> tuple[float | None, ...]:
        """Return the error of each question in the central or the local model, for the same promise about all answers.

        A curator's answers are accounted for together, as those of the shuffler are, with the same epsilon each; and it
        can run the shuffler's protocols itself, if these have less noise. In the local model epsilon is split evenly.
        None where no mechanism or protocol answers the question.
        """
        chosen = Model(model)
        if isinstance(self.protocol, Several) and chosen is Model.CENTRAL:
            return tuple(row.error for row in self.rows)
        delta = 0.0 if chosen is Model.LOCAL or self.way is not None else self.guarantee.delta
        promise = Promise(epsilon=self.guarantee.epsilon, delta=delta)
        epsilon = share(promise, [Release(1, spread_groups(task).bins) for task in self.tasks])
        errors = tuple(_find_best(task, self.n, epsilon, chosen) for task in self.tasks)
        if chosen is Model.LOCAL or self.way is not None:
            return errors
        return tuple(
            row.error if error is None else min(error, row.error)
            for row, error in zip(self.rows, errors, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings: what `shuffledp plan survey.toml --json` prints."""
        messages, bits = self._sent
        others = zip(self.compare("central"), self.compare("local"), strict=True)
        return {
            "epsilon": self.guarantee.epsilon,
            "delta": self.guarantee.delta,
            "n": self.n,
            "questions": {
                row.question: {
                    "task": row.task,
                    "protocol": row.protocol,
                    "rmse": row.error,
                    "relative": row.relative,
                    "share": row.share,
                    "messages_per_user": row.messages,
                    "others_without": row.without,
                    "central_rmse": central,
                    "local_rmse": local,
                }
                for row, (central, local) in zip(self.rows, others, strict=True)
            },
            "one_question": self.one_question,
            "messages_per_user": messages,
            "bits_per_user": messages * bits,
            "guarantee": self.guarantee.to_dict(),
            "version": __version__,
        }

    def __str__(self) -> str:
        named = [(shorten_label(line[0], _LONGEST_NAME), *line[1:]) for line in self._lines()]
        # The task is known: without it the table fits into 80 columns.
        lines = [(line[0], *line[2:]) for line in (_HEADS, *named)]
        table = align(lines, texts=2, gap="  ")
        return "\n".join([self._title, *table, *self._remarks()])

    def _repr_html_(self) -> str:
        """Return how notebooks show it."""
        table = make_table(_HEADS, self._lines(), texts=3)
        return stack(say(self._title, bold=True), table, *map(say, self._remarks()))

    @property
    def _title(self) -> str:
        return f"{self.survey.title}: {len(self.rows)} questions, {self.n:,} people"

    def _lines(self) -> list[tuple[str, ...]]:
        return [
            (
                shorten_label(row.question),
                row.task,
                row.protocol,
                f"{row.error:.3g}",
                f"{100 * row.relative:.2g} %",
                f"{100 * row.share:.0f} %",
                f"{row.messages:.2f}",
                "" if row.without is None else f"-{100 * (1 - row.without):.0f} %",
            )
            for row in self.rows
        ]

    def _remarks(self) -> list[str]:
        messages, bits = self._sent
        sent = f"{messages:.2f} messages of {bits} bits each"
        ways = [f"Everybody answers everything: {sent}.", _NO_FLOOR]
        if self.cost is None:
            ways = [_CURATED]
        if self.way is not None:
            ways = [*([self.way.why] if self.way.why else []), f"Everybody sends {sent}."]
        return [
            *([self._say_costs()] if len(self.rows) > 1 else []),
            *(ways if len(self.rows) > 1 else ways[:1]),
            self._say_models(),
            f"{self.guarantee}.",
        ]

    def _say_models(self) -> str:
        """Return the same table in the other two models, in a line."""
        said = []
        others = [("central", "A trusted curator"), ("local", "People who trust nobody")]
        others = others[:1] if self.way is not None else others[1:] if self.cost is None else others
        for model, who in others:
            errors = zip(self.rows, self.compare(model), strict=True)
            known = (
                f"{shorten_label(row.question)} {error:.3g}"
                for row, error in errors
                if error is not None
            )
            said.append(f"{who} would be off by: {', '.join(known)}.")
        if self.way is not None:
            return f"{' '.join(said)} (The same epsilon, split evenly, with delta = 0.)"
        if self.cost is None:
            return f"{' '.join(said)} (They split epsilon evenly, with delta = 0.)"
        return (
            f"{' '.join(said)} (All for the same promise about all answers together. The curator composes its answers at "
            "the same delta, or runs these protocols itself; people who trust nobody split epsilon evenly, with delta = 0.)"
        )

    def _say_costs(self) -> str:
        most = max(self.rows, key=lambda row: row.share)
        assert most.without is not None
        return (
            "The last column is how much smaller all other errors would be without the question. The most expensive "
            f"question is {shorten_label(most.question)}: without it, they would be about "
            f"{100 * (1 - most.without):.0f} % smaller."
        )


def _find_best(task: Task, n: int, epsilon: float, model: Model) -> float | None:
    """Return the smallest error of the answer in a model with delta = 0; by group, of a bin."""
    task = spread_groups(task)
    asked = Problem.of(task, n=n, epsilon=epsilon, delta=0.0, honest=1.0)
    limits = Limits.of(models=model)
    rows = (evaluate(each, asked, limits) for each in candidates(task) if each.model is model)
    errors = [row.rmse for row in rows if row.available and row.rmse is not None]
    return min(errors) / task.scale(n) if errors else None


@lru_cache(maxsize=8)  # plans are compared by identity
def _make_rows(plan: SurveyPlan) -> tuple[SurveyRow, ...]:
    scales = [task.relate(plan.n) for task in plan.tasks]
    if isinstance(plan.protocol, Several):
        made = zip(plan.tasks, plan.protocol.parts, scales, strict=True)
        relative = [find_curator_error(task, part, plan.n) / scale for task, part, scale in made]
        shares, without = [*plan.weights], plan.protocol.leave_out_each()
    elif plan.way is None:
        relative = [
            find_error(part, plan.n) / s for part, s in zip(_list_sent(plan), scales, strict=True)
        ]
        total = math.fsum(weight**2 for weight in plan.weights)
        shares = [weight**2 / total for weight in plan.weights]
        without = _leave_out_each(plan)
    else:
        relative, shares = [*plan.way.errors], [*plan.way.shares]
        without = plan.way.leave_out_each()
    sent = 1 / len(plan.parts) if plan.one_question else 1.0
    return tuple(
        SurveyRow(
            question=question.name,
            task=name_task(question.task, question.by),
            protocol=part.name,
            error=error * scale,
            relative=error,
            share=share,
            messages=sent * part.cost.messages_mean if isinstance(part, ShuffleProtocol) else 0.0,
            without=rest,
        )
        for question, part, error, scale, share, rest in zip(
            plan.survey.questions, plan.parts, relative, scales, shares, without, strict=True
        )
    )


def _list_sent(plan: SurveyPlan) -> tuple[ShuffleProtocol, ...]:
    """Return the protocols of the questions, of which people send messages."""
    return tuple(part for part in plan.parts if isinstance(part, ShuffleProtocol))


def _leave_out_each(plan: SurveyPlan) -> list[float | None]:
    """Return what the other errors could be multiplied with: all the budget for what the others spend of it."""
    if len(plan.parts) == 1:
        return [None]
    crowd, delta = Crowd(n=plan.n, honest=plan.survey.honest), plan.guarantee.delta

    def spend(parts: Sequence[ShuffleProtocol]) -> float:
        epsilon = _find_epsilon(parts, crowd, delta, _FEW_POINTS)
        return gaussian_scale(Promise(epsilon=epsilon, delta=delta))

    parts = _list_sent(plan)
    whole = spend(parts)
    others = ([part for i, part in enumerate(parts) if i != place] for place in range(len(parts)))
    return [min(1.0, spend(each) / whole) for each in others]


def _find_epsilon(
    parts: Sequence[ShuffleProtocol], crowd: Crowd, delta: float, points: int = _POINTS
) -> float:
    """Return the epsilon of these parts together at delta."""
    joint = account(parts, Promise(epsilon=1.0, delta=delta))
    curve = joint.open(crowd.trusted, points)
    largest = 0.1
    while curve(largest) > delta:
        largest *= 2
        if largest > _LARGEST_EPSILON:
            raise UnsupportedError(f"no epsilon reaches delta={delta!r} with this noise")
    return find_epsilon(curve, delta, epsilon0=largest, guess=0.7 * largest, tolerance=1e-4)


class _Maker:
    """Chooses and calibrates the parts of one survey."""

    def __init__(self, survey: "Survey", tasks: tuple[Task, ...], n: int) -> None:
        self.survey, self.tasks, self.n = survey, tasks, n
        self.crowd = Crowd(n=n, honest=survey.honest)

    @property
    def asked(self) -> Iterator[tuple["Question", Task]]:
        return zip(self.survey.questions, self.tasks, strict=True)

    def choose(self, epsilon: float) -> list[ShuffleProtocol]:
        """Return the best protocol for each question at about the budget that it will have."""
        return [
            choose_part(self.survey, question, task, n=self.n, epsilon=epsilon)
            for question, task in self.asked
        ]

    def save_messages(self, parts: Sequence[ShuffleProtocol]) -> list[ShuffleProtocol] | None:
        """Return the same plan with dummies instead of correlated noise; None if that changes nothing."""
        if len(parts) == 1:
            return None
        epsilon, frugal = self.survey.part_epsilon, list(parts)
        for place, (question, task) in enumerate(self.asked):
            other = spec(parts[place].name).hints.frugal
            if other is not None and question.protocol is None:
                frugal[place] = choose_part(
                    self.survey, question, task, n=self.n, epsilon=epsilon, protocol=other
                )
        return None if all(a is b for a, b in zip(frugal, parts, strict=True)) else frugal

    def fit(self, parts: Sequence[ShuffleProtocol]) -> SurveyPlan:
        """Return the parts with the largest budgets within the promise, by their weights."""
        assert self.survey.epsilon is not None
        weights = self._weigh(parts)
        return self._bundle(weights, self._describe(parts, weights), self.survey.epsilon)

    def _describe(
        self, parts: Sequence[ShuffleProtocol], weights: Sequence[float]
    ) -> list[dict[str, Any]]:
        return [
            {**describe_part(question, part, _COMMON), "weight": weight}
            for question, part, weight in zip(self.survey.questions, parts, weights, strict=True)
        ]

    def judge(self, parts: Sequence[ShuffleProtocol]) -> float:
        """Return the largest relative error, each times the weight that the user gave."""
        return max(
            (question.weight or 1.0) * find_error(part, self.n) / task.relate(self.n)
            for (question, task), part in zip(self.asked, parts, strict=True)
        )

    def is_beaten(self, parts: Sequence[ShuffleProtocol], merit: float) -> bool:
        """Say whether these parts, with budgets that are too large, are no better than what has this merit already."""
        assert self.survey.epsilon is not None
        promise = Promise(epsilon=self.survey.epsilon, delta=self.survey.delta)
        wanted = map(PartSpec.read, self._describe(parts, self._weigh(parts)))
        try:
            guessed, delta = guess_parts(self.crowd, promise, list(wanted))
        except ShuffledpError:
            return False
        return delta > promise.delta and merit <= _AS_GOOD * self.judge(guessed)

    def _bundle(
        self, weights: Sequence[float], wanted: Sequence[dict[str, Any]], epsilon: float
    ) -> SurveyPlan:
        survey = self.survey
        made = _make_bundle(self.n, epsilon, survey.delta, survey.honest, json.dumps(wanted))
        return SurveyPlan(
            survey=survey, n=self.n, tasks=self.tasks, weights=tuple(weights), protocol=made
        )

    def _weigh(self, chosen: Sequence[ShuffleProtocol]) -> list[float]:
        """Return the user's weights if there are any, otherwise those that make relative errors equal."""
        questions = self.survey.questions
        if any(question.weight is not None for question in questions):
            return [question.weight or 1.0 for question in questions]
        errors = [
            max(find_error(protocol, self.n) / task.relate(self.n), 1e-12)
            for protocol, task in zip(chosen, self.tasks, strict=True)
        ]
        middle = math.exp(math.fsum(map(math.log, errors)) / len(errors))
        most = math.sqrt(_STEEPEST)
        return [float(f"{min(max(each / middle, 1 / most), most):.3g}") for each in errors]

    def aim(self) -> SurveyPlan:
        """Return the smallest epsilon with which every question has the error that is wanted."""
        spent, _ = self._spend(self.choose(self.survey.part_epsilon))
        # Which protocol and which grid are best depends on the budget, and the budget on the protocol.
        scale = math.sqrt(math.fsum(each.mu**2 for each in spent) / len(spent))
        epsilon = gaussian_epsilon(scale, self.survey.delta)
        tasks = tuple(
            task if isinstance(task, Grouped) else task.fit(self.n, epsilon) for task in self.tasks
        )
        return _Maker(self.survey, tasks, self.n)._aim_at(epsilon)

    def _aim_at(self, epsilon: float) -> SurveyPlan:
        """Return the same with the protocols for a question that has this epsilon, for which the tasks are fitted."""
        parts = self.choose(epsilon)
        frugal = self.save_messages(parts)
        tried = [self._spend(each) for each in (parts, frugal) if each is not None]
        spent, needed = tried[0]
        if len(tried) == 2 and tried[1][1] <= _AS_GOOD * needed:
            spent, needed = tried[1]
        self._check(needed, spent)
        epsilon = float(round_up(needed * (1 + 1e-9), 5))
        wanted = [
            {**spec.to_dict(), "epsilon": min(spec.epsilon or epsilon, epsilon)}
            for spec, _, _ in spent
        ]
        return self._bundle([each.mu for each in spent], wanted, epsilon)

    def _spend(self, parts: Sequence[ShuffleProtocol]) -> tuple[list["_Spent"], float]:
        """Return the parts with the least budgets whose errors are those wanted, and their epsilon together."""
        spent = [
            self._reach(question, task, part)
            for (question, task), part in zip(self.asked, parts, strict=True)
        ]
        return spent, _find_epsilon([each.part for each in spent], self.crowd, self._left)

    @property
    def _left(self) -> float:
        """What the words' generator leaves of delta, and a little less."""
        return self.survey.delta * (1 - 1e-6)

    def _check(self, epsilon: float, spent: Sequence["_Spent"]) -> None:
        most = self.survey.epsilon
        if most is not None and epsilon > most:
            dearest = max(spent, key=lambda each: each.mu).spec.name
            raise self.survey.source.fail(
                f"these errors need epsilon = {round_up(epsilon, 3)} with {self.n:,} people, but the survey has "
                f"epsilon = {most:g}; the most expensive question is {dearest!r}"
            )

    def _reach(self, question: "Question", task: Task, part: ShuffleProtocol) -> "_Spent":
        """Return the part with the least budget whose error is the wanted one or less."""
        assert question.error is not None
        spec = PartSpec.read(describe_part(question, part, _COMMON))
        promise = Promise(epsilon=_LARGEST_EPSILON, delta=self._left)
        usual = Promise(epsilon=self.survey.part_epsilon, delta=self.survey.delta)
        delta = self._left
        if has_fixed_delta(part, self.crowd, usual):
            delta /= 4 * len(self.tasks)
        wanted = question.error * task.relate(self.n)

        def at(mu: float) -> tuple[_Spent, float]:
            tried = replace(spec.spend(mu, promise), delta=delta)
            made = tried.make(self.crowd)
            return _Spent(tried, made, mu), find_error(made, self.n)

        start = gaussian_scale(replace(promise, epsilon=self.survey.part_epsilon))
        with self.survey.locate(question):
            return _search(at, wanted, start, question.error, self.n)


class _Spent(NamedTuple):
    """A part with the budget of a mu-Gaussian pair."""

    spec: PartSpec
    part: ShuffleProtocol
    mu: float


def _search(
    at: Callable[[float], tuple[_Spent, float]], wanted: float, mu: float, error: float, n: int
) -> _Spent:
    """Return the part whose error is `wanted` or a little less: errors are about proportional to 1 / mu."""
    most = gaussian_scale(Promise(epsilon=_LARGEST_EPSILON, delta=1e-8))
    best: _Spent | None = None
    low = 0.0
    for _ in range(_TRIES):
        mu = min(mu, most)
        spent, reached = at(mu)
        if reached <= wanted:
            best = spent
            if reached >= _CLOSE * wanted:
                break
        else:
            low = max(low, mu)
            if mu == most:
                break
        mu *= reached / wanted * (1 + (1 - _CLOSE) / 2)
        if best is not None and not low < mu < best.mu:
            mu = (low + best.mu) / 2
    if best is None:
        raise UnsupportedError(
            f"error={error!r} cannot be reached with {n:,} people: even at epsilon = {_LARGEST_EPSILON:g} it is "
            f"{error * reached / wanted:.2g}"
        )
    return best


@lru_cache(maxsize=32)
def _make_bundle(
    n: int, epsilon: float, delta: float, honest: float, parts: str
) -> ShuffleProtocol:
    return make("bundle", n=n, epsilon=epsilon, delta=delta, honest=honest, parts=json.loads(parts))
