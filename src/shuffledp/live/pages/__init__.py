"""The pages of a live collection: static files, plain JavaScript modules, one style sheet, nothing from elsewhere.

The servers hand them out. They can also be hosted apart from the shuffler, with a published hash: `write_site`.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shuffledp.core.errors import DataError
from shuffledp.live.pages.languages import Catalogue, find_data_folder, list_languages, speak

__all__ = [
    "Asset",
    "Catalogue",
    "find_asset",
    "find_data_folder",
    "list_assets",
    "list_languages",
    "speak",
    "write_site",
]

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
_PAGES = Path(__file__).parent / "static"
_REFERRER = b'<meta name="referrer" content="no-referrer">\n'
_COMMENTS = re.compile(
    rb"^[ ]*//[^\n]*\n|^[ ]*/\*\*(?:(?!\*/).)*\*/[ ]*\n|/\*\* @(?:type|param)[^*]*\*/ ?",
    re.M | re.S,
)
"""Lines of comments, and types within a line; no text or pattern of a module looks like one."""
_LANGUAGES = b'<meta name="languages" content="en">'
_PARTS = ("answer", "more", "result", "desk")
"""Of a catalogue: a page loads those that it needs."""
_POLICY = (
    b"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'self'; "
    b"style-src 'self'; img-src 'self' data:; connect-src https: http://127.0.0.1:* http://localhost:*; "
    b"base-uri 'none'; form-action 'none'\">\n"
)
"""For a host that sends no policy of its own: scripts are those of the page, whatever a document says."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file of the pages."""

    content: bytes
    media_type: str


def _find_device() -> Path:
    """The device's modules: part of the wheel, and of the repository beside the tests that run them."""
    packed = Path(__file__).parent / "device"
    return packed if packed.is_dir() else Path(__file__).parents[4] / "clients" / "js" / "src"


def _strip(content: bytes, suffix: str) -> bytes:
    """The code of a module without its comments, which are half of it: people wait for what they load.

    >>> _strip(b"// Add.\\n/** @param {number} a */\\nconst f = (/** @type {any} */ a) => a + 1; // one\\n", ".js")
    b'const f = (a) => a + 1; // one\\n'
    """
    return _COMMENTS.sub(b"", content) if suffix == ".js" else content


@cache
def _read_all() -> dict[str, Asset]:
    """Files by address: /assets/NAME and /device/NAME. Node's own module is not for browsers."""
    found: dict[str, Asset] = {}
    languages = list_languages()
    spoken = _LANGUAGES.replace(b'"en"', f'"{" ".join(languages)}"'.encode())
    for prefix, folder in (("assets", _PAGES), ("device", _find_device())):
        for path in sorted(folder.iterdir()):
            if path.suffix in _TYPES and path.name != "node.js":
                content = _strip(path.read_bytes().replace(_LANGUAGES, spoken), path.suffix)
                found[f"/{prefix}/{path.name}"] = Asset(content, _TYPES[path.suffix])
    for language in languages:
        for part in _PARTS:
            content = speak(language).module(part)
            found[f"/assets/{language}.{part}.js"] = Asset(content, _TYPES[".js"])
    return found


def list_assets() -> tuple[str, ...]:
    """The addresses of all files.

    >>> "/device/laws.js" in list_assets()
    True
    """
    return tuple(_read_all())


def find_asset(address: str) -> Asset | None:
    """The file of an address, or None.

    >>> find_asset("/assets/../secret") is None
    True
    """
    return _read_all().get(address)


def write_site(folder: Path) -> str:
    """Write the participation page to a folder, for a host of its own; returns the hash to publish.

    The hash is the SHA-256 of the lines "SHA-256 address", sorted, which are also written as SHA256SUMS.
    """
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty")
    lines = []
    for address, asset in _read_all().items():
        wanted = "/index.html" if address == "/assets/answer.html" else address
        if wanted.endswith(".html") and wanted != "/index.html":
            continue
        path = folder / wanted[1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        content = asset.content
        if wanted == "/index.html":  # it may stand in a subfolder: everything is found from there
            content = content.replace(_REFERRER, _REFERRER + _POLICY)
            content = content.replace(b'"/assets/', b'"assets/').replace(b'"/device/', b'"device/')
        path.write_bytes(content)
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {wanted[1:]}\n")
    sums = "".join(sorted(lines)).encode()
    (folder / "SHA256SUMS").write_bytes(sums)
    return hashlib.sha256(sums).hexdigest()
