"""`shuffledp report`: act as a device."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

import shuffledp as sdp
from shuffledp.cli._live import describe_collection, read_pairs, tell_simulated
from shuffledp.cli._options import FileOptions, OnInvalidOption, WhereOption, spread
from shuffledp.cli._terminal import explain_errors, tell
from shuffledp.core.privacy import round_up
from shuffledp.core.protocol import honest_users


@dataclass(frozen=True, kw_only=True)
class SimulateOptions(FileOptions):
    """Which people of a file simulated devices answer for, and what becomes of values that no device would send.

    >>> SimulateOptions(on_invalid="drop", missing="NA").taken["on_invalid"].missing
    ('NA',)
    """

    where: WhereOption = None
    on_invalid: OnInvalidOption = "error"

    @property
    def taken(self) -> dict[str, Any]:
        """The arguments of `read_places`."""
        where = self.where
        chosen = None if where is None else sdp.engine.Filter.read(where, self.missing)
        policy = sdp.OnInvalid.read(self.on_invalid, self.missing)
        return {"where": chosen, "on_invalid": policy}

    @property
    def exposed(self) -> list[str]:
        """What the number of people tells without noise: who a filter takes, and whose values were left out.

        >>> SimulateOptions(where="age > 18").exposed
        ['n is the exact number of people with age > 18: no noise protects who they are']
        """
        where, policy = self.taken["where"], self.taken["on_invalid"]
        taken = [] if where is None else [where.expose()]
        return taken + ([sdp.questions.LEFT_OUT] if policy.drops else [])


@spread
def report(
    link: Annotated[str, typer.Argument(help="The link of the collection.")],
    answer: Annotated[
        list[str] | None,
        typer.Option(
            help="An answer, QUESTION=VALUE; one for each question. With `-` they are read from standard input, one "
            "per line."
        ),
    ] = None,
    simulate: Annotated[
        Path | None,
        typer.Option(help="Send a report for everybody in this file, instead of answers."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="With --simulate: QUESTION=COLUMN, where the names differ."),
    ] = None,
    *,
    reading: SimulateOptions,
    outbox: Annotated[
        Path | None, typer.Option(help="Where this device keeps its reports and its budget.")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="The token that you were given, or @FILE with it in the first line."),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(help="The epsilon that this device may spend, over all collections together."),
    ] = sdp.live.BUDGET,
    floor_budget: Annotated[
        float,
        typer.Option(
            help="How much the floors of all reports of this device may add up to before you are asked."
        ),
    ] = sdp.live.FLOOR_BUDGET,
    accept_floor: Annotated[
        bool,
        typer.Option(
            "--accept-floor",
            help="Take part even if a collection has no floor, or exceeds the floor budget.",
        ),
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Before anything is sent, show who may learn what.")
    ] = False,
) -> None:
    """Act as a device: answer a live collection, or send a report for everybody in a file.

    Before anything is sent it prints the id of the collection, what is promised and what is left if everybody else
    conspires (the floor). A collection without a floor, or beyond this device's floor budget, is answered only with
    --accept-floor. A report that could not be sent is kept, and the same command sends it again. Other users of a machine see the
    arguments of a command: `--answer -` reads the answers from standard input, `--token @FILE` the token from a file.

    $ shuffledp report LINK --answer way=bus --answer home=yes
    """
    with explain_errors():
        sdp.live.serve.require_serve()
        if simulate is not None:
            raw, expected = sdp.live.serve.fetch_document(link)
            collection = sdp.live.wire.Collection.read(raw, expected)
            _simulate(collection, simulate, read_pairs(column or []), reading)
            return
        if reading != SimulateOptions() or column:
            raise sdp.UnsupportedError("options about a file need --simulate FILE")
        device = sdp.live.Device(outbox or _make_outbox(), budget=budget, floor_budget=floor_budget)
        _, expected = sdp.live.serve.read_link(link)
        raw = device.recall(expected) or sdp.live.serve.fetch_document(link)[0]
        collection = device.check(raw, expected)
        if explain:
            typer.echo(describe_collection(collection))
        _tell_price(collection)
        given = _read_answers(answer or [])
        kept, now = device.list_unsettled(collection), time.time()
        # Perhaps the last report waits because its token was not taken: it may have another one.
        other = None if token is None else _read_token(token)
        states = [
            _send(device, collection, window, other if window == kept[-1] else None)
            for window in kept
        ]
        if kept and collection.windows.at(now) in kept:
            if given:
                tell(
                    "This device had already answered: its stored report was sent, and no new answer."
                )
        elif given or not kept:
            window = _answer(device, collection, given, now, _read_token(token), accept_floor)
            tell(f"This device: {device.spent}.")
            states.append(_send(device, collection, window))
        if any(state is not sdp.live.Sending.ACKNOWLEDGED for state in states):
            raise typer.Exit(1)


def _tell_price(collection: sdp.live.wire.Collection) -> None:
    """Say what a report costs before there is one, and what whoever sends it agrees to."""
    pledge = collection.pledge
    several = "all reports of a device together" if pledge.composed else "each report of a device"
    epsilon, delta = round_up(pledge.epsilon, 6), round_up(pledge.delta, 3)
    texts = collection.texts
    for said in (texts.welcome, texts.contact and f"Contact: {texts.contact}"):
        if said:
            tell(said)
    if texts.consent:
        tell(f"By answering you agree to this: {texts.consent}")
    tell(f"Collection {collection.id.hex()}")
    needed = "do not conspire"
    if pledge.noise is sdp.live.wire.Noise.DEVICES:
        trusted = honest_users(pledge.min_batch, pledge.honest)
        needed += f" and {trusted:,} of the reports of a batch come from honest devices"
    tell(
        f"Promise, if shuffler and analyzer {needed}: epsilon = {epsilon}, delta = {delta} (for {several})."
    )
    tell(f"Floor, what is left if everybody else conspires: {pledge.describe_floor()}.")


def _answer(
    device: sdp.live.Device,
    collection: sdp.live.wire.Collection,
    given: dict[str, str],
    now: float,
    token: bytes,
    accepted: bool,
) -> int:
    try:
        return device.answer(collection, given, now, token, accept_floor=accepted)
    except sdp.WireError as error:
        if error.reason != "consent":
            raise
        raise sdp.UnsupportedError(f"{error.sentence} (--accept-floor)") from None


def _send(
    device: sdp.live.Device,
    collection: sdp.live.wire.Collection,
    window: int,
    token: bytes | None = None,
) -> sdp.live.Sending:
    reasons: list[str] = []
    state = sdp.live.serve.send(device, collection, window, token=token, tell=reasons.append)
    why = f" ({reasons[-1]})" if reasons and state is not sdp.live.Sending.ACKNOWLEDGED else ""
    tell(f"Report of window {window}: {state.value}{why}.")
    if state not in (sdp.live.Sending.PENDING, sdp.live.Sending.SENT):
        return state
    if reasons and reasons[-1] in sdp.live.MENDABLE:
        tell(
            "Only the token was not taken. With another --token the same command sends the same report."
        )
    else:
        tell("It is kept, and its budget is spent. The same command sends the same report again.")
    return state


def _read_answers(texts: list[str]) -> dict[str, str]:
    """Return the answers of the command line; those of `-` come from standard input, which other users cannot list."""
    lines = [line.rstrip("\n") for line in sys.stdin if line.strip()] if texts == ["-"] else texts
    return read_pairs(lines)


def _read_token(text: str | None) -> bytes:
    try:
        if text is not None and text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="ascii").split("\n")[0].strip()
        return b"" if text is None else bytes.fromhex(text)
    except OSError as error:
        raise sdp.DataError(f"the token cannot be read: {error}") from None
    except ValueError:
        raise sdp.UnsupportedError("a token is 64 hexadecimal digits") from None


def _make_outbox() -> Path:
    folder = sdp.live.pages.find_data_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "outbox.sqlite"


def _simulate(
    collection: sdp.live.wire.Collection,
    path: Path,
    columns: dict[str, str],
    reading: SimulateOptions,
) -> None:
    if collection.tokens:
        raise sdp.UnsupportedError(
            "simulated devices have no tokens: make a collection without tokens, or use `shuffledp collection simulate`"
        )
    window = collection.windows.at(time.time())
    if window is None:
        raise sdp.UnsupportedError("the collection takes no answers now")
    files = reading.find(path)
    simulated = sdp.live.serve.read_places(collection, files, columns, **reading.taken)
    tell_simulated(simulated)
    sent = sdp.live.serve.send_people(collection, window, simulated.places)
    tell(f"{sent.accepted:,} reports of window {window} were acknowledged.")
    for reason, number in sent.rejected.items():
        tell(f"Rejected, {reason}: {number:,}")
    if sent.rejected:
        raise typer.Exit(1)
