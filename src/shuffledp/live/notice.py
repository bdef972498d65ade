"""What people are told about a collection, from its document alone: who may learn what, and a privacy notice.

The table of who may learn what has the collection's own numbers: everybody is shown it before they answer. The notice
is for people and their data protection officer: who processes what, and for how long. What only the operators can say
(who they are, on which legal basis) is left to them, and marked.
"""

import html
import math
from datetime import UTC, datetime

from shuffledp.core.notebook import frame_page
from shuffledp.core.privacy import round_up
from shuffledp.core.protocol import honest_users
from shuffledp.live.pages import speak
from shuffledp.live.wire.document import Collection
from shuffledp.live.wire.promise import Noise

_SERVES = ("whoever serves the page or the program that asks", "nothing: it sees the answers")
_NETWORK = (
    "the network",
    "everything, but it sees who takes part, when, and in which collection",
)


def describe_trust(collection: Collection) -> list[tuple[str, str]]:
    """Return who may learn what, with the collection's own numbers: (who is compromised, what people still have)."""
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
            "everything, but it knows that they took part, and when",
        ),
        (
            "a shuffler that drops or adds reports; whoever floods the collection and blocks the others; "
            "shuffler and analyzer together",
            pledge.describe_floor(),
        ),
    ]


def _list_servers(collection: Collection) -> list[tuple[str, str]]:
    """List who may learn what if the servers add the noise: either one's is enough, whoever of the people lies."""
    promise = _state_promise(collection)
    added = sum(each.noise.mean_total for each in collection.questions if each.noise is not None)
    return [
        (
            "the analyzer alone",
            f"{promise}, whoever lies, drops out or takes part under many names: the shuffler adds about {added:,} "
            "messages that the analyzer cannot tell apart",
        ),
        (
            "the shuffler alone, with the published result",
            f"{promise}, even if it drops all other reports: the analyzer adds as much noise before anything leaves "
            "it; the shuffler knows that they took part, and when",
        ),
        ("readers of the result", "at least as much, through the noise of both servers"),
        ("shuffler and analyzer together", collection.pledge.describe_floor()),
        (
            "a shuffler that adds nothing",
            f"against readers of the result {promise}, by the analyzer's noise alone; the analyzer sees exact counts of the messages",
        ),
        (
            "an analyzer that adds nothing",
            f"against readers of the result {promise}, by the shuffler's messages alone; the shuffler can subtract them, and see one "
            "message if it drops all others",
        ),
    ]


_STYLE = (
    "td{overflow-wrap:anywhere}th,td{text-align:start;vertical-align:top;padding:.3em 1em .3em 0}"
    "mark{padding:0 .3em}@media(max-width:40em){th,td{display:block;padding:.3em 0 0}}"
)


def write_privacy(collection: Collection) -> str:
    """Write the notice as one page without scripts, in the survey's language; every text is escaped."""
    words, pledge, windows = speak(collection.texts.language), collection.pledge, collection.windows

    def say(key: str, **values: object) -> str:
        return html.escape(words.say(f"privacy.{key}", **values))

    def show_time(moment: int) -> str:
        return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M} UTC"

    times = {
        "start": show_time(windows.opens(0)),
        "end": show_time(windows.closes(windows.count - 1)),
    }
    promise = {
        "epsilon": f"{round_up(pledge.epsilon, 6)}",
        "delta": f"{round_up(pledge.delta, 3)}",
        "together": words.say("answer.together" if pledge.composed else "answer.each"),
    }
    alone = {"operator": say("operatorText")} if collection.development else {}
    facts = {
        "controller": f"<mark>{say('fill')}</mark>",
        "basis": f"<mark>{say('fill')}</mark>",
        "contact": html.escape(collection.texts.contact or "") or f"<mark>{say('fill')}</mark>",
        **alone,
        "purpose": "; ".join(html.escape(each.text) for each in collection.questions),
        "device": say("deviceText" if math.isfinite(pledge.local_epsilon) else "devicePlain"),
        "shuffler": say("shufflerText", url=collection.url, **times),
        "analyzer": say("analyzerText", n=pledge.min_batch),
        "public": say("publicText", **promise),
        "kept": say("keptText", **times),
        "rights": say("rightsText"),
        "id": collection.id.hex(),
    }
    rows = "".join(f"<tr><th scope=row>{say(key)}<td>{value}" for key, value in facts.items())
    title = html.escape(collection.title)
    body = (
        f"<main><h1>{say('title')}</h1><p dir=auto><strong>{title}</strong></p><p>{say('intro')}</p>"
        f"<table>{rows}</table></main>"
    )
    heading = f"{words.say('privacy.title')}: {collection.title}"
    spoken = {"language": words.language, "direction": words.direction}
    return frame_page(heading, body, _STYLE, **spoken)
