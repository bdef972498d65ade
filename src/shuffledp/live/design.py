"""From a survey to a collection: which protocol carries each question, and what can be promised.

The floor is for the whole report. Either a report answers every question, and they share the floor by their weights;
or it answers one random question with the whole floor, if that is more accurate. Then the shuffled guarantee at min_batch is computed from the composed privacy curves. If it is worse than what was
asked for, every question gets less of the floor, until it holds.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.core.cells import Cells
from shuffledp.core.domain import Categories, Integers, Reals
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.octets import report_bytes
from shuffledp.core.privacy import Model, round_up
from shuffledp.core.protocol import HONEST, ShuffleProtocol, honest_users
from shuffledp.core.task import Task
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets, signing_public
from shuffledp.live.servers import describe_dummies, serve_questions
from shuffledp.live.wire.document import LARGEST_FLOOR, Collection, Windows, write_document
from shuffledp.live.wire.hpke import public_bytes
from shuffledp.live.wire.logo import pack_logo, unpack_logo
from shuffledp.live.wire.promise import NO_FLOOR, Noise, Pledge, add_floors, compute_guarantee
from shuffledp.live.wire.question import Question
from shuffledp.live.wire.texts import Asking, Texts, read_asking, suggest_kind
from shuffledp.numerics.leaves import ask_leaves
from shuffledp.numerics.search import find_largest_above
from shuffledp.planner.choice import choose
from shuffledp.planner.rows import check_sight, measure_sight
from shuffledp.protocols import make
from shuffledp.protocols.one_question import SAMPLED, foresee_variance
from shuffledp.questions import Question as SurveyQuestion
from shuffledp.questions import Survey
from shuffledp.questions.source import read_table
from shuffledp.tasks import GROUPED, TASKS, task_named

__all__ = [
    "LARGEST_FLOOR",
    "LOCAL_EPSILON",
    "Design",
    "DesignQuestion",
    "Settings",
    "SurveyFile",
    "choose_protocols",
    "compare_noise",
    "create",
    "foresee_error",
    "generate_analyzer",
    "make_collection",
    "measure_influence",
    "parse_survey",
    "read_survey",
]

LOCAL_EPSILON = 3.0
"""The floor of a whole report, unless the operator says otherwise: right guesses in at most 95 % of cases."""
_CLOSE = 0.01
_RANKED = ("quantiles", "cdf", "range")  # whose errors are those of numbers of people
_LABEL_YES = ("no", "yes")
_FROM_THE_RIGHT = ("ar", "arc", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi")
"""Languages that are written from right to left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignQuestion:
    """A question of a survey: what it is about, and how much of the floor it may take."""

    name: str
    kind: str
    """What a document calls the task: its name, mean_by_group or sum_by_group."""
    task: Task
    text: str
    column: str
    weight: float = 1.0
    protocol: str | None = None
    """Use this one, not the most accurate."""
    groups: tuple[str, ...] = ()
    """Of a number by group, which has a `range`, too."""
    range: tuple[float, float] | None = None
    asking: Asking | None = None
    """How it is asked; None: as usual."""
    answers: tuple[str, ...] = _LABEL_YES
    """The words for no and yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a collection is run: the table `[collection]` of a survey file, or options of the command."""

    title: str = "A survey"
    url: str = "http://127.0.0.1:8000"
    people: int = 1000
    """How many reports a window is expected to have."""
    min_batch: int | None = None
    """None: half of the people."""
    honest: float = HONEST
    local_epsilon: float | str = LOCAL_EPSILON
    """The floor of a whole report; "none": there is none, and the messages are the answers."""
    trust_the_shuffler: bool = False
    """Whether no floor, or one above `LARGEST_FLOOR`, which is hardly one, is accepted."""
    noise: str | None = None
    """Who adds the noise, "devices" or "servers"; None: whichever gives the smaller error."""
    start: int | None = None
    """Seconds since 1970; None: now."""
    seconds: int = 7 * 86_400
    windows: int = 1
    grace: int = 600
    reports_per_device: int = 1
    composed: bool = True
    tokens: bool = False
    one_question: bool | None = None
    """Whether a report answers one random question with the whole floor; None: if that is more accurate."""
    keys: int = 1
    """How many keys the shuffler has, each for an equal share of the windows."""
    language: str = "en"
    """Of all texts, as a tag such as de or pt-BR: the page speaks it, if there is a catalogue."""
    welcome: str | None = None
    consent: str | None = None
    """What people must agree to before they send."""
    contact: str | None = None
    logo: str | None = None
    """A small PNG or JPEG: of a survey file its path from there, otherwise as `pack_logo` writes it."""

    @property
    def texts(self) -> Texts:
        """What stands around the questions."""
        return Texts(
            title=self.title,
            language=self.language,
            direction="rtl" if self.language.partition("-")[0] in _FROM_THE_RIGHT else "ltr",
            welcome=self.welcome,
            consent=self.consent,
            contact=self.contact,
            logo=self.logo,
        )

    @property
    def floor(self) -> float:
        """The floor of a whole report, infinite if there is none."""
        if self.local_epsilon == NO_FLOOR:
            return math.inf
        if isinstance(self.local_epsilon, str):
            raise ParameterError("local_epsilon", self.local_epsilon, 'must be a number, or "none"')
        return positive("local_epsilon", self.local_epsilon)

    @property
    def noises(self) -> tuple[Noise, ...]:
        """Whose noise may be planned for."""
        if self.noise is None:
            return tuple(Noise) if math.isfinite(self.floor) else (Noise.SERVERS,)
        if self.noise not in [each.value for each in Noise]:
            raise ParameterError("noise", self.noise, 'must be "devices" or "servers"')
        chosen = Noise(self.noise)
        if chosen is Noise.DEVICES and math.isinf(self.floor):
            raise ParameterError(
                "local_epsilon", self.local_epsilon, 'must be a number if noise = "devices"'
            )
        return (chosen,)

    @property
    def batch(self) -> int:
        """The given min_batch, or the one derived from the number of people."""
        return max(2, self.people // 2) if self.min_batch is None else self.min_batch


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyFile:
    """What a survey file says."""

    epsilon: float
    delta: float
    asked: tuple[DesignQuestion, ...]
    settings: Settings = field(default_factory=Settings)

    def choose_protocols(self) -> "Design":
        """The most accurate protocols for it."""
        return choose_protocols(
            self.asked, epsilon=self.epsilon, delta=self.delta, settings=self.settings
        )

    def choose_other(self, design: "Design") -> "Design":
        """The best plan whose noise comes from servers if that of this one comes from devices, and the reverse.

        `UnsupportedError` if there is none; with the same floor, unless there is none: then with the usual one.
        """
        other = Noise.DEVICES if design.served else Noise.SERVERS
        settings = replace(self.settings, noise=other.value)
        if other is Noise.DEVICES and math.isinf(settings.floor):
            settings = replace(settings, local_epsilon=LOCAL_EPSILON)
        return replace(self, settings=settings).choose_protocols()


def read_survey(path: str | Path) -> SurveyFile:
    """Read a survey file in TOML, the same as for files: `sdp.Survey` reads it, and names the line of what is wrong.

    `[collection]` says how it is run on people's devices; a question may have a `text` for them.
    """
    return _take_survey(Survey.load(path), Path(path).parent)


def parse_survey(content: Mapping[str, Any], path: Path) -> SurveyFile:
    """Read a survey from tables; `path` is for messages and the title."""
    return _take_survey(Survey.read(content, str(path)))


def _take_survey(survey: Survey, folder: Path | None = None) -> SurveyFile:
    if survey.model is not Model.SHUFFLE:
        raise survey.source.fail(
            'a live collection has a shuffler: leave out model, or write model = "shuffle"', "model"
        )
    # What a survey says for files too stands above; [collection] may say it again for people's devices.
    said = {"title": survey.title, "honest": survey.honest, **survey.collection}
    settings = read_table(Settings, said, survey.source, "collection", what="[collection]")
    try:
        settings = replace(settings, logo=_read_logo(settings.logo, folder))
    except (OSError, ValueError, ParameterError) as error:
        raise survey.source.fail(
            f"the logo cannot be taken: {error}", "collection", "logo"
        ) from None
    for question in survey.questions:
        _check_live(survey, question)
    declared = {
        question.name: task_named(question.task).declare(question.options).task
        for question in survey.questions
    }
    return SurveyFile(
        epsilon=positive("epsilon", survey.epsilon),
        delta=survey.delta,
        asked=tuple(_take_question(survey, each, declared) for each in survey.questions),
        settings=settings,
    )


def _read_logo(said: str | None, folder: Path | None) -> str | None:
    """The logo that a survey names; without a folder, a page has sent it."""
    if said is None:
        return None
    if folder is None or said.startswith("data:"):
        return pack_logo(unpack_logo(said))
    return pack_logo((folder / said).read_bytes())


def _check_live(survey: Survey, question: SurveyQuestion) -> None:
    """Refuse what devices cannot answer."""
    with survey.locate(question):
        if not question.kind.live:
            able = ", ".join(name for name, each in TASKS.items() if each.live)
            raise UnsupportedError(f"task={question.task!r} cannot be collected live; {able} can")
        if question.error is not None:
            raise UnsupportedError("a live collection cannot aim at an error yet")
        if question.auto is not None:
            raise UnsupportedError(
                "'auto' is for files: a live collection declares lower and upper"
            )
        if question.optional:
            raise UnsupportedError(
                "optional is for files: people's devices are asked with a last category for no answer, and "
                "asked = { skip = true }"
            )


def _take_question(
    survey: Survey, question: SurveyQuestion, declared: Mapping[str, Task]
) -> DesignQuestion:
    asked = DesignQuestion(
        name=question.name,
        kind=question.kind.live_name or question.task,
        task=declared[question.name],
        text=question.text or question.name,
        column=question.column or question.name,
        weight=1.0 if question.weight is None else question.weight,
        protocol=question.protocol,
        **_take_asking(survey, question, declared[question.name]),
    )
    if question.by is None:
        return asked
    with survey.locate(question):
        return _pair(asked, survey.find_groups(question, declared).labels)


def _take_asking(survey: Survey, question: SurveyQuestion, task: Task) -> dict[str, Any]:
    """How devices ask it, and its own words for no and yes: what the document says of it, without what is usual."""
    if question.asked is None:
        return {}
    said = dict(question.asked)
    answers = said.pop("answers", None)
    with survey.locate(question):
        kind = question.kind.live_name or question.task
        usual = Asking(kind=suggest_kind(kind)).to_dict()
        domain = task.domain
        labels = domain.labels if isinstance(domain, Categories) else None
        asking = read_asking({**usual, **said}, question.name, kind, labels)
        if answers is None:
            return {"asking": asking}
        if not task.yes_or_no or not isinstance(answers, list) or len(answers) != 2:
            raise ParameterError("answers", answers, "must be the words for no and for yes")
        return {"asking": asking, "answers": tuple(map(str, answers))}


def _pair(asked: DesignQuestion, groups: tuple[str, ...]) -> DesignQuestion:
    """A question by group as a histogram over pairs, so that nobody reveals their group.

    Of numbers only one of the two ends is sent, at random: far fewer pairs, and so far less noise.
    """
    domain = asked.task.domain
    if asked.kind not in GROUPED or not (asked.task.adds or asked.task.counts):
        raise UnsupportedError(f"{asked.kind} by group cannot be collected live")
    if asked.task.adds:
        assert isinstance(domain, Reals | Integers)
        ends = float(domain.lower), float(domain.upper)
        kind, answers = f"{asked.kind}_by_group", tuple(map("{:g}".format, ends))
        asked = replace(asked, groups=groups, range=ends)
    else:
        kind, answers = "histogram", _LABEL_YES if asked.task.yes_or_no else domain.labels
    labels = tuple(f"{group}: {answer}" for group in groups for answer in answers)
    return replace(
        asked, kind=kind, task=task_named("histogram").declare({"categories": labels}).task
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The questions with their protocols, and the promise that holds for them."""

    questions: tuple[Question, ...]
    pledge: Pledge
    limited_by: str
    """What keeps the answers from being more accurate: the floor, the promise, or the servers' noise."""

    @property
    def served(self) -> bool:
        """Whether the servers add the noise."""
        return self.pledge.noise is Noise.SERVERS

    def sample(self, people: int) -> int:
        """How many of the people's reports answer a question, if that is known: among dummies it is not."""
        sampled = self.pledge.one_question and not self.served
        return max(1, people // len(self.questions)) if sampled else people

    def measure_report(self, *, tokens: bool) -> int:
        """Bytes of a report in an upload."""
        slots = 1 if self.pledge.one_question else len(self.questions)
        size = max(each.code.size for each in self.questions)
        return report_bytes(slots, size, token=32 * tokens)

    def find_sight(self, people: int) -> dict[str, int]:
        """For each question about words: how many of the people must have one for it to be found (95 %)."""
        seen = ((each.name, measure_sight(each.protocol, people)) for each in self.questions)
        return {name: count for name, count in seen if count is not None}

    @property
    def influence(self) -> float:
        """By how many people one report can move an answer, at most: all its messages may be for one question.

        If it has one random question, its answer counts for as many reports as there are questions. Infinite if one
        of them is about words: no bound is known for those.
        """
        each = max(map(measure_influence, self.questions))
        # Where the servers add noise, that a report answers one question is part of the message's weight.
        return each if self.served and self.pledge.one_question else len(self.questions) * each

    def describe_influence(self) -> str:
        """The same in a few words: of the questions with a bound, and which have none."""
        each = {one.name: measure_influence(one) for one in self.questions}
        bounds = [influence for influence in each.values() if math.isfinite(influence)]
        others = ", ".join(name for name, influence in each.items() if math.isinf(influence))
        if not bounds:
            return f"By how many people one report can move {others} is not known"
        most = self.influence if not others else len(each) * max(bounds)
        known = f"One report can move an answer by up to {round_up(most, 3)} people"
        return f"{known} ({others}: not known)" if others else known


def measure_influence(question: Question) -> float:
    """By how many people one message can move the answer, rounded up; infinite for words, where no bound is known."""
    offered = question.protocol.offers.influence
    assert offered is not None  # as that of all protocols that can be carried
    influence = offered()
    if not question.kind.listed:
        return math.inf
    if math.isinf(influence):
        raise UnsupportedError(
            f"question {question.name!r}: nothing is known of what one report can do among "
            f"{question.protocol.randomizer.domain.size:,} cells: give fewer steps, up to 65,536"
        )
    return math.nextafter(float(influence), math.inf)


def choose_protocols(
    asked: Sequence[DesignQuestion], *, epsilon: float, delta: float, settings: Settings
) -> Design:
    """The most accurate protocols within the floor and the promise, by the noise of devices or servers.

    Of devices the floor usually decides: shuffling makes far more of it than was asked for, and the promise says so.
    """
    floor = settings.floor
    whole("people", settings.people, at_least=2)
    batch = whole("min_batch", settings.batch, at_least=2)
    honest_users(batch, settings.honest)
    pledge = Pledge(
        epsilon=positive("epsilon", epsilon),
        delta=fraction_of_one("delta", delta),
        honest=settings.honest,
        min_batch=batch,
        local_epsilon=floor,
        reports_per_device=settings.reports_per_device,
        composed=settings.composed,
        trust_the_shuffler=settings.trust_the_shuffler,
    )
    # The floors of several reports add up. The document states the sum, and devices whose limit it exceeds ask first.
    if floor > LARGEST_FLOOR and not settings.trust_the_shuffler:
        most, where = (
            ("a number", "without") if math.isinf(floor) else (f"<= {LARGEST_FLOOR:g}", "above")
        )
        raise ParameterError(
            "local_epsilon",
            settings.local_epsilon,
            f"must be {most}: {where}, people keep nothing from a shuffler that conspires; if it is "
            "trusted, say trust_the_shuffler (--trust-the-shuffler)",
        )
    found, refused = [], []
    for noise in settings.noises:
        try:
            found.append(_choose_best(asked, replace(pledge, noise=noise), settings))
        except UnsupportedError as error:
            refused.append(error)
    if not found:
        raise refused[0] if len(refused) == 1 else UnsupportedError("; ".join(map(str, refused)))
    return min(found, key=lambda each: foresee_error(each, settings.people))


def _choose_best(asked: Sequence[DesignQuestion], pledge: Pledge, settings: Settings) -> Design:
    """The most accurate plan with this noise: every question, or one random question for each report."""
    plan = _plan_servers if pledge.noise is Noise.SERVERS else _plan_devices
    designs = []
    if settings.one_question is not True:
        designs.append(plan(asked, pledge, settings.people))
    if settings.one_question or (settings.one_question is None and _may_sample(asked, settings)):
        designs.append(plan(asked, replace(pledge, one_question=True), settings.people))
    best = min(designs, key=lambda each: foresee_error(each, settings.people))
    for each in best.questions:
        check_sight(each.protocol, settings.people)
    return best


def _plan_devices(asked: Sequence[DesignQuestion], pledge: Pledge, people: int) -> Design:
    floor, weights = pledge.local_epsilon, sum(each.weight for each in asked)
    if pledge.one_question:
        crowd = max(2, people // len(asked))
        chosen = [_choose(each, floor, crowd) for each in asked]
    else:
        chosen = [
            _choose(each, floor * each.weight / weights * (1 - 1e-12), people) for each in asked
        ]
    return _fit(asked, chosen, pledge)


def _plan_servers(asked: Sequence[DesignQuestion], pledge: Pledge, people: int) -> Design:
    made = serve_questions(asked, pledge, people)
    questions = tuple(
        replace(_question(each, protocol), noise=describe_dummies(protocol))
        for each, protocol in zip(asked, made, strict=True)
    )
    floor = add_floors(questions, one=pledge.one_question)
    if math.isfinite(floor):
        floor = min(pledge.local_epsilon, float(round_up(floor, 4)))
    stated = replace(pledge, local_epsilon=floor)
    compute_guarantee(questions, stated)  # refuses what no device could recompute
    return Design(questions=questions, pledge=stated, limited_by="the servers' noise")


def _may_sample(asked: Sequence[DesignQuestion], settings: Settings) -> bool:
    """Whether one random question of several is possible."""
    if math.isinf(settings.floor):
        return False  # the noise of all questions together is as small, and nobody is left out
    once = settings.reports_per_device == 1 or not settings.composed
    alike = len({each.weight for each in asked}) == 1  # everybody has the same chance to be asked
    return once and alike and len(asked) > 1 and all(each.kind in SAMPLED for each in asked)


def foresee_error(design: Design, people: int) -> float:
    """The largest standard error of an answer, as a share of the people or of the range, if answers are mixed.

    Of a number in a cell only the cell is known: that is an error, too.
    """
    errors = []
    for each in design.questions:
        if each.spelling is not None:
            own = float(np.max(each.protocol.analyzer.variance(np.array([people]))))
            errors.append(math.sqrt(own) / people)
            continue
        size = each.protocol.randomizer.domain.size
        counts = np.full(size, people // size, dtype=np.int64)
        counts[0] += people - counts.sum()
        variance = float(np.max(foresee_variance(each.protocol, counts, design.sample(people))))
        domain = each.protocol.randomizer.domain
        if each.by_tree and isinstance(domain, Integers | Cells):
            own = math.sqrt(variance) / ask_leaves(each.task).relate(domain, people)
            blur = 1 / size / math.sqrt(12) if isinstance(domain, Cells) else 0.0
            errors.append(math.hypot(own, blur))
            continue
        unit = 1.0 if each.ends is None else each.ends[1] - each.ends[0]
        errors.append(
            math.sqrt(variance) / unit / (1 if each.averages and each.range is None else people)
        )
    return max(errors)


def compare_noise(survey: SurveyFile, design: Design) -> str:
    """Say whose noise a plan has, how large its errors are, and what the other noise would give."""
    people = survey.settings.people
    numbers = [
        each for each in design.questions if each.ends is not None and each.task not in _RANKED
    ]

    def show(plan: Design) -> str:
        error = foresee_error(plan, people)
        if numbers:
            return f"{100 * error:.3g} % of the people, or of the range of a number"
        return f"{people * error:.3g} people"

    mine, others = ("servers", "devices") if design.served else ("devices", "servers")
    said = f"The {mine} add the noise: standard errors are up to {show(design)}"
    try:
        other = survey.choose_other(design)
    except ShuffledpError as error:
        return f"{said}. The {others} cannot: {error}."
    usual = ", with the usual floor" if math.isinf(design.pledge.local_epsilon) else ""
    return f"{said}; if the {others} did{usual}, up to {show(other)}."


def _choose(asked: DesignQuestion, epsilon0: float, people: int) -> ShuffleProtocol:
    made = choose(
        asked.task, n=max(2, people), epsilon=epsilon0, model=Model.LOCAL, protocol=asked.protocol
    )
    assert isinstance(made, ShuffleProtocol)
    return made


def _fit(
    asked: Sequence[DesignQuestion], chosen: Sequence[ShuffleProtocol], pledge: Pledge
) -> Design:
    """The design with the largest local epsilons within the floor that keep the promise."""

    @cache
    def at(share: float) -> tuple[tuple[Question, ...], float]:
        questions = tuple(
            _question(each, _scale(protocol, share))
            for each, protocol in zip(asked, chosen, strict=True)
        )
        return questions, compute_guarantee(questions, pledge).epsilon

    def spare(share: float) -> float:
        return math.log(pledge.epsilon / max(at(share)[1], 1e-300))

    questions, reached = at(1.0)
    limited_by = "the floor"
    if reached > pledge.epsilon:
        limited_by = "the promise"
        # Answers that are epsilon / 2-private together without any shuffling keep the promise.
        least = pledge.epsilon / pledge.local_epsilon / 2 / pledge.reports_per_device
        share = find_largest_above(
            spare, end=1.0, guess=pledge.epsilon / reached, tolerance=_CLOSE, floor=least
        )
        questions, reached = at(share)
    return Design(
        questions=questions,
        pledge=replace(
            pledge,
            epsilon=min(pledge.epsilon, float(round_up(reached, 4))),
            local_epsilon=min(
                pledge.local_epsilon,
                float(round_up(add_floors(questions, one=pledge.one_question), 4)),
            ),
        ),
        limited_by=limited_by,
    )


def _scale(protocol: ShuffleProtocol, share: float) -> ShuffleProtocol:
    given = dict(protocol.parameters)
    return make(protocol.name, **{**given, "epsilon": given["epsilon"] * share})


def _question(asked: DesignQuestion, protocol: ShuffleProtocol) -> Question:
    labels: tuple[str, ...] | None = None
    if asked.task.yes_or_no:
        labels = asked.answers
    elif asked.groups:
        labels = asked.groups
    elif isinstance(protocol.randomizer.domain, Categories):
        labels = asked.task.domain.labels
    return Question(
        name=asked.name,
        text=asked.text,
        task=asked.kind,
        protocol=protocol,
        labels=labels,
        range=asked.range,
        asking=asked.asking,
    )


def create(
    design: Design,
    settings: Settings,
    *,
    shuffler: ShufflerSecrets,
    analyzer_public: bytes,
    analyzer_sign: bytes,
    now: float | None = None,
) -> Collection:
    """The document. Of the analyzer's keys it holds the public ones only."""
    moment = time.time() if now is None else now
    return write_document(
        texts=settings.texts,
        questions=design.questions,
        pledge=design.pledge,
        windows=Windows(
            start=int(moment) if settings.start is None else settings.start,
            seconds=settings.seconds,
            count=settings.windows,
            grace=settings.grace,
        ),
        url=settings.url.rstrip("/"),
        shuffler_keys=shuffler.public_keys(settings.windows),
        shuffler_sign=signing_public(shuffler.sign),
        analyzer_public=analyzer_public,
        analyzer_sign=analyzer_sign,
        tokens=settings.tokens,
    )


def make_collection(
    design: Design,
    settings: Settings,
    keys: tuple[AnalyzerSecrets | None, bytes, bytes] | None = None,
) -> tuple[Collection, ShufflerSecrets, AnalyzerSecrets | None]:
    """The document of a new collection and the secrets of its roles.

    `keys` are the analyzer's secrets and their public halves; only the latter if they were made elsewhere.
    """
    shuffler = ShufflerSecrets.generate(settings.keys)
    analyzer, public, sign = generate_analyzer() if keys is None else keys
    collection = create(
        design, settings, shuffler=shuffler, analyzer_public=public, analyzer_sign=sign
    )
    return collection, shuffler, analyzer


def generate_analyzer() -> tuple[AnalyzerSecrets, bytes, bytes]:
    """New keys of an analyzer, and their public halves."""
    secrets = AnalyzerSecrets.generate()
    return secrets, public_bytes(secrets.inner), signing_public(secrets.sign)
