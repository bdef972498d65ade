"""`plan`, `run`, `randomize` and `estimate` where a survey is asked, not one question."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import shuffledp as sdp
from shuffledp.cli._progress import meter, pulse
from shuffledp.cli._terminal import (
    charge,
    check_picture,
    echo_json,
    is_quiet,
    keep_inputs,
    say,
    say_lines,
    stage_outputs,
    tell_written,
)

if TYPE_CHECKING:
    from shuffledp.cli._options import BudgetOptions, GroupOptions, OutputOptions, PrivacyOptions

__all__ = ["estimate_survey", "plan_survey", "randomize_survey", "run_survey", "show_sent"]


def plan_survey(
    path: str, n: int | None, said: dict[str, Any], other: dict[str, Any], *, as_json: bool
) -> None:
    """Print which protocols answer a survey, how well, and what each question costs.

    Refused are options that a survey file has `said`, and `other` ones that its plan has no use for.
    """
    _refuse(said)
    _refuse(other, "the plan of a survey has no use for it")
    if n is None:
        raise sdp.ParameterError("n", n, "must be given: how many people take part")
    survey = sdp.Survey.load(path)
    with pulse("planning"):
        plan = survey.plan(n)
    if as_json:
        echo_json(plan.to_dict())
    else:
        say_lines(str(plan))


def run_survey(
    path: str,
    paths: list[str],
    options: Any,
    privacy: PrivacyOptions,
    output: OutputOptions,
    budget: BudgetOptions,
    engine: str,
    master: str | None,
    grouping: GroupOptions,
) -> None:
    """Ask the people in files all questions of a survey."""
    _refuse({"by": grouping.by, "groups": grouping.groups})
    survey, rng = _open(path, options, privacy)
    chosen = sdp.engine.find_engine(engine, threads=privacy.threads, master=master)
    targets = [output.out, output.plot]
    _check_targets(output)
    where = survey.read_filter(privacy.filter)
    spending = budget.open(rng, where=where)
    with stage_outputs(targets, force=output.force) as outputs:
        keep_inputs(targets, [path, *paths, budget.ledger])
        with meter() as report:
            prepared = survey.prepare(
                privacy.find(paths), engine=chosen, where=where, report=report, read_early=True
            )
            if spending is not None:
                spending.check(prepared.plan.guarantee)
            answer = prepared.answer(rng=rng, level=output.level, report=report)
        if answer.for_operator is not None:
            typer.echo(answer.for_operator, err=True)
        _write(answer, output, outputs)
        with charge(spending, answer.guarantee, answer.note, err=output.as_json):
            try:
                outputs.publish()
            finally:
                _print(answer, **output.shown)
    tell_written(targets, as_json=output.as_json)


def _open(path: str, options: Any, privacy: PrivacyOptions) -> tuple[sdp.Survey, Any]:
    """The survey, and the words that a seed gives; refuses what the survey says itself."""
    _refuse(vars(options))
    own = ("epsilon", "delta", "column", "protocol", "max_messages", "honest")
    _refuse({name: getattr(privacy, name) for name in own})
    # These have defaults, so only another value tells that they were given.
    _refuse({"missing": privacy.missing})
    _refuse({"on_invalid": privacy.on_invalid != "error", "model": privacy.model != "shuffle"})
    _refuse({"allow_large_delta": privacy.allow_large_delta}, "a survey has no use for it")
    return sdp.Survey.load(path), privacy.rng


def randomize_survey(
    files: list[str],
    out: Path,
    options: Any,
    privacy: PrivacyOptions,
    budget: BudgetOptions,
    n: int | None,
    said: dict[str, Any],
    *,
    as_json: bool,
    force: bool,
) -> None:
    """Write the messages of everybody to all questions of a survey, the first of the files."""
    path, *paths = files
    _refuse(said)
    if not paths:
        raise sdp.DataError(f"whom does {path} ask? Name the files of people, too")
    survey, rng = _open(path, options, privacy)
    chosen = sdp.engine.find_engine("duckdb", threads=privacy.threads)
    where = survey.read_filter(privacy.filter)
    spending = budget.open(rng, where=where)
    with stage_outputs([out], force=force) as outputs, meter() as report:
        keep_inputs([out], [path, *paths, budget.ledger])
        data = privacy.find(paths)
        prepared = survey.prepare(data, engine=chosen, where=where, report=report, n=n)
        made, entry = prepared.protocol, None
        if spending is not None:  # before the first message reaches the disk
            note = {"task": "survey", "questions": [each.name for each in survey.questions]}
            entry = spending.charge(made.guarantee, {**note, "out": out.name})
        sent = prepared.randomize(outputs[out], rng=rng, report=report)
        outputs.publish()
        spent = [] if spending is None or entry is None else [spending.mark_released(entry)]
    weaker = sdp.questions.tell_weaker(made, sent.n)
    if weaker is not None:
        say(f"{weaker}.", err=True)
    rows = prepared.plan.rows
    record = {
        "survey": survey.title,
        "questions": {row.question: {"task": row.task, "protocol": row.protocol} for row in rows},
        "not_private": list(prepared.expose(rng)),
        "notes": spent,
    }
    about = f" to {len(rows)} question{'s' * (len(rows) != 1)}"
    show_sent(sent, out, made.guarantee, record, about=about, as_json=as_json)


def show_sent(
    sent: sdp.engine.Randomized,
    out: Path,
    guarantee: sdp.Guarantee,
    record: dict[str, Any],
    *,
    about: str = "",
    as_json: bool,
) -> None:
    """What was sent, for people or for programs, beside what the record says about it already."""
    for text in record["not_private"]:
        say(f"NOT PRIVATE: {text}.", err=True)
    if as_json:
        common = {"out": str(out), "n": sent.n, "messages": sent.messages}
        common |= {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
        echo_json({**record, **common, "guarantee": str(guarantee), "version": sdp.__version__})
    elif not is_quiet():
        typer.echo(f"{sent.messages:,} messages of {sent.n:,} people{about} are in {out}.")
        named = f"{record['protocol']}: " if "protocol" in record else ""
        for line in (f"{named}{guarantee}.", *record["notes"]):
            say(line)


def estimate_survey(
    collected: sdp.engine.Collected, output: OutputOptions, outputs: sdp.engine.Staged
) -> None:
    """Print and write all answers that a tally of a survey gives."""
    _check_targets(output)
    answer = sdp.SurveyAnswer.of(collected, level=output.level)
    _write(answer, output, outputs)
    outputs.publish()
    _print(answer, **output.shown)


def _write(answer: sdp.SurveyAnswer, output: OutputOptions, outputs: sdp.engine.Staged) -> None:
    outputs.write(output.out, answer.write)
    outputs.write(output.plot, answer.write_page)


def _check_targets(output: OutputOptions) -> None:
    check_picture(output.plot, force=output.force, page=True)
    if output.plot is not None and output.plot.suffix.lower() != ".html":
        raise sdp.UnsupportedError("a survey is drawn as a page: --plot must end in .html")
    if output.out is not None and output.out.suffix.lower() != ".json":
        raise sdp.UnsupportedError("a survey is written as JSON: --out must end in .json")


def _refuse(given: dict[str, Any], why: str = "a survey file says it itself") -> None:
    """A survey says itself what it asks and how privately."""
    said = [name for name, value in given.items() if value is not None and value is not False]
    if said:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in said)
        raise sdp.UnsupportedError(f"{flags} is for one question: {why}")


def _print(answer: sdp.SurveyAnswer, *, as_json: bool, explain: bool, written: bool) -> None:
    if as_json:
        echo_json(answer.to_dict())
    if as_json or (written and is_quiet()):
        for warning in answer.warnings:
            typer.echo(warning, err=True)
    else:
        say_lines(str(answer))
    if explain:
        typer.echo(f"\n{answer.explain()}", err=as_json)
