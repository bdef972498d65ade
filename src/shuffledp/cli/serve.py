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

_DEMONSTRATION = """\
epsilon = 1.0
delta = 1e-8

[questions.way]
task = "histogram"
text = "How do you get to work?"
categories = ["car", "bicycle", "bus", "train", "other"]

[questions.home]
task = "count"
text = "Do you work at home sometimes?"
"""

_OWN = """\
Certificate:     {file} is self-signed, so browsers warn. Tell people its SHA-256 fingerprint, to compare
                 it before they go on:
                 {print}"""


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
    host: Annotated[
        str,
        typer.Option(
            help="The address or name by which people reach this machine; any but loopback needs --tls."
        ),
    ] = "127.0.0.1",
    tls: Annotated[
        str | None,
        typer.Option(
            help="For https: CERT,KEY, the files of a certificate and of its key; or self, to make a self-signed "
            "one and keep it."
        ),
    ] = None,
    workers: WorkersOption = None,
) -> None:
    """Run surveys on this machine, with a desk to make, watch and close them.

    All surveys of the folder come back when it is served again. If there is none yet, a demonstration is shown. The
    desk is for this machine alone; with `--host` and `--tls` people reach surveys from other machines, and are told that one
    operator plays all roles.

    $ shuffledp serve survey
    """
    with explain_errors():
        sdp.live.serve.require_serve()
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the roles end, too
        with ExitStack() as stack:
            one = folder is not None and (folder / "collection.json").exists()
            root = _find_root(None if one else folder)
            place = _find_place(host, tls)
            desk = sdp.live.serve.Desk(root, workers=workers, place=place)
            stack.callback(desk.stop)
            back = desk.adopt_all()
            home = open_home(folder) if one and folder is not None else None
            if home is None and not back and not desk.status()["collections"]:
                spare = stack.enter_context(TemporaryDirectory(prefix="shuffledp-"))
                home = _make_demonstration(Path(spare), place)
            if home is not None:
                desk.adopt(home)
                _explain(desk, home)
            if place.certificate is not None and place.certificate.own:
                tell(_OWN.format(print=place.certificate.fingerprint, file=place.certificate.chain))
            tell(f"Surveys are in: {root}" + (f" ({len(back)} came back)" if back else ""))
            sdp.live.serve.run_desk(
                desk, port, say=lambda link: tell(f"Your desk:      {link}\nEnd with Ctrl-C.")
            )
        tell("Ended.")


def _find_place(host: str, tls: str | None) -> sdp.live.serve.Place:
    folder = sdp.live.pages.find_data_folder() / "tls"
    certificate = sdp.live.serve.choose_certificate(host, tls, folder)
    return sdp.live.serve.Place(host=host, certificate=certificate)


def _find_root(folder: Path | None) -> Path:
    """Return the folder of surveys."""
    if folder is not None and folder.is_file():
        raise sdp.UnsupportedError(
            f"{folder} is a file: make a collection of it with `shuffledp collection new {folder}`, and serve its folder"
        )
    if folder is not None and folder.suffix == ".toml" and not folder.exists():
        raise sdp.UnsupportedError(
            f"{folder} does not exist, and looks like a survey file: name a folder, or the folder of a collection"
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
    if status["fingerprint"] is None:  # programs refuse certificates that sign themselves
        tell(f"or by:          shuffledp report '{collection.link}' {answers}")
    tell(f"See results:    {status['results_page']}")
    tell(f"Close it:       shuffledp collection close {home.path}")


def _make_example(question: sdp.live.wire.Question) -> str:
    label = "" if question.labels is None else question.labels[-1]
    if question.ends is None:
        return shlex.quote(label)
    number = f"{question.ends[0]:g}"
    return shlex.quote(f"{label}: {number}") if label else number


def _make_demonstration(folder: Path, place: sdp.live.serve.Place) -> sdp.live.serve.Home:
    survey = folder / "survey.toml"
    survey.write_text(_DEMONSTRATION)
    asked, usual = sdp.live.read_survey(survey)
    settings = replace(
        usual,
        title="A demonstration survey",
        url=place.locate_shuffler(place.find_port()),
        people=2000,
    )
    design = sdp.live.choose_protocols(asked, settings)
    home = sdp.live.serve.Home(folder / "survey")
    home.create(*sdp.live.make_collection(design, settings))
    return home
