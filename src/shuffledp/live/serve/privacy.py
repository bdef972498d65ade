"""A privacy notice for people and their data protection officer: who processes what, for how long, from the document.

What only the operators can say (who they are, on which legal basis) is left to them, marked as such.
"""

from __future__ import annotations

import html
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from shuffledp.core.notebook import frame_page
from shuffledp.core.privacy import round_up
from shuffledp.live.pages import speak

if TYPE_CHECKING:
    from shuffledp.live.wire.document import Collection

__all__ = ["write_privacy"]

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
