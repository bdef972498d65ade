"""`shuffledp serve`: all roles on one machine."""

import shlex
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._live import WorkersOption, describe_collection, open_home
from shuffledp.cli._terminal import explain_errors, tell

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
        Path | None,
        typer.Argument(
            help="A folder of surveys, or of one collection; default: surveys in your data folder."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="The port of the operator's desk; default: a free one.")
    ] = None,
    workers: WorkersOption = None,
) -> None:
    """Run surveys on this machine, with a desk to make, watch and close them: for a first look and for tests.

    All surveys of the folder come back when it is served again. If there is none yet, a demonstration is shown.

    $ shuffledp serve survey
    """
    with explain_errors():
        sdp.live.serve.require_serve()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the roles end, too
        with ExitStack() as stack:
            one = folder is not None and (folder / "collection.json").exists()
            root = _find_root(None if one else folder)
            desk = sdp.live.serve.Desk(root, workers=workers)
            stack.callback(desk.stop)
            back = desk.adopt_all()
            home = open_home(folder) if one and folder is not None else None
            if home is None and not back and not desk.status()["collections"]:
                place = stack.enter_context(TemporaryDirectory(prefix="shuffledp-"))
                home = _make_demonstration(Path(place))
            if home is not None:
                desk.adopt(home)
                _explain(desk, home)
            tell(f"Surveys are in:  {root}" + (f" ({len(back)} came back)" if back else ""))
            sdp.live.serve.run_desk(
                desk, port, say=lambda link: tell(f"Your desk:      {link}\nEnd with Ctrl-C.")
            )
        tell("Ended.")


def _find_root(folder: Path | None) -> Path:
    """The folder of surveys."""
    if folder is not None and folder.is_file():
        raise sdp.UnsupportedError(
            f"{folder} is a file: make a collection of it with `shuffledp collection new {folder}`, and serve its folder"
        )
    return sdp.live.pages.find_data_folder() / "surveys" if folder is None else folder


def _explain(desk: sdp.live.serve.Desk, home: sdp.live.serve.Home) -> None:
    collection = home.collection()
    status = desk.status()["collections"][0]
    answers = " ".join(
        f"--answer {each.name}={_make_example(each)}" for each in collection.questions
    )
    tell(describe_collection(collection))
    tell(f"\nAnswer it:      {collection.page}")
    tell(f"or by:          shuffledp report '{collection.link}' {answers}")
    tell(f"See results:    {status['results_page']}")
    tell(f"Close it:       shuffledp collection close {home.path}")


def _make_example(question: sdp.live.wire.Question) -> str:
    label = "" if question.labels is None else question.labels[-1]
    if question.ends is None:
        return shlex.quote(label)
    number = f"{question.ends[0]:g}"
    return shlex.quote(f"{label}: {number}") if label else number


def _make_demonstration(place: Path) -> sdp.live.serve.Home:
    survey = place / "survey.toml"
    survey.write_text(_DEMONSTRATION)
    found = sdp.live.read_survey(survey)
    settings = replace(
        found.settings,
        title="A demonstration survey",
        url=f"http://127.0.0.1:{sdp.live.serve.find_port()}",
        people=2000,
    )
    design = replace(found, settings=settings).choose_protocols()
    home = sdp.live.serve.Home(place / "survey")
    home.create(*sdp.live.make_collection(design, settings))
    return home
