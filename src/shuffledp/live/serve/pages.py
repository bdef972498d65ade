"""The pages as routes: strict content security policy, no referrer, nothing from elsewhere."""

from __future__ import annotations

import gzip
from functools import cache
from typing import TYPE_CHECKING

from shuffledp.live.pages import find_asset

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

__all__ = ["PLAIN", "asset_routes", "show_asset"]

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
