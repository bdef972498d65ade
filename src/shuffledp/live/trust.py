"""Who may learn what, with a collection's own numbers: the table that everybody is shown before they answer."""

from shuffledp.core.privacy import round_up
from shuffledp.core.protocol import honest_users
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.promise import Noise

__all__ = ["describe_trust"]

_SERVES = ("whoever serves the page or the program that asks", "nothing: it sees the answers")
_NETWORK = (
    "the network",
    "everything, except that it sees who takes part, when, and in which collection",
)


def describe_trust(collection: Collection) -> list[tuple[str, str]]:
    """Who may learn what, with the collection's own numbers: (who is compromised, what people still have)."""
    served = collection.pledge.noise is Noise.SERVERS
    rows = _list_servers(collection) if served else _list_devices(collection)
    rows += [_SERVES, _NETWORK]
    if collection.development:
        rows.insert(0, ("one operator plays all roles here", "trust as in the central model"))
    return rows


def _state_promise(collection: Collection) -> str:
    pledge = collection.pledge
    together = (
        "for all reports of a device together" if pledge.composed else "for each report of a device"
    )
    return (
        f"epsilon = {round_up(pledge.epsilon, 6)}, delta = {round_up(pledge.delta, 3)} ({together})"
    )


def _list_devices(collection: Collection) -> list[tuple[str, str]]:
    pledge = collection.pledge
    needed = honest_users(pledge.min_batch, pledge.honest)
    return [
        (
            "readers of the result; an analyzer that only watches",
            f"{_state_promise(collection)}, if {needed:,} of the reports of a batch come from honest devices, which "
            "nobody can verify",
        ),
        (
            "a shuffler that only watches",
            "everything, except that it knows that and when they took part",
        ),
        (
            "a shuffler that drops or adds reports; whoever floods the collection and blocks the others; "
            "shuffler and analyzer together",
            pledge.describe_floor(),
        ),
    ]


def _list_servers(collection: Collection) -> list[tuple[str, str]]:
    """No honest share of the people is assumed: either server's noise is enough by itself."""
    promise = _state_promise(collection)
    added = sum(each.noise.mean_total for each in collection.questions if each.noise is not None)
    return [
        (
            "the analyzer alone",
            f"{promise}, whoever lies, drops out or is stuffed in: the shuffler adds about {added:,} messages that the "
            "analyzer cannot tell apart",
        ),
        (
            "the shuffler alone, with the published result",
            f"{promise}, even if it drops all other reports: the analyzer adds as much noise before anything leaves "
            "it; the shuffler knows that and when they took part",
        ),
        ("readers of the result", "at least as much, by the noise of both"),
        ("shuffler and analyzer together", collection.pledge.describe_floor()),
        (
            "a shuffler that adds nothing",
            f"towards readers {promise}, by the analyzer's noise alone; the analyzer sees exact counts of the messages",
        ),
        (
            "an analyzer that adds nothing",
            f"towards readers {promise}, by the shuffler's messages alone; the shuffler can subtract them, and see one "
            "message if it drops all others",
        ),
    ]
