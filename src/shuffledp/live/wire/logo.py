"""The logo of a survey: a small picture in the document itself, without anything but the picture.

It is part of the document, so its id stands for it: nobody can be shown another one, no page asks a server for it, and an
exported page or one without a connection has it. In return it must be small. PNG and JPEG are pictures and nothing else;
an SVG may have scripts. What cameras and editors write beside a picture (where it was taken, by whom) is left out.
"""

import base64
import binascii
import zlib
from collections.abc import Iterator

from shuffledp.core.errors import ParameterError, WireError

MOST_BYTES = 8_000
"""Of the picture; the document has four bytes for three of them."""
_LARGEST = 1_000  # pixels of a side: few bytes may be a picture that fills the memory
_PNG, _JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8"
_CHUNKS = (b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND")
_FRAMES = (0xC0, 0xC1, 0xC2)
_TABLES = (0xC4, 0xDB, 0xDD)
_SCAN, _END = 0xDA, 0xD9
_ADOBE = 0xEE  # says how colours are coded


def pack_logo(raw: bytes) -> str:
    """Return a picture as it stands in a document, without what is not the picture.

    >>> dot = bytes.fromhex(
    ...     "89504e470d0a1a0a0000000d4948445200000001000000010800000000"
    ...     "3a7e9b550000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
    ... )
    >>> unpack_logo(pack_logo(dot)) == dot
    True
    >>> pack_logo(b"<svg/>")
    Traceback (most recent call last):
    shuffledp.core.errors.ParameterError: logo='6 bytes' must be a PNG or JPEG
    """
    try:
        kept = _clean(raw)
    except ValueError as error:
        raise ParameterError("logo", f"{len(raw):,} bytes", str(error)) from None
    kind = "png" if kept.startswith(_PNG) else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(kept).decode()}"


def unpack_logo(text: str) -> bytes:
    """Return the picture of a data address; ValueError if it is none."""
    for kind in ("png", "jpeg"):
        start = f"data:image/{kind};base64,"
        if text.startswith(start):
            try:
                return base64.b64decode(text.removeprefix(start), validate=True)
            except binascii.Error:
                break
    raise ValueError("must be a PNG or JPEG")


def check_logo(text: str) -> None:
    """Refuse what `pack_logo` would not have written; `WireError` with the reason "document"."""
    try:
        fine = pack_logo(unpack_logo(text)) == text
    except (ValueError, ParameterError) as error:
        raise WireError("document", f"its logo is none: {error}") from None
    if not fine:
        raise WireError("document", "its logo has more than a picture in it")


def _clean(raw: bytes) -> bytes:
    if raw.startswith(_PNG):
        kept = _PNG + b"".join(_keep_chunks(raw))
    elif raw.startswith(_JPEG):
        kept = _JPEG + b"".join(_keep_segments(raw)) + bytes((0xFF, _END))
    else:
        raise ValueError("must be a PNG or JPEG")
    if len(kept) > MOST_BYTES:
        raise ValueError(f"must be a picture of at most {MOST_BYTES:,} bytes: it has {len(kept):,}")
    return kept


def _check_size(width: int, height: int) -> None:
    if not (0 < width <= _LARGEST and 0 < height <= _LARGEST):
        raise ValueError(f"must have at most {_LARGEST:,} x {_LARGEST:,} pixels")


def _keep_chunks(raw: bytes) -> Iterator[bytes]:
    """Yield the chunks of a PNG that draw."""
    place, kind = len(_PNG), b""
    while kind != b"IEND":
        size = int.from_bytes(raw[place : place + 4])
        chunk, kind = raw[place : place + 12 + size], raw[place + 4 : place + 8]
        whole = len(chunk) == 12 + size and zlib.crc32(chunk[4:-4]) == int.from_bytes(chunk[-4:])
        if not whole or (place == len(_PNG)) != (kind == b"IHDR"):
            raise ValueError("must be a whole PNG")
        if kind == b"IHDR":
            _check_size(int.from_bytes(chunk[8:12]), int.from_bytes(chunk[12:16]))
        if kind in _CHUNKS:
            yield chunk
        place += len(chunk)


def _keep_segments(raw: bytes) -> Iterator[bytes]:
    """Yield the segments of a JPEG that draw, each scan with its data."""
    place, sized = len(_JPEG), False
    while raw[place : place + 1] == b"\xff" and (mark := raw[place + 1 : place + 2]):
        code = mark[0]
        if code == _END and sized:
            return
        end = place + 2 + int.from_bytes(raw[place + 2 : place + 4])
        if code in _FRAMES:
            _check_size(
                int.from_bytes(raw[place + 7 : place + 9]),
                int.from_bytes(raw[place + 5 : place + 7]),
            )
            sized = True
        if code == _SCAN:
            end = _find_scan_end(raw, end)
        if end > len(raw) or end < place + 4:
            break
        adobe = code == _ADOBE and raw[place + 4 : place + 9] == b"Adobe" and end - place == 16
        if code in (*_FRAMES, *_TABLES, _SCAN) or adobe:
            yield raw[place:end]
        place = end
    raise ValueError("must be a whole JPEG")


def _find_scan_end(raw: bytes, place: int) -> int:
    """Return where the next mark stands: in the data of a scan 0xFF is followed by 0, or restarts it."""
    while (place := raw.find(b"\xff", place)) >= 0 and place + 1 < len(raw):
        if raw[place + 1] != 0 and not 0xD0 <= raw[place + 1] <= 0xD7:
            return place
        place += 2
    raise ValueError("must be a whole JPEG")
