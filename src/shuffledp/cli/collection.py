"""`shuffledp collection`: make, rehearse, check, watch and close a live collection."""

from __future__ import annotations

import json
import textwrap
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._live import (
    FolderArgument,
    InstanceOption,
    describe_collection,
    open_home,
    read_pairs,
    tell_simulated,
)
from shuffledp.cli._options import JsonOption, spread, whole_number
from shuffledp.cli._progress import show_steps
from shuffledp.cli._terminal import explain_errors, is_quiet, say, tell
from shuffledp.cli.report import SimulateOptions

_STATES = {
    "written": "waiting for the analyzer",
    "deleted": "handed to the analyzer and deleted here",
    "expired": "deleted because there were too few",
}
app = typer.Typer(
    name="collection",
    help="Make, rehearse, check, watch or close a live collection: a survey on people's own devices.",
    no_args_is_help=True,
    add_completion=False,
)

SurveyArgument = Annotated[Path, typer.Argument(help="The survey file, in TOML.")]
PeopleOption = Annotated[
    str | None, typer.Option(help="How many reports to expect in each window.")
]
FloorOption = Annotated[
    str | None,
    typer.Option(
        help="The floor: the epsilon that each report keeps even if everybody else conspires, or none. Default: 3."
    ),
]
NoiseOption = Annotated[
    str | None,
    typer.Option(
        help="Who adds the noise: devices or servers. Default: as the survey file says, otherwise whichever gives "
        "the smaller error."
    ),
]


TrustOption = Annotated[
    bool,
    typer.Option(
        "--trust-the-shuffler",
        help="Accept no floor, or one above 8: people must then trust the shuffler not to conspire with the analyzer.",
    ),
]


def _read(
    survey: Path,
    people: str | None,
    local_epsilon: str | None,
    url: str | None = None,
    *,
    noise: str | None,
    trusted: bool,
) -> tuple[sdp.Survey, sdp.live.Settings]:
    """Return the survey and its settings, with what the command line says instead of what the file says."""
    asked, settings = sdp.live.read_survey(survey)
    said: dict[str, Any] = {
        "people": None if people is None else whole_number(people, "people"),
        "local_epsilon": None if local_epsilon is None else _read_floor(local_epsilon),
        "noise": noise,
        "url": url,
        "trust_the_shuffler": trusted or None,
    }
    given = {name: value for name, value in said.items() if value is not None}
    return asked, replace(settings, **given)


def _read_floor(said: str) -> float | str:
    if said == "none":
        return said
    try:
        return float(said)
    except ValueError:
        raise sdp.ParameterError("local_epsilon", said, 'must be a number, or "none"') from None


@app.command()
def new(
    survey: SurveyArgument,
    out: Annotated[
        Path | None, typer.Option(help="The folder to make; default: the name of the survey file.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="The address at which devices reach the shuffler.")
    ] = None,
    people: PeopleOption = None,
    local_epsilon: FloorOption = None,
    noise: NoiseOption = None,
    trust_the_shuffler: TrustOption = False,
    analyzer: Annotated[
        Path | None,
        typer.Option(
            help="The file of the analyzer's public keys, which its operator made with `collection keys`."
        ),
    ] = None,
) -> None:
    """Plan a survey for people's own devices: choose protocols, make keys, write the document.

    $ shuffledp collection new survey.toml
    """
    with explain_errors():
        asked, settings = _read(
            survey, people, local_epsilon, url, noise=noise, trusted=trust_the_shuffler
        )
        home = sdp.live.serve.Home(out or survey.with_suffix(""))
        design = sdp.live.choose_protocols(asked, settings)
        keys = None if analyzer is None else _read_keys(analyzer)
        collection, shuffler, secrets = sdp.live.make_collection(design, settings, keys)
        home.create(collection, shuffler, secrets)
        tell(describe_collection(collection))
        for line in (
            f"{design.describe_influence()}; accuracy is limited by {design.limited_by}.",
            sdp.live.compare_noise(asked, settings, design),
        ):
            tell(textwrap.fill(line, 80))
        for name, needed in design.find_sight(settings.people).items():
            tell(
                f"{name}: of {settings.people:,} people {needed:,} must have a word for it to be found "
                "with probability 95 %."
            )
        tell(f"Written: {home.path}")


def _read_keys(path: Path) -> tuple[None, bytes, bytes]:
    try:
        content = json.loads(path.read_text())
        return None, bytes.fromhex(content["public"]), bytes.fromhex(content["sign"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise sdp.DataError(f"{path} has no public keys of an analyzer") from error


@app.command()
def keys(
    folder: Annotated[Path, typer.Argument(help="The folder to make, on the analyzer's machine.")],
) -> None:
    """Make the keys of an analyzer on its own machine, and print the public ones.

    $ shuffledp collection keys analyzer
    """
    with explain_errors():
        secrets, public, sign = sdp.live.generate_analyzer()
        secrets.save(sdp.live.serve.Home(folder).analyzer)
        typer.echo(json.dumps({"public": public.hex(), "sign": sign.hex()}))


@app.command()
def check(
    document: Annotated[
        str, typer.Argument(help="A document (a file), or the link of a collection.")
    ],
) -> None:
    """Check a document as a device does: its hash, laws and keys, and the promise, which is recomputed.

    $ shuffledp collection check survey/collection.json
    """
    with explain_errors():
        if document.startswith(("http://", "https://")):
            sdp.live.serve.require_serve()
            raw, expected = sdp.live.serve.fetch_document(document)
            collection = sdp.live.wire.Collection.read(raw, expected)
        else:
            path = Path(document)
            place = path / "collection.json" if path.is_dir() else path
            try:
                collection = sdp.live.wire.Collection.read(place.read_bytes())
            except OSError as error:
                raise sdp.DataError(f"{place} cannot be read: {error.strerror}") from error
        guarantee = sdp.live.check_promise(collection)
        tell(describe_collection(collection))
        tell(f"\nThe promise holds: {guarantee}")


@app.command()
def status(
    folder: FolderArgument, instance: InstanceOption = None, as_json: JsonOption = False
) -> None:
    """Show what a running shuffler has accepted and rejected, by reason, and the state of its windows.

    $ shuffledp collection status survey
    """
    with explain_errors():
        state = sdp.live.serve.Operator(open_home(folder, instance)).status()
        if as_json:
            typer.echo(json.dumps(state))
            return
        typer.echo(f"Accepted since the start: {state['accepted']:,}")
        for reason, number in state["rejected"].items():
            typer.echo(f"Rejected, {reason}: {number:,}")
        for window in state["windows"]:
            typer.echo(
                f"Window {window['window']}: {_STATES.get(window['state'], window['state'])}, "
                f"{window.get('reports', 0):,} reports"
            )
        if state["failing"] is not None:
            typer.echo(f"Cannot work now: {state['failing']}")
        seen = state["analyzer_seen_seconds_ago"]
        typer.echo(
            "The analyzer has not asked for a batch yet."
            if seen is None
            else f"The analyzer last asked {seen} seconds ago."
        )


@app.command()
def close(folder: FolderArgument, instance: InstanceOption = None) -> None:
    """Take no more reports: seal every window that has begun, and open no other.

    $ shuffledp collection close survey
    """
    with explain_errors():
        for window in sdp.live.serve.Operator(open_home(folder, instance)).close()["windows"]:
            tell(
                f"Window {window['window']}: {window['state']}, {window.get('reports', 0):,} reports"
            )


@app.command()
def clock(
    folder: FolderArgument,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Confirm that the clock is right, so that the shuffler continues."
        ),
    ] = False,
    instance: InstanceOption = None,
) -> None:
    """Show the time on a running shuffler's clock, or confirm after a jump that it is right.

    $ shuffledp collection clock survey
    """
    with explain_errors():
        operator = sdp.live.serve.Operator(open_home(folder, instance))
        now = operator.accept_clock() if accept else time.time()
        failing = operator.status()["failing"]  # no word about the clock if nobody goes by it
        typer.echo(f"The clock says {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(now))} UTC.")
        if failing is not None:
            typer.echo(f"Cannot work now: {failing}")


@app.command()
def forget(folder: FolderArgument) -> None:
    """Delete the shuffler's keys of windows that it has sealed: nobody can open their reports any more.

    $ shuffledp collection forget survey
    """
    with explain_errors():
        home = sdp.live.serve.Home(folder)
        secrets = sdp.live.ShufflerSecrets
        over = secrets.forget(home.shuffler, home.collection(), home.list_ended())
        tell(f"Deleted keys: {', '.join(map(str, over)) or 'none'}.")


@app.command()
def prune(
    folder: FolderArgument,
    days: Annotated[
        float,
        typer.Option(help="Keep the batches of windows that ended less than this many days ago."),
    ] = 30.0,
) -> None:
    """Delete the analyzer's batches of windows that were published long ago; results and the ledger stay.

    $ shuffledp collection prune survey --days 30
    """
    with explain_errors():
        home = sdp.live.serve.Home(folder)
        gone = home.open_analyzer().delete_batches(time.time() - 86_400 * days)
        tell(f"Deleted batches: {', '.join(map(str, gone)) or 'none'}.")


@app.command()
def tokens(
    count: Annotated[str, typer.Argument(help="How many to make.")],
    out: Annotated[Path, typer.Option(help="The file to make, with one token on each line.")],
) -> None:
    """Make single-use tokens to give to participants, and print their hashes for the shuffler's operator.

    $ shuffledp collection tokens 100 --out tokens.txt > hashes.txt
    """
    with explain_errors():
        made, hashes = sdp.live.make_tokens(whole_number(count, "count"))
        sdp.live.write_private(out, "".join(f"{each.hex()}\n" for each in made).encode())
        typer.echo("\n".join(each.hex() for each in hashes))


@app.command()
def issue(
    folder: FolderArgument,
    hashes: Annotated[Path, typer.Argument(help="The hashes that `collection tokens` printed.")],
    only_check: Annotated[
        bool,
        typer.Option(
            "--check", help="Issue nothing; only say how many are unused, and how many are spent."
        ),
    ] = False,
    instance: InstanceOption = None,
) -> None:
    """Tell a running shuffler which tokens were given out, or ask how many of them are spent.

    $ shuffledp collection issue survey hashes.txt
    """
    with explain_errors():
        known = _read_hashes(hashes)
        operator = sdp.live.serve.Operator(open_home(folder, instance))
        if not only_check:
            operator.issue_tokens(known)
        counts = operator.count_tokens(known)
        shown = ", ".join(f"{number:,} {state}" for state, number in counts.items())
        if only_check:
            typer.echo(f"{len(known):,} tokens: {shown}.")
        else:
            tell(f"{len(known):,} tokens: {shown}.")


def _read_hashes(path: Path) -> list[bytes]:
    try:
        hashes = [bytes.fromhex(line) for line in path.read_text().split()]
    except (OSError, ValueError) as error:
        raise sdp.DataError(f"{path} cannot be read as hashes of tokens: {error}") from error
    if not hashes or {len(each) for each in hashes} != {32}:
        raise sdp.DataError(f"{path} must have one hash of 64 hexadecimal digits in each line")
    return hashes


@app.command()
def results(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Show what the analyzer has published, window by window.

    $ shuffledp collection results survey
    """
    with explain_errors():
        home = sdp.live.serve.Home(folder)
        analyzer = home.open_analyzer()
        published = analyzer.results()
        if as_json:
            typer.echo(json.dumps({"results": published}))
        elif published:
            typer.echo(sdp.live.serve.show_text(analyzer.collection, published))
        else:
            typer.echo("Nothing is published yet.")


@app.command()
def privacy(
    folder: FolderArgument,
    out: Annotated[Path, typer.Option(help="The page to write, in HTML.")] = Path("privacy.html"),
) -> None:
    """Write a privacy notice for a data protection officer: who processes what, for how long.

    $ shuffledp collection privacy survey --out privacy.html
    """
    with explain_errors():
        content = sdp.live.serve.write_privacy(sdp.live.serve.Home(folder).collection())
        try:
            out.write_text(content, encoding="utf-8")
        except OSError as error:
            raise sdp.DataError(f"{out} cannot be written: {error.strerror}") from error
        tell(f"Written: {out}. Fill in what is marked in it.")


@app.command()
def page(
    out: Annotated[Path, typer.Argument(help="The folder to make.")],
) -> None:
    """Write the participation page, to host it apart from the shuffler, and print the hash to publish.

    $ shuffledp collection page site
    """
    with explain_errors():
        digest = sdp.live.pages.write_site(out)
        tell(
            f"Written: {out}. Invite people to index.html#link=LINK with the link of the collection."
        )
        label = "" if is_quiet() else "The SHA-256 hash of its SHA256SUMS, to publish: "
        typer.echo(f"{label}{digest}")


@app.command()
def rehearse(
    survey: SurveyArgument,
    people: Annotated[str, typer.Option(help="How many made-up people take part.")] = "1000",
    hostile: Annotated[float, typer.Option(help="The share of people who are hostile.")] = 0.0,
    local_epsilon: FloorOption = None,
    noise: NoiseOption = None,
    trust_the_shuffler: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Play a survey from end to end on this machine before it goes live, with made-up people.

    $ shuffledp collection rehearse survey.toml --people 500
    """
    with explain_errors():
        sdp.live.serve.require_serve()
        planned = _read(survey, None, local_epsilon, noise=noise, trusted=trust_the_shuffler)
        crowd = whole_number(people, "people")
        with show_steps() as say:
            played = sdp.live.serve.rehearse(*planned, people=crowd, hostile=hostile, say=say)
        if as_json:
            typer.echo(json.dumps(played.to_dict()))
        else:
            tell(str(played))
    if not played.fine:
        raise typer.Exit(1)


@app.command()
@spread
def simulate(
    survey: SurveyArgument,
    people: Annotated[Path, typer.Argument(help="A file with a row for each person.")],
    column: Annotated[
        list[str] | None, typer.Option(help="QUESTION=COLUMN, where the names differ.")
    ] = None,
    *,
    reading: SimulateOptions,
    local_epsilon: FloorOption = None,
    noise: NoiseOption = None,
    trust_the_shuffler: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show what a collection would publish if the people of a file answered: nothing is sealed or sent.

    $ shuffledp collection simulate survey.toml people.csv --noise servers
    """
    with explain_errors():
        sdp.live.serve.require_serve()
        planned = _read(survey, None, local_epsilon, noise=noise, trusted=trust_the_shuffler)
        said = read_pairs(column or [])
        files = reading.find(people)
        collection, result, read = sdp.live.serve.try_survey(*planned, files, said, **reading.taken)
        tell_simulated(read, as_json=as_json)
        for exposed in reading.exposed:
            say(f"NOT PRIVATE: {exposed}.", err=True)
        if as_json:
            noises = {"noise": collection.pledge.noise.value, "left_out": read.left_out}
            typer.echo(json.dumps({**noises, **result, "not_private": reading.exposed}))
        else:
            typer.echo(sdp.live.serve.show_text(collection, [result]))
            tell(
                f"The {collection.pledge.noise.value} add the noise. This machine saw every value."
            )
