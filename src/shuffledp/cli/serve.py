"""`shuffledp serve`: all roles on one machine."""

from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._live import WorkersOption, describe_collection, open_home
from shuffledp.cli._terminal import explain_errors

__all__ = ["serve"]

_DEMONSTRATION = """\
epsilon = 1.0
delta = 1e-8

[questions.way]
task = "histogram"
text = "How do you come to work?"
categories = ["car", "bicycle", "bus", "train", "other"]

[questions.home]
task = "count"
text = "Do you work at home sometimes?"
"""


def serve(
    folder: Annotated[
        Path | None, typer.Argument(help="The folder of a collection; without, a demonstration.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The analyzer's port; default: a free one.")
    ] = None,
    workers: WorkersOption = None,
) -> None:
    """Play all roles of a live collection on this machine: a first look, and tests."""
    with explain_errors():
        sdp.serve.require_serve()
        home = _make_demonstration() if folder is None else open_home(folder)
        collection = home.collection()
        if not collection.development:
            raise sdp.UnsupportedError(
                "this collection is for two operators: start shuffledp shuffler and shuffledp analyzer"
            )
        results = port or sdp.serve.find_port()
        with sdp.serve.play_roles(home, results, workers=workers) as roles:
            typer.echo(describe_collection(collection))
            answers = " ".join(
                f"--answer {each.name}={_example(each)}" for each in collection.questions
            )
            typer.echo(f"\nAnswer it:    shuffledp report '{collection.link}' {answers}")
            typer.echo(f"Close it:     shuffledp collection close {home.path}")
            typer.echo(f"See results:  http://127.0.0.1:{results}")
            typer.echo("End with Ctrl-C.")
            try:
                roles[0].process.wait()
            except KeyboardInterrupt:
                typer.echo("Ended.")


def _example(question: sdp.wire.Question) -> str:
    if question.labels is not None:
        return question.labels[-1]
    return f"{question.protocol.randomizer.domain.values([0])[0]:g}"  # type: ignore[arg-type]


def _make_demonstration() -> sdp.serve.Home:
    place = Path(mkdtemp(prefix="shuffledp-demonstration-"))
    survey = place / "survey.toml"
    survey.write_text(_DEMONSTRATION)
    found = sdp.collect.read_survey(survey)
    settings = replace(
        found.settings,
        title="A demonstration survey",
        url=f"http://127.0.0.1:{sdp.serve.find_port()}",
        people=2000,
    )
    design = sdp.collect.choose_protocols(
        found.asked, epsilon=found.epsilon, delta=found.delta, settings=settings
    )
    shuffler = sdp.collect.ShufflerSecrets.generate()
    secrets, public, sign = sdp.collect.generate_analyzer()
    home = sdp.serve.Home(place / "survey")
    collection = sdp.collect.create(
        design, settings, shuffler=shuffler, analyzer_public=public, analyzer_sign=sign
    )
    home.create(collection, shuffler, secrets)
    return home
