"""The picture of a distribution function shows the curve, its band and the quartiles where they are."""

import re

import pytest

from shuffledp.core.display import Curve, Number, Picture, Steps, draw_steps, find_steps
from shuffledp.core.notebook import draw_distribution

LEFT, BOTTOM, WIDTH = 36.0, 168.0, 460.0  # the corner of the axes, and the right end
ROWS = (Number("<= 10", 0.4, 0.01, 0.35, 0.45), Number("<= 20", 0.9, 0.0, 0.8, 1.2))
SHOWN = Picture(rows=ROWS, level=0.95, curve=Curve(points=(10.0, 20.0), ends=(-10.0, 30.0)))


def read_back(path):
    """Corners of a path as numbers and shares."""
    corners = [tuple(map(float, each.split(","))) for each in re.findall(r"[\d.-]+,[\d.-]+", path)]
    return [
        (round((x - LEFT) / (WIDTH - LEFT) * 40 - 10, 1), round(1 - y / BOTTOM, 2))
        for x, y in corners
    ]


def test_a_picture_shows_band_curve_and_quartiles():
    paths = re.findall(r'<path d="([^"]+)"', draw_distribution(SHOWN))
    quartiles, (band, curve, axes) = paths[:3], paths[3:]
    assert read_back(curve) == [(10.0, 0.4), (20.0, 0.9)]
    low = [(-10.0, 0.0), (10.0, 0.0), (10.0, 0.35), (20.0, 0.35), (20.0, 0.8), (30.0, 0.8)]
    high = [(-10.0, 0.45), (10.0, 0.45), (10.0, 1.0), (20.0, 1.0), (20.0, 1.0), (30.0, 1.0)]
    assert read_back(band) == high + low[::-1]
    assert axes == "M36,0V168H460"
    # From the axis to where the share is surely reached, and down from the ends of where it may be.
    brackets = {0.25: (-10, 10), 0.5: (10, 20), 0.75: (10, 20)}
    for path, (share, (first, last)) in zip(quartiles, brackets.items(), strict=True):
        start, across, inside = re.fullmatch(
            r"M36,([\d.]+)H([\d.]+)V168M([\d.]+),\1V168", path
        ).groups()
        assert 1 - float(start) / BOTTOM == pytest.approx(share, abs=1e-3)
        for place, x in ((across, last), (inside, first)):
            assert float(place) == pytest.approx(LEFT + (x + 10) / 40 * (WIDTH - LEFT), abs=0.06)


def test_numbers_stand_at_the_axes():
    found = re.findall(
        r'<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)"[^>]*>([^<]+)',
        draw_distribution(SHOWN),
    )
    assert found == [
        ("31.0", "172.0", "end", "0"),
        ("31.0", "88.0", "end", "0.5"),
        ("31.0", "4.0", "end", "1"),
        ("36.0", "183.0", "start", "-10"),
        ("460.0", "183.0", "end", "30"),
    ]


def test_shares_between_points():
    steps = find_steps(SHOWN)
    assert steps == Steps(
        points=(10.0, 20.0),
        shares=(0.4, 0.9),
        lows=(0.35, 0.8),
        highs=(0.45, 1.0),
        ends=(-10.0, 30.0),
    )
    least, share, most = steps.interpolate(0.0)
    assert (least, most, share != share) == (0.0, 0.45, True)
    assert steps.interpolate(10.0) == (0.35, 0.4, 0.45)
    assert steps.interpolate(14.0) == pytest.approx((0.35, 0.6, 1.0))
    assert steps.interpolate(20.0) == (0.8, 0.9, 1.0)
    assert steps.interpolate(25.0) == (0.8, 0.9, 1.0)
    assert steps.bracket(0.35) == (-10.0, 10.0)
    assert steps.bracket(0.45) == (-10.0, 20.0)
    assert steps.bracket(0.95) == (10.0, 30.0)


def test_shares_beyond_many_points_and_below_none():
    """The last point counts beyond the last one, rows keep their points, and no share is below 0."""
    rows = (
        Number("<= 30", 0.9, 0.0, 0.8, 0.9),
        Number("<= 10", -0.2, 0.0, -0.3, 0.1),
        Number("<= 20", 0.5, 0.0, 0.4, 0.6),
    )
    shown = Picture(rows=rows, level=0.95, curve=Curve(points=(30.0, 10.0, 20.0), ends=(0.0, 40.0)))
    steps = find_steps(shown)
    assert steps == Steps(
        points=(10.0, 20.0, 30.0),
        shares=(0.0, 0.5, 0.9),
        lows=(0.0, 0.4, 0.8),
        highs=(0.1, 0.6, 0.9),
        ends=(0.0, 40.0),
    )
    assert steps.interpolate(35.0) == (0.8, 0.9, 1.0)
    assert steps.bracket(0.7) == (20.0, 30.0)
    assert steps.bracket(0.25) == (10.0, 20.0)


def test_points_that_are_alike_keep_the_order_of_their_rows():
    rows = (Number("b", 0.6, 0.0, 0.5, 0.7), Number("a", 0.4, 0.0, 0.3, 0.5))
    shown = Picture(rows=rows, level=0.95, curve=Curve(points=(10.0, 10.0), ends=(0.0, 20.0)))
    assert find_steps(shown).shares == (0.6, 0.4)


def test_a_curve_in_text_is_at_least_ten_places_wide():
    for width in (0, 14, 15):
        assert max(map(len, draw_steps(SHOWN, width)[:-1])) == 4 + 10
    assert max(map(len, draw_steps(SHOWN, 16)[:-1])) == 4 + 11
    assert draw_steps(Picture(rows=ROWS, level=0.95), 40) == []
