"""Talking to the servers: a device that fetches and sends, an analyzer that asks for batches, an operator."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shuffledp.core.errors import DataError, WireError
from shuffledp.live.device import MENDABLE, Device, Sending, read_reply
from shuffledp.live.serve.http import trust
from shuffledp.live.wire.document import Collection, read_url
from shuffledp.live.wire.report import MEDIA_TYPE, sign_fetch
from shuffledp.live.wire.strict import MOST_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import httpx

    from shuffledp.live.serve.folders import Home
    from shuffledp.live.serve.http import Certificate

_PATIENCE = 120.0
_SLOWEST = 100_000.0  # bytes per second of a long reply
_MOST_PROBLEM = 1 << 14  # bytes of an error, or of a short reply
_FAILURE = 200  # bytes that say why a report was refused


def read_link(link: str) -> tuple[str, bytes]:
    """Return the URL of the document, and the id that it must have. The link of a page leads there, too.

    >>> url, expected = read_link("http://127.0.0.1:8000/collections/" + 64 * "a" + "#" + 64 * "a")
    >>> url[-4:], len(expected)
    ('aaaa', 32)
    """
    url, _, fragment = link.partition("#")
    if fragment.startswith("link="):  # of a page on a host of its own
        url, _, fragment = fragment.removeprefix("link=").partition("#")
    url = re.sub(r"/c/(?=[0-9a-f]{64}$)", "/collections/", url)  # of the page for browsers
    try:
        expected = bytes.fromhex(fragment)
    except ValueError:
        expected = b""
    try:
        read_url(url)
    except WireError:
        expected = b""
    if len(expected) != 32:
        raise DataError(f"{link!r} is not the link of a collection, which ends in # and its id")
    return url, expected


def connect(base: str, certificate: Certificate | None = None) -> httpx.Client:
    """Return a client that follows no redirects, ignores the environment, and wants nothing compressed.

    It trusts the certificate, if there is one, for the host that it names.
    """
    import httpx

    return httpx.Client(
        base_url=base,
        verify=trust(certificate),
        timeout=_PATIENCE,
        follow_redirects=False,
        trust_env=False,
        headers={"Accept-Encoding": "identity"},
    )


def ask(
    client: httpx.Client,
    method: str,
    address: str,
    *,
    most: int,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> tuple[int, bytes]:
    """Return status and body of a reply whose sender may be hostile: nothing compressed, too long or too slow.

    An error has a short body whatever `most` is.
    """
    end = time.monotonic() + _PATIENCE + most / _SLOWEST
    body = bytearray()
    with client.stream(method, address, headers=headers, content=content) as answer:
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise WireError("unreachable", f"{address} sends something compressed")
        limit = most if answer.status_code < 300 else min(most, _MOST_PROBLEM)
        for piece in answer.iter_raw():
            body += piece
            if len(body) > limit:
                raise WireError("unreachable", f"{address} sends more than {limit:,} bytes")
            if time.monotonic() > end:
                raise WireError("unreachable", f"{address} sends too slowly")
        return answer.status_code, bytes(body)


def fetch_document(link: str) -> tuple[bytes, bytes]:
    """Return the bytes of the document, and the id that the link states."""
    url, expected = read_link(link)
    import httpx

    with connect("") as client:
        try:
            return read_at_most(client, url, MOST_BYTES), expected
        except httpx.HTTPError as error:
            raise WireError("unreachable", f"{url} cannot be reached: {error}") from error


def send(
    device: Device,
    collection: Collection,
    window: int,
    *,
    tries: int = 5,
    token: bytes | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> Sending:
    """Send a kept report until it is acknowledged, or known to be too late; why it was not taken goes to `tell`.

    If only its token was not taken, it waits for another one, which is given as `token`.
    """
    import httpx

    before = device.state(collection, window)
    for attempt in range(tries):
        body = device.upload(collection, window, token)
        if body is None:
            return device.state(collection, window)
        try:
            (outcome,) = send_upload(collection, body, 1)
        except (httpx.HTTPError, WireError):
            before = Sending.SENT  # it may have arrived
            time.sleep(min(5.0, 0.2 * 2**attempt))
            continue
        state = device.settle(collection, window, outcome, before=before)
        if outcome is not None:
            tell(outcome)
        if state not in (Sending.PENDING, Sending.SENT) or outcome in MENDABLE:
            return state
        if outcome != "stale_key":  # sealed anew it may be taken at once
            time.sleep(min(5.0, 0.2 * 2**attempt))
    return device.state(collection, window)


def send_upload(
    collection: Collection, body: bytes, reports: int, client: httpx.Client | None = None
) -> list[str | None]:
    """Send an upload, and return what the shuffler says of each of its reports."""
    own = connect(collection.url) if client is None else client
    try:
        status, reply = ask(
            own,
            "POST",
            "/reports",
            most=_MOST_PROBLEM + _FAILURE * reports,
            headers={"Content-Type": MEDIA_TYPE},
            content=body,
        )
        if status != 200:
            raise WireError(*_read_problem(status, reply))
        return read_reply(reply, reports)
    finally:
        if client is None:
            own.close()


def _read_problem(status: int, body: bytes) -> tuple[str, str]:
    try:
        content = json.loads(body)
        return str(content["title"])[:60], str(content["detail"])[:300]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "unreachable", f"the server answers {status}"


def ask_manifest(
    client: httpx.Client, collection: Collection, window: int, secret: bytes
) -> tuple[bytes, bytes, dict[str, str]]:
    """Return the manifest of a window, its signature, and the header that shows who asks."""
    header = {"Authorization": f"Signature {sign_fetch(collection, window, secret).hex()}"}
    address = f"/batches/{window}/manifest"
    status, body = ask(client, "GET", address, most=_MOST_PROBLEM, headers=header)
    if status != 200:
        raise WireError(*_read_problem(status, body))
    try:
        content = json.loads(body)
        return content["manifest"].encode(), bytes.fromhex(content["signature"]), header
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise WireError("reply", "the shuffler's manifest cannot be understood") from None


def read_at_most(
    client: httpx.Client, address: str, most: int, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return the body of a document or batch, up to a limit."""
    status, body = ask(client, "GET", address, most=most, headers=headers)
    if status != 200:
        raise WireError(*_read_problem(status, body))
    return body


def _split_hashes(hashes: list[bytes]) -> Iterator[bytes]:
    from shuffledp.live.serve.shuffler import MOST_TOKENS

    for start in range(0, len(hashes), MOST_TOKENS):
        yield b"".join(hashes[start : start + MOST_TOKENS])


class Operator:
    """The shuffler's operator, on its socket."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def _client(self) -> httpx.Client:
        import httpx

        path: Path = self._home.socket
        if not path.exists():
            raise DataError(f"the shuffler of {self._home.path} is not running on this machine")
        token = (self._home.shuffler / "admin-token").read_text()
        return httpx.Client(
            transport=httpx.HTTPTransport(verify=trust(), uds=str(path)),
            base_url="http://localhost",
            headers={"Authorization": f"Bearer {token}"},
            timeout=600,
            trust_env=False,
        )

    def status(self) -> dict[str, Any]:
        """Return counts by reason, windows, and the analyzer's last contact."""
        return self._ask("GET", "/status").json()  # type: ignore[no-any-return]

    def metrics(self) -> str:
        """Return the same for a monitoring system."""
        return self._ask("GET", "/metrics").text

    def close(self) -> dict[str, Any]:
        """Take no more reports: seal what has begun."""
        return self._ask("POST", "/close").json()  # type: ignore[no-any-return]

    def accept_clock(self) -> float:
        """Say that the clock of the shuffler's machine is right; returns what it says."""
        return float(self._ask("POST", "/clock").json()["now"])

    def issue_tokens(self, hashes: list[bytes]) -> None:
        """Make known which tokens were given out, by their SHA-256."""
        for some in _split_hashes(hashes):
            self._ask("POST", "/tokens", some)

    def count_tokens(self, hashes: list[bytes]) -> dict[str, int]:
        """Count which of these tokens are unused, spent, and unknown."""
        counts = {"unused": 0, "spent": 0, "unknown": 0}
        for some in _split_hashes(hashes):
            for state, number in self._ask("POST", "/tokens/count", some).json().items():
                counts[state] += number
        return counts

    def _ask(self, method: str, path: str, content: bytes = b"") -> httpx.Response:
        import httpx

        try:
            with self._client() as client:
                answer = client.request(method, path, content=content)
        except httpx.ConnectError as error:  # its socket is left behind if it was killed
            raise DataError(
                f"the shuffler of {self._home.path} is not running on this machine"
            ) from error
        except httpx.TransportError as error:
            raise DataError(
                f"the shuffler of {self._home.path} does not answer: {str(error) or type(error).__name__}"
            ) from error
        if answer.status_code >= 300:
            raise WireError(*_read_problem(answer.status_code, answer.content))
        return answer
