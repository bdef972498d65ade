"""From a survey to a collection: which protocol carries each question, and what can be promised.

The floor is what a report keeps from everybody, even if shuffler and analyzer conspire. It is for the whole report.
Either a report answers every question, and they share the floor by their weights; or it answers one random question
with the whole floor, if that is more accurate. Then the guarantee of a shuffled batch of min_batch reports is computed
from the composed privacy curves. If it is worse than what was asked for, every question gets less of the floor, until
it holds.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from shuffledp.core.display import format_bracket
from shuffledp.core.domain import Categories, Cells, Integers, Reals
from shuffledp.core.errors import ParameterError, ShuffledpError, UnsupportedError
from shuffledp.core.privacy import Model, round_up
from shuffledp.core.protocol import HONEST, ShuffleProtocol, honest_users
from shuffledp.core.randomizer import report_bytes
from shuffledp.core.task import Task
from shuffledp.core.validate import fraction_of_one, positive, whole
from shuffledp.live.keys import AnalyzerSecrets, ShufflerSecrets, signing_public
from shuffledp.live.servers import describe_dummies, serve_questions
from shuffledp.live.wire.document import (
    LARGEST_FLOOR,
    Collection,
    Texts,
    Windows,
    pack_logo,
    unpack_logo,
    write_document,
)
from shuffledp.live.wire.promise import NO_FLOOR, Noise, Pledge, add_floors, compute_guarantee
from shuffledp.live.wire.question import Asking, read_asking, suggest_kind
from shuffledp.live.wire.question import Question as WireQuestion
from shuffledp.live.wire.report import public_bytes
from shuffledp.numerics.leaves import ask_leaves
from shuffledp.numerics.rounding import find_largest_above
from shuffledp.planner.choice import choose
from shuffledp.planner.rows import check_sight, measure_sight
from shuffledp.protocols import make
from shuffledp.protocols.one_question import foresee_variance
from shuffledp.questions import Question, Survey
from shuffledp.questions.survey import read_table
from shuffledp.tasks import GROUPED, TASKS
from shuffledp.tasks.groups import Grouped, spread_groups

LOCAL_EPSILON = 3.0
"""The floor of a whole report, unless the operator says otherwise: right guesses in at most 95 % of cases."""
_CLOSE = 0.01
_BELOW = 1 - 1e-12  # so that floors that are rounded up do not add up to more
_NO_AND_YES = ("no", "yes")
_FROM_THE_RIGHT = ("ar", "arc", "ckb", "dv", "fa", "he", "ps", "sd", "ug", "ur", "yi")
"""Languages that are written from right to left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a collection: the table `[collection]` of a survey file, or options of the command."""

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
    """The language of all texts, as a tag such as de or pt-BR; the page speaks it if there is a catalogue."""
    welcome: str | None = None
    consent: str | None = None
    """What people must agree to before they send."""
    contact: str | None = None
    logo: str | None = None
    """A small PNG or JPEG: of a survey file its path from there, otherwise as `pack_logo` writes it."""

    @classmethod
    def read(cls, survey: Survey, folder: Path | None = None) -> "Settings":
        """Read the table `[collection]` of a survey; a logo is a file of the folder, or what a page has sent.

        >>> survey = Survey.read({"epsilon": 1.0, "delta": 1e-6, "questions": {"home": {"task": "count"}}})
        >>> Settings.read(survey).title
        'survey'
        """
        # What a survey says for files too stands above; [collection] may say it again for people's devices.
        content = {"title": survey.title, "honest": survey.honest, **survey.collection}
        settings = read_table(cls, content, survey.source, "collection", what="[collection]")
        try:
            return replace(settings, logo=_read_logo(settings.logo, folder))
        except (OSError, ValueError, ParameterError) as error:
            raise survey.source.fail(
                f"the logo cannot be taken: {error}", "collection", "logo"
            ) from None

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


def read_survey(path: str | Path) -> tuple[Survey, Settings]:
    """Read a survey file in TOML, the same as for files, and how it is run on people's devices: `[collection]`."""
    survey = Survey.load(path)
    return survey, Settings.read(survey, Path(path).parent)


def _read_logo(logo: str | None, folder: Path | None) -> str | None:
    """Return the logo that a survey names, packed; without a folder, it is what a page has sent."""
    if logo is None:
        return None
    if folder is None or logo.startswith("data:"):
        return pack_logo(unpack_logo(logo))
    return pack_logo((folder / logo).read_bytes())


def _declare_tasks(survey: Survey) -> list[Task]:
    """Return what devices are asked: the task of each question, with its domain and groups."""
    if survey.model is not Model.SHUFFLE:
        raise survey.source.fail(
            'a live collection has a shuffler: leave out model, or write model = "shuffle"', "model"
        )
    for question in survey.questions:
        with survey.locate(question):
            _check_live(question)
    declared = {name: each.task for name, each in survey.declare({}).items()}
    tasks = []
    for question in survey.questions:
        task = declared[question.name]
        if question.by is not None:
            with survey.locate(question):
                task = _pair(task, survey.find_groups(question, declared))
        tasks.append(task)
    return tasks


def _check_live(question: Question) -> None:
    """Refuse what devices cannot answer."""
    if not question.kind.live:
        able = ", ".join(name for name, each in TASKS.items() if each.live)
        raise UnsupportedError(f"task={question.task!r} cannot be collected live; {able} can")
    if question.error is not None:
        raise UnsupportedError("a live collection cannot aim at an error yet")
    if question.auto is not None:
        raise UnsupportedError("'auto' is for files: a live collection declares lower and upper")
    if question.optional:
        raise UnsupportedError(
            "optional is for files: on devices, write a last category for no answer, and "
            "asked = { skip = true }"
        )


def _pair(task: Task, groups: Categories) -> Grouped:
    """Return the task by group: devices send a pair of group and answer, so that nobody reveals their group.

    Of numbers only one of the two ends is sent, at random: far fewer pairs, and so far less noise.
    """
    if task.name not in GROUPED or not (task.adds or task.counts):
        raise UnsupportedError(f"{task.document_name} by group cannot be collected live")
    if not task.adds:
        return Grouped.of(task, groups)
    domain = task.domain
    assert isinstance(domain, Reals | Integers)
    return Grouped.at_ends(type(task), (float(domain.lower), float(domain.upper)), groups)


def _write_question(
    survey: Survey, question: Question, task: Task, protocol: ShuffleProtocol
) -> WireQuestion:
    """Return the question as it stands in the document."""
    with survey.locate(question):
        asking, no_and_yes = _read_asking(question, task)
        labels: tuple[str, ...] | None = None
        ends: tuple[float, float] | None = None
        if isinstance(task, Grouped):
            labels, ends = _label_pairs(task)
        elif task.yes_or_no:
            labels = no_and_yes
        elif isinstance(protocol.randomizer.domain, Categories):
            labels = task.domain.labels
    return WireQuestion(
        name=question.name,
        text=question.text or question.name,
        task=task.document_name,
        protocol=protocol,
        labels=labels,
        range=ends,
        asking=asking,
    )


def _label_pairs(task: Grouped) -> tuple[tuple[str, ...], tuple[float, float] | None]:
    """Return what people choose among: groups and a number between two ends, or pairs of group and answer."""
    answers, groups = task.domain.parts
    if isinstance(answers, Reals):
        return groups.labels, (answers.lower, answers.upper)
    words = _NO_AND_YES if task.asked.yes_or_no else answers.labels
    pairs = tuple(f"{group}: {word}" for group in groups.labels for word in words)
    return Categories(k=len(pairs), names=pairs).labels, None  # which refuses two that are alike


def _read_asking(question: Question, task: Task) -> tuple[Asking | None, tuple[str, ...]]:
    """Return how devices ask it (None: as usual), and the words for no and yes."""
    if question.asked is None:
        return None, _NO_AND_YES
    content = dict(question.asked)
    words = content.pop("answers", None)
    name, domain = task.document_name, task.domain
    usual = Asking(kind=suggest_kind(name)).to_dict()
    labels = domain.labels if isinstance(domain, Categories) else None
    asking = read_asking({**usual, **content}, question.name, name, labels)
    if words is None:
        return asking, _NO_AND_YES
    if not task.yes_or_no or not isinstance(words, list) or len(words) != 2:
        raise ParameterError("answers", words, "must be the words for no and for yes")
    return asking, tuple(map(str, words))


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The questions with their protocols, and the promise that holds for them."""

    questions: tuple[WireQuestion, ...]
    pledge: Pledge
    limited_by: str
    """What keeps the answers from being more accurate: the floor, the promise, or the servers' noise."""

    @property
    def served(self) -> bool:
        """Whether the servers add the noise."""
        return self.pledge.noise is Noise.SERVERS

    def sample(self, people: int) -> int:
        """Return how many of the people's reports answer a question; all, where dummies hide it."""
        sampled = self.pledge.one_question and not self.served
        return max(1, people // len(self.questions)) if sampled else people

    def measure_report(self, *, tokens: bool) -> int:
        """Return the bytes of a report in an upload."""
        slots = 1 if self.pledge.one_question else len(self.questions)
        size = max(each.code.size for each in self.questions)
        return report_bytes(slots, size, token=32 * tokens)

    def find_sight(self, people: int) -> dict[str, int]:
        """Return for each question about words how many of the people must have one for it to be found (95 %)."""
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
        """Say the same in a few words: for the questions with a bound, and which have none."""
        each = {one.name: measure_influence(one) for one in self.questions}
        bounds = [influence for influence in each.values() if math.isfinite(influence)]
        others = ", ".join(name for name, influence in each.items() if math.isinf(influence))
        if not bounds:
            return f"By how many people one report can move {others} is not known"
        most = self.influence if not others else len(each) * max(bounds)
        _, people = format_bracket(0.0, most, 3)
        who = "person" if people == "1" else "people"
        known = f"One report can move an answer by up to {people} {who}"
        return f"{known} ({others}: not known)" if others else known


def measure_influence(question: WireQuestion) -> float:
    """Return by how many people one message can move the answer, rounded up; infinite for words: no bound is known."""
    offered = question.protocol.offers.influence
    assert offered is not None  # as that of all protocols that can be carried
    influence = offered()
    if not question.kind.listed:
        return math.inf
    if math.isinf(influence):
        raise UnsupportedError(
            f"question {question.name!r}: it is not known how far one report can move the answer with "
            f"{question.protocol.randomizer.domain.size:,} cells: give fewer steps, at most 65,536"
        )
    return math.nextafter(float(influence), math.inf)


def choose_protocols(survey: Survey, settings: Settings) -> Design:
    """Choose the most accurate protocols within the floor and the promise, by the noise of devices or servers.

    Of devices the floor usually decides: shuffling makes far more of it than was asked for, and the promise says so.
    """
    tasks = _declare_tasks(survey)
    floor = settings.floor
    whole("people", settings.people, at_least=2)
    batch = whole("min_batch", settings.batch, at_least=2)
    honest_users(batch, settings.honest)
    pledge = Pledge(
        epsilon=positive("epsilon", survey.epsilon),
        delta=fraction_of_one("delta", survey.delta),
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
            f"must be {most}: {where}, nothing is hidden from a shuffler that conspires; if it is "
            "trusted, say trust_the_shuffler (--trust-the-shuffler)",
        )
    designs, refused = [], []
    for noise in settings.noises:
        try:
            designs.append(_choose_best(survey, tasks, replace(pledge, noise=noise), settings))
        except UnsupportedError as error:
            refused.append(error)
    if not designs:
        raise refused[0] if len(refused) == 1 else UnsupportedError("; ".join(map(str, refused)))
    return min(designs, key=lambda each: foresee_error(each, settings.people))


def choose_other(survey: Survey, settings: Settings, design: Design) -> Design:
    """Choose the best plan whose noise comes from servers if that of this one comes from devices, and the reverse.

    `UnsupportedError` if there is none. The floor is the same; if there is none, the usual one.
    """
    other = Noise.DEVICES if design.served else Noise.SERVERS
    settings = replace(settings, noise=other.value)
    if other is Noise.DEVICES and math.isinf(settings.floor):
        settings = replace(settings, local_epsilon=LOCAL_EPSILON)
    return choose_protocols(survey, settings)


def _choose_best(
    survey: Survey, tasks: Sequence[Task], pledge: Pledge, settings: Settings
) -> Design:
    """Choose the most accurate plan with this noise: every question, or one random question for each report."""
    plan = _plan_servers if pledge.noise is Noise.SERVERS else _plan_devices
    designs = []
    if settings.one_question is not True:
        designs.append(plan(survey, tasks, pledge, settings.people))
    if settings.one_question or (
        settings.one_question is None and _may_sample(survey, tasks, settings)
    ):
        designs.append(plan(survey, tasks, replace(pledge, one_question=True), settings.people))
    best = min(designs, key=lambda each: foresee_error(each, settings.people))
    for each in best.questions:
        check_sight(each.protocol, settings.people)
    return best


def _plan_devices(survey: Survey, tasks: Sequence[Task], pledge: Pledge, people: int) -> Design:
    floor, asked = pledge.local_epsilon, survey.questions
    weights = sum(each.weight or 1.0 for each in asked)
    questions = []
    for question, task in zip(asked, tasks, strict=True):
        if pledge.one_question:
            epsilon0, crowd = floor, people // len(asked)
        else:
            epsilon0, crowd = floor * (question.weight or 1.0) / weights * _BELOW, people
        protocol = choose(
            spread_groups(task),
            n=max(2, crowd),
            epsilon=epsilon0,
            model=Model.LOCAL,
            protocol=question.protocol,
        )
        assert isinstance(protocol, ShuffleProtocol)
        questions.append(_write_question(survey, question, task, protocol))
    return _fit(questions, pledge)


def _plan_servers(survey: Survey, tasks: Sequence[Task], pledge: Pledge, people: int) -> Design:
    protocols = serve_questions(survey.questions, tasks, pledge, people)
    questions = tuple(
        replace(_write_question(survey, *each), noise=describe_dummies(each[-1]))
        for each in zip(survey.questions, tasks, protocols, strict=True)
    )
    floor = add_floors(questions, one=pledge.one_question)
    if math.isfinite(floor):
        floor = min(pledge.local_epsilon, float(round_up(floor, 4)))
    stated = replace(pledge, local_epsilon=floor)
    compute_guarantee(questions, stated)  # refuses what no device could recompute
    return Design(questions=questions, pledge=stated, limited_by="the servers' noise")


def _may_sample(survey: Survey, tasks: Sequence[Task], settings: Settings) -> bool:
    """Return whether one random question of several is possible."""
    if math.isinf(settings.floor):
        return False  # the noise of all questions together is as small, and nobody is left out
    once = settings.reports_per_device == 1 or not settings.composed
    # Everybody has the same chance to be asked.
    alike = len({question.weight or 1.0 for question in survey.questions}) == 1
    return once and alike and len(tasks) > 1 and all(task.sampled for task in tasks)


def foresee_error(design: Design, people: int) -> float:
    """Return the largest standard error of an answer, as a share of the people or of the range, if answers are mixed.

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
        if (
            each.ends is None or each.range is not None
        ):  # by group, pairs of group and end are counted
            errors.append(math.sqrt(variance) / people)
            continue
        unit = each.ends[1] - each.ends[0]
        errors.append(math.sqrt(variance) / unit / (1 if each.averages else people))
    return max(errors)


def compare_noise(survey: Survey, settings: Settings, design: Design) -> str:
    """Say whose noise a plan has, how large its errors are, and what the other noise would give."""
    people = settings.people
    numbers = [each for each in design.questions if each.ends is not None and not each.kind.ranked]

    def show(plan: Design) -> str:
        error = foresee_error(plan, people)
        if numbers:
            return f"{round_up(100 * error, 3)} % of the people, or of the range of a number"
        return f"{round_up(people * error, 3)} people"

    mine, others = ("servers", "devices") if design.served else ("devices", "servers")
    plain = f"The {mine} add the noise: if all answers are equally frequent, standard errors are up to {show(design)}"
    try:
        other = choose_other(survey, settings, design)
    except ShuffledpError as error:
        return f"{plain}. The {others} cannot add it: {error}."
    usual = ", with the usual floor" if math.isinf(design.pledge.local_epsilon) else ""
    return f"{plain}; if the {others} did{usual}, up to {show(other)}."


def _fit(questions: Sequence[WireQuestion], pledge: Pledge) -> Design:
    """Return the design with the largest local epsilons within the floor that keep the promise."""

    @cache
    def at(share: float) -> tuple[tuple[WireQuestion, ...], float]:
        scaled = tuple(replace(each, protocol=_scale(each.protocol, share)) for each in questions)
        return scaled, compute_guarantee(scaled, pledge).epsilon

    def spare(share: float) -> float:
        return math.log(pledge.epsilon / max(at(share)[1], 1e-300))

    fitted, reached = at(1.0)
    limited_by = "the floor"
    if reached > pledge.epsilon:
        limited_by = "the promise"
        # Answers that are epsilon / 2-private together without any shuffling keep the promise.
        least = pledge.epsilon / pledge.local_epsilon / 2 / pledge.reports_per_device
        share = find_largest_above(
            spare, end=1.0, guess=pledge.epsilon / reached, tolerance=_CLOSE, floor=least
        )
        fitted, reached = at(share)
    floor = round_up(add_floors(fitted, one=pledge.one_question), 4)
    return Design(
        questions=fitted,
        pledge=replace(
            pledge,
            epsilon=min(pledge.epsilon, float(round_up(reached, 4))),
            local_epsilon=min(pledge.local_epsilon, float(floor)),
        ),
        limited_by=limited_by,
    )


def _scale(protocol: ShuffleProtocol, share: float) -> ShuffleProtocol:
    parameters = dict(protocol.parameters)
    return make(protocol.name, **{**parameters, "epsilon": parameters["epsilon"] * share})


def create(
    design: Design,
    settings: Settings,
    *,
    shuffler: ShufflerSecrets,
    analyzer_public: bytes,
    analyzer_sign: bytes,
    now: float | None = None,
) -> Collection:
    """Write the document. Of the analyzer's keys it holds the public ones only."""
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
    """Return the document of a new collection and the secrets of its roles.

    `keys` are the analyzer's secrets and their public halves; only the latter if they were made elsewhere.
    """
    shuffler = ShufflerSecrets.generate(settings.keys)
    analyzer, public, sign = generate_analyzer() if keys is None else keys
    collection = create(
        design, settings, shuffler=shuffler, analyzer_public=public, analyzer_sign=sign
    )
    return collection, shuffler, analyzer


def generate_analyzer() -> tuple[AnalyzerSecrets, bytes, bytes]:
    """Make new keys of an analyzer; returns their public halves too."""
    secrets = AnalyzerSecrets.generate()
    return secrets, public_bytes(secrets.inner), signing_public(secrets.sign)
