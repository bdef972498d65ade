"""The pages as routes: strict content security policy, no referrer, nothing from elsewhere.

A privacy notice for people and their data protection officer: who processes what, for how long, from the document.

What only the operators can say (who they are, on which legal basis) is left to them, marked as such.
"""

from __future__ import annotations

import gzip
import html
import math
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from shuffledp.core.notebook import frame_page
from shuffledp.core.privacy import round_up
from shuffledp.live.pages import find_asset, speak

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from shuffledp.live.wire.document import Collection


PLAIN = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Headers of a page without scripts."""


@cache
def _compress(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def show_asset(request: Request, address: str, *, connect: str = "'self'") -> Response:
    """A file of the pages; `connect` is where its scripts may send to."""
    from starlette.responses import PlainTextResponse, Response

    asset = find_asset(address)
    if asset is None:
        return PlainTextResponse("there is no such page\n", 404)
    content, headers = asset.content, _make_headers(connect)
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = _compress(content)
        headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
    return Response(content, media_type=asset.media_type, headers=headers)


def _make_headers(connect: str) -> dict[str, str]:
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def asset_routes() -> list[Route]:
    """/assets/NAME and /device/NAME."""
    from starlette.routing import Route

    async def show(request: Request) -> Response:
        return show_asset(request, request.url.path)

    return [Route("/assets/{name}", show), Route("/device/{name}", show)]


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
