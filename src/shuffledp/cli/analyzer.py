"""`shuffledp analyzer`: ask for batches, open them, publish."""

from typing import Annotated

import typer

import shuffledp as sdp
from shuffledp.cli._live import (
    FolderArgument,
    MetricsOption,
    PortOption,
    TlsOption,
    WorkersOption,
    open_home,
    read_certificate,
)
from shuffledp.cli._terminal import explain_errors, tell


def analyzer(
    folder: FolderArgument,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: PortOption = 8001,
    tls: TlsOption = None,
    workers: WorkersOption = None,
    metrics: MetricsOption = None,
    every: Annotated[float, typer.Option(help="Seconds between requests to the shuffler.")] = 2.0,
) -> None:
    """Run the analyzer of a live collection: it learns the answers, but not whose they are.

    $ shuffledp analyzer survey --port 8001
    """
    with explain_errors():
        home = open_home(folder)
        said = f"Results will be on {host}:{port}. End with Ctrl-C."
        sdp.live.serve.run_analyzer(
            home,
            host=host,
            port=port or 8001,
            workers=workers,
            metrics=metrics,
            certificate=read_certificate(tls),
            every=every,
            ready=lambda: tell(said),
        )
