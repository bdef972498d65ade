"""The logo of a survey: small pictures that are nothing but pictures."""

import base64
import io
import zlib
from pathlib import Path

import numpy as np
import pytest

import live_support as live
import shuffledp as sdp
from shuffledp.live.design import read_survey
from shuffledp.live.wire import Collection
from shuffledp.live.wire.document import MOST_BYTES, Texts, check_logo, pack_logo, unpack_logo

SURVEY = (
    'epsilon = 1.0\ndelta = 1e-6\n[questions.home]\ntask = "count"\n[collection]\npeople = 100\n'
)


def chunk(kind, data):
    return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)


def make_png(width=2, height=2, *, more=b"", noise=0):
    """Grey pixels; `noise` of them cannot be compressed."""
    head = width.to_bytes(4) + height.to_bytes(4) + bytes((8, 0, 0, 0, 0))
    pixels = np.random.default_rng(1).bytes(noise)
    rows = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(height)) + pixels)
    parts = chunk(b"IHDR", head), more, chunk(b"IDAT", rows), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def make_jpeg(**options):
    from PIL import Image

    exif, place = Image.Exif(), io.BytesIO()
    exif[0x010E] = "a secret place"
    picture = Image.fromarray(np.arange(768, dtype=np.uint8).reshape(16, 16, 3))
    picture.save(place, "JPEG", exif=exif, comment=b"a secret author", **options)
    return place.getvalue()


def test_a_png_keeps_what_draws():
    told = make_png(more=chunk(b"tEXt", b"Author\0somebody") + chunk(b"eXIf", b"somewhere"))
    assert unpack_logo(pack_logo(told + b"trailing")) == make_png()


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}])
def test_a_jpeg_keeps_what_draws(options):
    from PIL import Image

    raw = make_jpeg(**options)
    kept = unpack_logo(pack_logo(raw + b"trailing"))
    assert b"secret" in raw
    assert b"secret" not in kept
    before, after = (np.asarray(Image.open(io.BytesIO(each))) for each in (raw, kept))
    assert np.array_equal(before, after)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "must be a PNG or JPEG"),
        (b"<svg onload='alert(1)'/>", "must be a PNG or JPEG"),
        (b"GIF89a", "must be a PNG or JPEG"),
        (make_png(width=1001), "at most 1,000 x 1,000 pixels"),
        (make_png(height=0), "at most 1,000 x 1,000 pixels"),
        (make_png(noise=MOST_BYTES), "at most 8,000 bytes"),
        (make_png()[:-1], "must be a whole PNG"),
        (make_png().replace(b"IHDR", b"IHDQ"), "must be a whole PNG"),
        (make_png()[:-1] + b"\0", "must be a whole PNG"),
        (make_png(more=chunk(b"tEXt", b"one") + chunk(b"IHDR", bytes(13))), "must be a whole PNG"),
        (make_png().replace(b"IDAT", b"IDAS"), "must be a whole PNG"),
        (b"\xff\xd8", "must be a whole JPEG"),
        (b"\xff\xd8\xff\xd9", "must be a whole JPEG"),
        (b"\xff\xd8\xff\xc0\0\0", "must "),
        (b"\xff\xd8\xff\xe0\0\0" * 9, "must be a whole JPEG"),
        (make_jpeg()[:-2], "must be a whole JPEG"),
        (make_jpeg()[:200], "must be a whole JPEG"),
    ],
)  # fmt: skip
def test_what_is_no_small_picture_is_refused(raw, said):
    with pytest.raises(sdp.ParameterError, match=f"^logo='{len(raw):,} bytes' .*{said}"):
        pack_logo(raw)


def segment(code, data):
    return bytes((0xFF, code)) + (len(data) + 2).to_bytes(2) + data


ADOBE = segment(0xEE, b"Adobe" + bytes(7))
"""Which colours there are: 16 bytes with the mark."""


@pytest.mark.parametrize(
    ("more", "kept"),
    [
        (ADOBE, True),
        (segment(0xEE, b"Adobe" + bytes(8)), False),
        (segment(0xEE, b"Adobe" + bytes(6)), False),
        (segment(0xEE, b"Adobo" + bytes(7)), False),
        (segment(0xED, b"Adobe" + bytes(7)), False),
        (segment(0xED, bytes(12)), False),
        (segment(0xFE, b"Adobe" + bytes(7)), False),
    ],
)
def test_of_marks_of_programs_one_says_how_to_draw_and_has_no_room_for_more(more, kept):
    raw = make_jpeg()
    plain = unpack_logo(pack_logo(raw))
    found = unpack_logo(pack_logo(raw[:2] + more + raw[2:]))
    assert found == (plain[:2] + more + plain[2:] if kept else plain)


@pytest.mark.parametrize("cut", range(0, 400, 7))
def test_a_cut_file_is_refused_in_words(cut):
    for raw in (make_png(more=chunk(b"tEXt", b"x" * 400)), make_jpeg()):
        with pytest.raises(sdp.ParameterError):
            pack_logo(raw[: min(cut, len(raw) - 3)])


def frame(width, height, code=0xC0):
    """The segment of a JPEG that says how large it is, and a scan without anything in it."""
    head = bytes((8,)) + height.to_bytes(2) + width.to_bytes(2) + bytes((1, 1, 0x11, 0))
    return b"\xff\xd8" + segment(code, head) + segment(0xDA, bytes(4)) + b"\x12\xff\xd9"


@pytest.mark.parametrize(
    ("width", "height", "fine"),
    [
        (1, 1, True),
        (1, 1000, True),
        (1000, 1, True),
        (1000, 1000, True),
        (0, 1, False),
        (1, 0, False),
        (1001, 1, False),
        (1, 1001, False),
    ],
)
def test_sides_have_one_to_a_thousand_pixels(width, height, fine):
    for raw in (make_png(width, height), frame(width, height)):
        if fine:
            assert unpack_logo(pack_logo(raw)) == raw
        else:
            with pytest.raises(sdp.ParameterError, match="at most 1,000 x 1,000 pixels"):
                pack_logo(raw)


@pytest.mark.parametrize(
    ("code", "fine"),
    [(0xBF, False), (0xC0, True), (0xC1, True), (0xC2, True), (0xC3, False), (0xC5, False)],
)
def test_frames_of_three_kinds_are_known(code, fine):
    """Without one of them nothing says how large the picture is."""
    raw = frame(2, 3, code)
    if fine:
        assert unpack_logo(pack_logo(raw)) == raw
    else:
        with pytest.raises(sdp.ParameterError, match="must be a whole JPEG"):
            pack_logo(raw)


def test_a_picture_has_at_most_8000_bytes():
    raw = make_png()
    room = 8_000 - len(raw) - 12
    fits = make_png(more=chunk(b"PLTE", bytes(room)))
    assert len(fits) == 8_000
    assert unpack_logo(pack_logo(fits)) == fits
    with pytest.raises(sdp.ParameterError, match="at most 8,000 bytes: it has 8,001"):
        pack_logo(make_png(more=chunk(b"PLTE", bytes(room + 1))))


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"\x12\xff\x00\x34", True),
        (b"\xff\xd0\xff\xd7\xff\x00", True),
        (b"\xff\xcf", False),
        (b"\xff\xd8", False),
        (b"\xff\x01", False),
    ],
)
def test_in_a_scan_only_a_zero_or_a_restart_follows_ff(data, whole):
    raw = frame(2, 2)[:-3] + data + b"\xff\xd9"
    if whole:
        assert unpack_logo(pack_logo(raw)) == raw
    else:
        with pytest.raises(sdp.ParameterError, match="must be a whole JPEG"):
            pack_logo(raw)


def test_a_document_has_nothing_but_the_picture():
    """What `pack_logo` would have left out, or written in another way, is refused."""
    hidden = make_png(more=chunk(b"tEXt", b"Author\0somebody"))
    for raw in (hidden, make_png() + b"more"):
        with pytest.raises(sdp.WireError, match="more than a picture"):
            check_logo(f"data:image/png;base64,{base64.b64encode(raw).decode()}")
    with pytest.raises(sdp.WireError, match="its logo is not valid"):
        check_logo("data:image/png;base64,!")


def test_the_id_stands_for_the_logo_and_documents_without_one_are_as_before():
    without = live.make_collection(texts=Texts(title="A"))
    logo = pack_logo(make_png())
    found = live.make_collection(texts=Texts(title="A", logo=logo))
    assert Collection.read(found.raw).texts.logo == logo
    assert found.id != without.id
    assert b"logo" not in without.raw
    assert 0 < len(found.raw) - len(without.raw) - len(logo) < 20


def test_a_survey_file_names_a_picture_beside_it(tmp_path: Path):
    path = tmp_path / "s.toml"
    path.write_text(f'{SURVEY}logo = "logo.png"\n')
    with pytest.raises(sdp.DataError, match=r"line 7: the logo cannot be taken: .*logo\.png"):
        read_survey(path)
    (tmp_path / "logo.png").write_bytes(make_png())
    assert read_survey(path)[1].texts.logo == pack_logo(make_png())
    (tmp_path / "logo.png").write_bytes(b"<svg/>")
    with pytest.raises(sdp.DataError, match="must be a PNG or JPEG"):
        read_survey(path)


def test_a_page_sends_a_picture_and_names_no_file(tmp_path: Path):
    (tmp_path / "logo.png").write_bytes(make_png())
    asked = {"epsilon": 1.0, "delta": 1e-6, "questions": {"home": {"task": "count"}}}
    logo = pack_logo(make_png())
    _, settings = live.read_tables({**asked, "collection": {"logo": logo}})
    assert settings.logo == logo
    named = {"logo": str(tmp_path / "logo.png")}
    with pytest.raises(sdp.DataError, match="the logo cannot be taken: must be a PNG or JPEG"):
        live.read_tables({**asked, "collection": named})
