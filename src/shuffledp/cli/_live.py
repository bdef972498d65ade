"""What the commands of live collections share: who may learn what, and where a folder is."""

import textwrap
from pathlib import Path
from typing import Annotated

import typer

import shuffledp as sdp

FolderArgument = Annotated[Path, typer.Argument(help="The folder that `collection new` made.")]
PortOption = Annotated[int | None, typer.Option(help="The port to listen on.")]
WorkersOption = Annotated[
    int | None, typer.Option(help="Processes for decryption; default: one per core.")
]
TlsOption = Annotated[
    str | None,
    typer.Option(
        help="CERT,KEY: the files of a certificate and of its key, to serve https without a proxy."
    ),
]
InstanceOption = Annotated[
    str | None,
    typer.Option(help="The name of this shuffler, if several share a PostgreSQL database."),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        help="The port, or HOST:PORT, where a monitoring system gets /metrics, with the token in the file metrics-token."
    ),
]


def open_home(folder: Path, instance: str | None = None) -> sdp.live.serve.Home:
    """Return the folder of a collection; an error if there is none, or if the web stack is missing."""
    sdp.live.serve.require_serve()
    home = sdp.live.serve.Home(folder, instance or "")
    home.collection()
    return home


def read_certificate(tls: str | None) -> sdp.live.serve.Certificate | None:
    """Read the files that `--tls CERT,KEY` names."""
    return None if tls is None else sdp.live.serve.Certificate.read(tls)


def describe_collection(collection: sdp.live.wire.Collection) -> str:
    """Return the questions, what each report costs, and who may learn what."""
    lines = [collection.title, ""]
    lines += [
        f"  {each.name}: {each.text} ({each.task}, by {each.protocol.name})"
        for each in collection.questions
    ]
    if collection.pledge.one_question:
        lines += [
            "",
            "A report answers one of them, at random; that answer uses the whole floor.",
        ]
    lines += [
        "",
        f"A report has {collection.report_size} bytes, whatever the answers are.",
        f"A batch is opened only if it has at least {collection.pledge.min_batch:,} reports.",
        "",
        "Who may learn what, if these are compromised:",
    ]
    for who, what in sdp.live.describe_trust(collection):
        lines += textwrap.wrap(who, 78, initial_indent="- ", subsequent_indent="  ")
        lines += textwrap.wrap(
            f"people still have: {what}", 78, initial_indent="    ", subsequent_indent="    "
        )
    lines += ["", f"Id: {collection.id.hex()}", f"Link: {collection.link}"]
    return "\n".join(lines)


def read_pairs(texts: list[str]) -> dict[str, str]:
    """Read QUESTION=VALUE, once for each question."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or name in pairs:
            raise sdp.UnsupportedError(f"{text!r} must be QUESTION=VALUE, once for each question")
        pairs[name] = value
    return pairs


def tell_simulated(simulated: sdp.live.serve.Simulated, *, as_json: bool = False) -> None:
    """Say who was left out of a file, and to the operator alone which values became others.

    >>> tell_simulated(sdp.live.serve.Simulated(places={"home": [0, 1]}, left_out=3))
    3 of 5 people had a value that no device would send, and were left out.
    """
    if simulated.left_out and not as_json:
        everybody = simulated.people + simulated.left_out
        typer.echo(
            f"{simulated.left_out:,} of {everybody:,} people had a value that no device would send, and were left out."
        )
    for said in simulated.recoded:
        typer.echo(f"For you alone (exact, so not private): {said}.", err=True)
