"""`shuffledp shuffler`: serve the shuffler of a collection."""

from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._live import (
    FolderArgument,
    InstanceOption,
    MetricsOption,
    PortOption,
    TlsOption,
    WorkersOption,
    open_home,
    read_certificate,
)
from shuffledp.cli._terminal import explain_errors, tell


def shuffler(
    folder: FolderArgument,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: PortOption = 8000,
    tls: TlsOption = None,
    workers: WorkersOption = None,
    metrics: MetricsOption = None,
    instance: InstanceOption = None,
    results: Annotated[
        str | None,
        typer.Option(
            help="The address where the analyzer shows results; people see them once they are published."
        ),
    ] = None,
) -> None:
    """Run the shuffler of a live collection: it learns who takes part, but no answers.

    $ shuffledp shuffler survey --port 8000
    """
    with explain_errors():
        home = open_home(folder, instance)
        said = f"The shuffler listens on {host}:{port}. End with Ctrl-C."
        sdp.live.serve.run_shuffler(
            home,
            host=host,
            port=port or 8000,
            workers=workers,
            metrics=metrics,
            certificate=read_certificate(tls),
            results=results,
            ready=lambda: tell(said),
        )
