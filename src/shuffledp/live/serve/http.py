"""What all servers share: bounded bodies, errors as problem documents (RFC 9457), pages as routes, and how to listen.

The certificate is one that the operator has, or one that is made here and signs itself. It is needed because browsers
let pages use cryptography in secure contexts alone: https, or http on this very machine.

Pages have a strict content security policy and no referrer, and load nothing from elsewhere.
"""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ipaddress
import re
import signal
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shuffledp.core.errors import DataError, ParameterError, UnsupportedError, WireError
from shuffledp.live.pages import find_asset
from shuffledp.live.store import make_private, read_private, write_whole

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from ssl import SSLContext

    from cryptography.x509 import GeneralName
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route


LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DAYS, _RENEWED = (
    365,
    14,
)  # days that a certificate of ours is good for, and before the end of which there is a new one
_EVERYWHERE = ("0.0.0.0", "::", "*")  # noqa: S104
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The files of a certificate and its key, as TLS wants them."""

    chain: Path
    key: Path
    own: bool = False
    """Whether it signs itself, so that people must be told its fingerprint."""

    @classmethod
    def read(cls, text: str) -> Certificate:
        """Return the files that `CERT,KEY` names, if they belong together."""
        chain, _, key = text.partition(",")
        certificate = cls(chain=Path(chain), key=Path(key))
        try:
            import ssl

            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                certificate.chain, certificate.key
            )
        except OSError as error:  # a key of another certificate, too
            said = "must be CERT,KEY: the files of a certificate and of its key, both PEM"
            raise ParameterError("tls", text, f"{said} ({error.strerror or error})") from None
        return certificate

    def __str__(self) -> str:
        return f"{self.chain},{self.key}"

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate, as browsers show it."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.x509 import load_pem_x509_certificate

        digest = load_pem_x509_certificate(self.chain.read_bytes()).fingerprint(SHA256())
        return digest.hex(":").upper()


def choose_certificate(host: str, tls: str | None, folder: Path) -> Certificate | None:
    """Return the certificate that `--host` and `--tls` ask for, or None; one made here is kept in the folder."""
    if host in _EVERYWHERE or not _is_address(host):
        said = (
            "must be the one address or name, in small letters, by which people reach this machine"
        )
        raise ParameterError("host", host, said)
    if tls is None and host not in LOOPBACK:
        raise ParameterError(
            "tls",
            None,
            f"must be given for host={host!r}: browsers encrypt answers only on pages that come by https, or from this "
            "very machine; write --tls self, or --tls CERT,KEY",
        )
    if tls is None:
        return None
    return _keep(host, make_private(folder)) if tls == "self" else Certificate.read(tls)


def _is_address(host: str) -> bool:
    """Return whether it is an IP address, or may be a name.

    >>> [_is_address(host) for host in ("survey.example", "fe80::1", "192.0.2.7", "Survey.example", "a b", "")]
    [True, True, True, False, False, False]
    """
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _NAME.fullmatch(host) is not None
    return True


def _keep(host: str, folder: Path) -> Certificate:
    """Return the certificate of a host that is kept in the folder; a new one if there is none, or it ends soon."""
    from cryptography.x509 import load_pem_x509_certificate

    name = host.replace(":", "_")
    kept = Certificate(chain=folder / f"{name}.pem", key=folder / f"{name}.key", own=True)
    now = datetime.datetime.now(datetime.UTC)
    if kept.chain.exists() and kept.key.exists():
        read_private(kept.key)
        ends = load_pem_x509_certificate(kept.chain.read_bytes()).not_valid_after_utc
        if ends - now > datetime.timedelta(days=_RENEWED):
            return kept
    chain, key = _make(host, now)
    write_whole(kept.key, [key])
    write_whole(kept.chain, [chain])
    return kept


def _make(host: str, now: datetime.datetime) -> tuple[bytes, bytes]:
    """Make a certificate that signs itself, for one host and for servers alone, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shuffledp serve")])
    try:
        where: GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        where = x509.DNSName(host)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName([where]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def trust(certificate: Certificate | None = None) -> SSLContext:
    """Trust what everybody trusts, and this certificate for the host that it names.

    Made once and shared: it takes longer to make than most requests to answer.

    >>> trust() is trust()
    True
    """
    return _trust("" if certificate is None else certificate.chain.read_text())


@cache
def _trust(chain: str) -> SSLContext:
    import ssl

    import httpx

    context = httpx.create_ssl_context(trust_env=False)
    if chain:
        context.load_verify_locations(cadata=chain)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # its issuer need not be known
    return context


CORS = {"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"}
"""The page may come from elsewhere, on purpose. Nothing here depends on who asks: no cookie, no credentials."""


def require_serve() -> None:
    """Say what to install if the web stack is missing."""
    try:
        import httptools  # noqa: F401
        import httpx  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            f"live collections need {error.name}: install the extra shuffledp[serve]"
        ) from error


def problem(status: int, reason: str, sentence: str, *, field: str | None = None) -> Response:
    """Return an error that programs and people can read, perhaps about a field; never the text of an exception."""
    from starlette.responses import JSONResponse

    content: dict[str, Any] = {
        "type": "about:blank",
        "title": reason,
        "status": status,
        "detail": sentence,
    }
    content |= {} if field is None else {"field": field}
    headers = {**CORS, **({"Retry-After": "1"} if status in (429, 503) else {})}
    return JSONResponse(content, status, headers, media_type="application/problem+json")


async def read_body(request: Request, most: int) -> bytes:
    """Return the body, never more than it may be, and never compressed."""
    if "content-encoding" in request.headers:
        raise WireError("malformed", "uploads are not compressed")
    try:
        stated = int(request.headers.get("content-length", "0"))
    except ValueError:
        raise WireError("malformed", "the length of the body is not a number") from None
    if stated > most:
        raise WireError("malformed", f"the body has more than {most} bytes")
    from starlette.requests import ClientDisconnect

    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                raise WireError("malformed", f"the body has more than {most} bytes")
    except ClientDisconnect:
        raise WireError("malformed", "the body ended early") from None
    return bytes(body)


def host_of(where: Request | str) -> str:
    """Return the host that was asked for, without its port.

    >>> host_of("http://127.0.0.1:8000")
    '127.0.0.1'
    """
    text = where if isinstance(where, str) else "//" + where.headers.get("host", "")
    try:
        return urlsplit(text).hostname or ""
    except ValueError:
        return ""


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run to completion, on uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
    else:
        uvloop.run(work)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; if it cannot, say why in words."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise DataError(f"{host}:{port} cannot be listened on: {error.strerror or error}") from None


async def listen(
    *servers: tuple[Starlette, socket.socket | Path],
    guarded: Mapping[socket.socket, Certificate] | None = None,
) -> None:
    """Serve several applications, each on a socket or on the path of one, in this loop until SIGINT or SIGTERM.

    Sockets in `guarded` speak TLS, with their certificates.
    """
    import uvicorn

    from shuffledp.live.serve.connections import ImpatientProtocol, limit_connections

    ImpatientProtocol.most = limit_connections()

    class Quiet(uvicorn.Server):
        """A server without signal handlers of its own: several run in this loop, and one signal ends them all."""

        def capture_signals(self) -> Any:
            from contextlib import nullcontext

            return nullcontext()

    def find(place: socket.socket | Path) -> tuple[str | None, str | None]:
        certificate = None if isinstance(place, Path) else (guarded or {}).get(place)
        return (
            (None, None) if certificate is None else (str(certificate.chain), str(certificate.key))
        )

    running = [
        Quiet(
            uvicorn.Config(
                app,
                access_log=False,
                log_level="error",
                server_header=False,
                date_header=False,
                http=ImpatientProtocol,
                ws="none",
                timeout_keep_alive=30,
                timeout_graceful_shutdown=5,
                uds=str(place) if isinstance(place, Path) else None,
                ssl_certfile=find(place)[0],
                ssl_keyfile=find(place)[1],
            )
        )
        for app, place in servers
    ]

    def stop() -> None:
        for each in running:
            each.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    places = [None if isinstance(place, Path) else [place] for _, place in servers]
    await asyncio.gather(*(each.serve(place) for each, place in zip(running, places, strict=True)))


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
    """Return a file of the pages; `connect` is where its scripts may send to."""
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
    """Return the routes of all files of the pages: /assets/NAME and /device/NAME."""
    from starlette.routing import Route

    async def show(request: Request) -> Response:
        return show_asset(request, request.url.path)

    return [Route("/assets/{name}", show), Route("/device/{name}", show)]
