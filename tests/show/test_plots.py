"""Pictures: drawn at all sizes, refused clearly, and showing the numbers that they are given."""

import re
import sys
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.cli import demo
from shuffledp.core.analyzer import Estimate, NormalError
from shuffledp.core.display import Curve, Moment, Number, Picture, as_text, draw_steps, find_steps
from shuffledp.core.notebook import draw_distribution
from shuffledp.show import estimates, style

LABELS = ("cat", "dog", "owl")


def estimate_of(*values, stderr=30.0):
    value = np.array(values, dtype=np.float64)
    return Estimate(
        value=value, error=NormalError(stderr=np.full(len(value), stderr)), limits=(0, 10)
    )


def svg(tmp_path, truth, estimates, labels=LABELS):
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):  # text stays text
        path = sdp.show.compare_errors(
            truth, estimates, tmp_path / "a" / "plot.svg", labels=labels, title="T", subtitle="S"
        )
    return path.read_text()


def test_shows_by_how_much_each_estimate_is_off(tmp_path):
    drawn = svg(tmp_path, [5000, 400, 3], {"local": estimate_of(5100, 300, 3)})
    for text in ("cat", "the truth", "5,000", "local", "+100 ± 59", "−100 ± 59", "0 ± 59"):
        assert f">{text}<" in drawn, text


def test_half_widths_are_rounded_up(tmp_path):
    """1.96 times 29.7 is 58.2, and "58" would be narrower."""
    drawn = svg(tmp_path, [5000], {"local": estimate_of(5100, stderr=29.7)}, labels=("cat",))
    assert ">+100 ± 59<" in drawn
    rows = [Number("cat", 5100.0, 29.7, 5041.8, 5158.2)]
    assert demo._format_cells(rows) == ["5,100 ± 59"]


def test_a_column_per_estimate(tmp_path):
    estimates = {f"panel {i}": estimate_of(1, 2, 3) for i in range(5)}
    drawn = svg(tmp_path, [1, 2, 3], estimates)
    assert all(f">{name}<" in drawn for name in estimates)


@pytest.mark.parametrize("bins", [1, 40])
def test_few_and_many_bins(tmp_path, bins):
    labels = tuple(f"bin {i}" for i in range(bins))
    values = np.arange(bins, dtype=float)
    path = sdp.show.compare_errors(
        values, {"x": estimate_of(*values)}, tmp_path / "p.png", labels=labels, title="T"
    )
    assert path.stat().st_size > 1000


def test_all_zero(tmp_path):
    assert ">cat<" in svg(tmp_path, [0, 0, 0], {"x": estimate_of(0, 0, 0, stderr=0)})


@pytest.mark.parametrize("truth", [[], list(range(41)), [[1, 2], [3, 4]], 7])
def test_unreadable_pictures_are_refused(tmp_path, truth):
    with pytest.raises(sdp.UnsupportedError, match="bins"):
        sdp.show.compare_errors(truth, {}, tmp_path / "p.png", labels=(), title="T")


@pytest.mark.parametrize(("values", "labels"), [((1, 2), LABELS), ((1, 2, 3), LABELS[:2])])
def test_sizes_must_agree(tmp_path, values, labels):
    with pytest.raises(sdp.MismatchError, match="panel"):
        sdp.show.compare_errors(
            [1, 2, 3], {"panel": estimate_of(*values)}, tmp_path / "p.png", labels=labels, title="T"
        )


def test_missing_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(sdp.UnsupportedError, match=r"install the extra shuffledp\[plot\]"):
        sdp.show.compare_errors(
            [1], {"x": estimate_of(1)}, tmp_path / "p.png", labels=("a",), title="T"
        )


def test_a_format_that_nobody_draws_is_one_sentence(tmp_path):
    line = [(10, 3.0, "rr"), (1000, 30.0, "rr")]
    words = {"title": "A plan", "subtitle": "", "ylabel": "RMSE", "chosen": (100, 10.0, "rr")}
    with pytest.raises(sdp.UnsupportedError, match=r"plan.doc: a picture ends in one of .pdf"):
        sdp.show.error_curves({"local": line}, tmp_path / "plan.doc", **words)
    assert not list(tmp_path.iterdir())


class TestPrivacyCurves:
    def svg(self, tmp_path, curves, **options):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}):
            path = sdp.show.privacy_curves(
                curves, tmp_path / "c.svg", largest=1.0, title="T", **options
            )
        return path.read_text()

    def test_names_every_curve_and_axis(self, tmp_path):
        drawn = self.svg(tmp_path, {"one": lambda _: 1e-3, "two": lambda e: 1e-6 * (1 - e)})
        for text in ("one", "two", "T", "epsilon", "delta (an upper bound)"):
            assert f">{text}<" in drawn, text

    def test_zeros_are_left_out_of_the_logarithm(self, tmp_path):
        assert ">zero<" in self.svg(tmp_path, {"zero": lambda _: 0.0, "some": lambda _: 0.1})

    def test_a_profile_draws_all_its_bounds(self, tmp_path):
        import matplotlib as mpl

        krr = sdp.protocols.krr.KRR(k=8, epsilon0=1.0)
        with mpl.rc_context({"svg.fonttype": "none"}):
            path = sdp.profile(randomizer=krr, n=200, honest=1).plot(tmp_path / "profile.svg")
        drawn = path.read_text()
        for text in ("clones 2023", "blanket", "200 honest users, epsilon0 = 1."):
            assert f">{text}<" in drawn, text
        assert re.search(
            r"Shuffling turns epsilon0 = 1 into epsilon = [0-9.]+ \(delta = 1e-6\)<", drawn
        )

    def test_points_and_dashes_for_many_bounds(self, tmp_path):
        points = {f"formula {place}": [(0.1, 1e-3), (0.2 + place, 1e-9)] for place in range(9)}
        drawn = self.svg(
            tmp_path, {**points, "curve": lambda e: 1e-6 / e}, smallest=0.01, dashed={"formula 3"},
            notes=["by a proof"], mark=(0.1, 1e-3),
        )  # fmt: skip
        for text in (*points, "curve", "by a proof."):
            assert f">{text}<" in drawn, text

    def test_missing_matplotlib_says_what_to_install(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(sdp.UnsupportedError, match=r"install the extra shuffledp\[plot\]"):
            sdp.profile(epsilon0=1.0, n=200, honest=1).plot(tmp_path / "p.png")


def test_error_curves_name_models_protocols_and_the_choice(tmp_path):
    import matplotlib as mpl

    lines = {
        "central": [(10, 1.4, "geometric"), (1000, 1.4, "geometric")],
        "shuffle": [*((n, 9.0, "rr") for n in range(10, 90, 10)), (1000, 1.5, "correlated_count")],
        "local": [(10, 9.0, "rr"), (1000, 90.0, "rr")],
    }
    with mpl.rc_context({"svg.fonttype": "none"}):
        path = sdp.show.error_curves(
            lines,
            tmp_path / "plan.svg",
            title="T",
            subtitle="S",
            ylabel="RMSE",
            chosen=(1000, 1.5, "correlated_count"),
        )
    drawn = path.read_text()
    for text in ("chosen: correlated_count", "central", "geometric", "shuffle", "local", "rr", "T"):
        assert f">{text}<" in drawn, text


def test_error_curves_show_every_row(tmp_path):
    import matplotlib as mpl

    rows = [("shuffle", f"protocol_{place}", 1.0 + place) for place in range(30)]
    with mpl.rc_context({"svg.fonttype": "none"}):
        path = sdp.show.error_curves(
            {"local": [(10, 9.0, "rr"), (1000, 90.0, "rr")]}, tmp_path / "plan.svg", title="T",
            subtitle="S", ylabel="RMSE", chosen=(1000, 3.0, "protocol_2"), rows=rows,
        )  # fmt: skip
    drawn = path.read_text()
    assert all(f">protocol_{place}<" in drawn for place in range(30))
    assert ">every protocol, 1,000 users<" in drawn


def test_error_curves_say_what_a_live_report_costs(tmp_path):
    line = [(100, 4.0, "rr"), (1000, 9.0, "rr")]
    rows = [("local", "rr", 4.0), ("central", "geometric", 1.0)]
    path = sdp.show.error_curves(
        {"local": line},
        tmp_path / "plan.svg",
        title="x",
        subtitle="y",
        ylabel="RMSE",
        chosen=(100, 4.0, "rr"),
        rows=rows,
        costs={("local", "rr"): "104 B, 1.27"},
    )
    assert "104 B, 1.27" in path.read_text()


def test_error_curves_of_nothing_are_refused(tmp_path):
    with pytest.raises(sdp.UnsupportedError, match="no curve"):
        sdp.show.error_curves(
            {"local": []},
            tmp_path / "plan.svg",
            title="T",
            subtitle="S",
            ylabel="RMSE",
            chosen=(1, 1.0, "rr"),
        )


class TestPlotEstimate:
    def draw(self, tmp_path, estimate, suffix, **options):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}):
            return sdp.show.plot_estimate(
                estimate, tmp_path / f"r.{suffix}", title="T & <T>", notes=["a $note$"], **options
            )

    def labelled(self, *labels):
        values = np.arange(len(labels), dtype=float) * 100 - 50
        return Estimate(value=values, error=NormalError(stderr=30.0), limits=(0, 9), labels=labels)

    def test_svg_has_labels_numbers_and_notes(self, tmp_path):
        drawn = self.draw(tmp_path, self.labelled("größe", "$x$"), "svg").read_text()
        for text in ("größe", "$x$", "-50", "50"):
            assert f">{text}<" in drawn, text
        assert ">a $note$. Bars: the estimates" in drawn

    def test_scripts_that_the_font_lacks_are_no_error(self, tmp_path):
        path = self.draw(tmp_path, self.labelled("東京", "大阪"), "png")
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_page_is_one_harmless_file(self, tmp_path):
        page = self.draw(tmp_path, self.labelled("<script>x</script>", "東京"), "html").read_text()
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert "東京" in page
        assert "T &amp; &lt;T&gt;" in page
        for outside in ("http", "src=", "href=", "url(", "@import"):
            assert outside not in page
        assert "-109 .. 9" in page

    def test_one_number(self, tmp_path):
        one = Estimate(value=7.0, error=NormalError(stderr=1.0), limits=(0, 9))
        picture = sdp.tasks.Mean.show(one, level=0.5)
        page = self.draw(tmp_path, picture, "html").read_text()
        assert ">mean<" in page
        assert "50% intervals" in page

    def test_many_bins_show_the_largest(self, tmp_path):
        many = self.labelled(*(f"bin{i}" for i in range(5000)))
        page = self.draw(tmp_path, many, "html").read_text()
        assert page.count("<tr") == 41
        assert "The 40 largest of 5,000" in page

    def test_the_largest_are_sorted(self, tmp_path):
        values = np.random.default_rng(1).permutation(100).astype(float)
        mixed = Estimate(value=values, error=NormalError(stderr=0.1), limits=(0, 99))
        page = self.draw(tmp_path, mixed, "html").read_text()
        shown = re.findall(r"<tr[^>]*><th[^>]*>(\d+)</th>", page)
        assert [values[int(place)] for place in shown] == list(range(99, 59, -1))

    @pytest.mark.parametrize("model", ["central", "shuffle", "local"])
    def test_bars_have_the_colour_of_the_model(self, tmp_path, model):
        page = self.draw(tmp_path, self.labelled("a", "b"), "html", model=model).read_text()
        colour = sdp.show.MODEL_COLOURS[model]
        assert f'fill="{colour}" fill-opacity="0.45"/>' in page  # a is negative
        assert f'fill="{colour}"/>' in page

    def test_few_bins_keep_their_order(self, tmp_path):
        page = self.draw(tmp_path, self.labelled("a", "b", "c"), "html").read_text()
        assert re.findall(r"<tr[^>]*><th[^>]*>(\w+)</th>", page) == ["a", "b", "c"]

    @pytest.mark.parametrize("suffix", ["svg", "html"])
    def test_finding_above_title_and_warnings_not_in_small_print(self, tmp_path, suffix):
        said = {"finding": "b is the largest", "warnings": ["NOT PRIVATE: it is seeded"]}
        drawn = self.draw(tmp_path, self.labelled("a", "b"), suffix, **said).read_text()
        places = [
            drawn.index(text) for text in ("b is the largest", "NOT PRIVATE: it is", "a $note$")
        ]
        assert places == sorted(places)
        assert "T &amp; &lt;T&gt;" in drawn

    def test_letters_that_no_font_has_are_remarked(self, tmp_path, monkeypatch):
        monkeypatch.setattr(style, "_find_missing", lambda text, _: set(text) & {"東"})
        seen = []
        monkeypatch.setattr(estimates, "foot", lambda _, lines: seen.extend(lines))
        path = self.draw(tmp_path, self.labelled("東京", "x"), "png")
        page = sdp.show.name_page(path)
        assert any("No installed font" in line and page.name in line for line in seen)
        assert ">東京<" in page.read_text()
        page.unlink()
        seen.clear()
        self.draw(tmp_path, self.labelled("kyoto", "x"), "png")
        assert not any("No installed font" in line for line in seen)
        assert not page.exists()

    def test_brief_notes_are_those_of_a_picture(self, tmp_path, monkeypatch):
        """A picture has two lines of small print; all notes are on the page, and in the metadata of a .png."""
        from PIL import Image

        seen = []
        monkeypatch.setattr(estimates, "foot", lambda _, lines: seen.extend(lines))
        said = {"brief": ["in brief"], "axis": "people"}
        path = self.draw(tmp_path, self.labelled("a", "b"), "png", **said)
        assert seen == ["in brief. Bars: the estimates; lines: 95% intervals."]
        with Image.open(path) as picture:
            assert picture.info["Description"].startswith("a $note$\nBars")
        page = self.draw(tmp_path, self.labelled("a", "b"), "html", **said).read_text()
        assert "a $note$" in page
        assert "in brief" not in page

    def test_a_sentence_runs_from_the_left_whatever_its_first_word_is(self, tmp_path):
        import matplotlib as mpl

        path = tmp_path / "a.svg"
        with mpl.rc_context({"svg.fonttype": "none"}):
            sdp.show.plot_estimate(
                self.labelled("حافلة", "x"), path, title="T", finding="حافلة is it"
            )
        assert ">\u200eحافلة is it<" in path.read_text()
        assert ">حافلة<" in path.read_text()

    def test_an_old_matplotlib_leaves_joined_letters_to_the_page(self, tmp_path, monkeypatch):
        import matplotlib as mpl

        monkeypatch.setattr(mpl, "__version_info__", (3, 10, 0))
        path = self.draw(tmp_path, self.labelled("حافلة", "x"), "png")
        assert ">حافلة<" in sdp.show.name_page(path).read_text()

    def test_long_labels_have_room(self):
        """As drawn, not as counted: boxes and letters of East Asia are wider than others."""
        narrow, wide = style.measure_labels(["iiii"]), style.measure_labels(["WWWW"])
        assert 2 * (narrow - 0.35) < wide - 0.35

    def test_an_svg_leaves_such_letters_to_the_viewer(self, tmp_path, monkeypatch):
        monkeypatch.setattr(style, "_find_missing", lambda text, _: set(text) & {"東"})
        path = sdp.show.plot_estimate(self.labelled("東京", "x"), tmp_path / "a.svg", title="T")
        assert ">東京<" in path.read_text()

    def test_other_suffixes_are_refused(self, tmp_path):
        with pytest.raises(sdp.UnsupportedError, match="ends in one of"):
            self.draw(tmp_path, self.labelled("a", "b"), "doc")


def test_a_font_that_has_the_letters_is_chosen(monkeypatch):
    from matplotlib.font_manager import fontManager

    # By the names of their files: Matplotlib may remember another road to the same folder.
    has = {Path(font.fname).name for font in fontManager.ttflist if font.name == "STIXGeneral"}
    monkeypatch.setattr(
        style,
        "_find_missing",
        lambda text, path: set() if Path(path).name in has else set(text) & {"東"},
    )
    assert style.choose_fonts("東x") == (["DejaVu Sans", "STIXGeneral"], True)
    assert style.choose_fonts("x") == (["DejaVu Sans"], True)


def test_a_placeholder_font_is_no_font_with_letters():
    fonts, _ = style.choose_fonts("\U000e0fff" + "\N{TAMIL LETTER A}")
    assert not any(name.startswith("Last Resort") for name in fonts)


@pytest.mark.parametrize(("gap", "clear"), [(5.4, False), (5.6, True)])
def test_the_largest_is_named_only_if_it_stands_out(gap, clear):
    rows = (Number("a", 100.0, 3.0, 94, 106), Number("b", 100 + gap * 5, 4.0, 92, 108))
    finding = sdp.show.state_finding(Picture(rows=rows, level=0.95))
    assert ("b is the largest of 2" in finding) == clear
    assert ("too close" in finding) != clear


def test_numbers_of_people_are_drawn_as_whole_numbers(tmp_path):
    row = Number("count", 11_996.2, 1.4, 11_993.4, 11_998.9)
    people = Picture(rows=(row,), level=0.95, limits=(0, 50_000), whole=True)
    assert sdp.show.state_finding(people) == "count: 11,996, with 95% confidence 11,994 to 11,998"
    for picture in (people, replace(people, limits=None)):
        drawn = sdp.show.plot_estimate(picture, tmp_path / "count.svg", title="home").read_text()
        assert "11,996" in drawn
        assert "11,996." not in drawn


def test_unknown_errors_name_no_largest():
    rows = tuple(
        Number(name, value, float("nan"), 0, 9) for name, value in (("a", 1.0), ("b", 99.0))
    )
    assert "too close" in sdp.show.state_finding(Picture(rows=rows, level=0.95))


PEOPLE = {
    "minutes": np.arange(4000) % 200,
    "way": ["car", "bus"] * 2000,
    "home": [True, False] * 2000,
}


def ask(task, **options):
    promise = {"epsilon": 1.0, "delta": 1e-6, "rng": sdp.SeededWords(7)}
    return sdp.ask(PEOPLE, task, **promise, **options)


def draw(answer, path):
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):
        return answer.plot(path).read_text()


class TestDistributions:
    def curve(self, *intervals, points=(10.0, 20.0, 30.0), ends=(0.0, 40.0)):
        rows = tuple(
            Number(f"<= {x:g}", (low + high) / 2, 0.01, low, high)
            for x, (low, high) in zip(points, intervals, strict=True)
        )
        return Picture(rows=rows, level=0.95, curve=Curve(points=points, ends=ends))

    def test_no_function_within_its_intervals_leaves_the_band(self):
        steps = find_steps(self.curve((0.1, 0.3), (0.2, 0.6), (0.7, 0.9)))
        levels = np.linspace(0, 1, 11)
        for early in (5.0, 10.0):  # rises before a point, or at it
            for a, b, c in ((a, b, c) for a in levels for b in levels for c in levels):
                inside = 0.1 <= a <= 0.3 and 0.2 <= b <= 0.6 and 0.7 <= c <= 0.9 and a <= b <= c
                if not inside:
                    continue
                for x in np.linspace(0.5, 39.5, 40):
                    place = int((x + early) // 10 - (early == 10.0))
                    share = (0.0, a, b, c, 1.0)[min(place, 4)]
                    low, _, high = steps.interpolate(float(x))
                    assert low - 1e-12 <= share <= high + 1e-12

    @pytest.mark.parametrize(
        ("share", "wanted"), [(0.05, (0, 10)), (0.25, (0, 30)), (0.65, (20, 30)), (0.95, (30, 40))]
    )
    def test_what_the_band_leaves_open_for_a_quantile(self, share, wanted):
        steps = find_steps(self.curve((0.1, 0.3), (0.2, 0.6), (0.7, 0.9)))
        assert steps.bracket(share) == wanted

    def test_points_in_any_order(self):
        mixed = self.curve((0.7, 0.9), (0.1, 0.3), (0.2, 0.6), points=(30.0, 10.0, 20.0))
        assert find_steps(mixed).points == (10.0, 20.0, 30.0)
        assert find_steps(mixed).lows == (0.1, 0.2, 0.7)
        assert draw_steps(mixed, 40) == draw_steps(
            self.curve((0.1, 0.3), (0.2, 0.6), (0.7, 0.9)), 40
        )

    def test_a_picture_of_something_else_has_no_curve(self):
        bars = Picture(rows=(Number("a", 1, 1, 0, 2),), level=0.95)
        assert draw_steps(bars, 40) == []
        assert draw_distribution(bars) == ""

    def test_a_curve_has_its_band_its_quartiles_and_a_finding(self, tmp_path):
        answer = ask("cdf", column="minutes", lower=0, upper=199)
        low, high = find_steps(answer.picture).bracket(0.5)
        assert low <= 99 <= high
        drawn = draw(answer, tmp_path / "c.svg")
        said = f"{low:g} to {high:g}"
        for text in (f"half: {said}", "100%", "people at or below"):
            assert f">{text}<" in drawn, text
        assert f"The median is between {low:g} and {high:g} (95% confidence)" in drawn
        assert "<circle" not in draw(answer, tmp_path / "c.html")
        assert 'stroke-dasharray="2 3"' in draw(answer, tmp_path / "c.html")

    def test_one_point_is_a_bar(self):
        assert ask("cdf", column="minutes", lower=0, upper=199, at=[50]).picture.curve is None

    def test_quantiles_are_points_on_the_range(self, tmp_path):
        answer = ask("quantiles", column="minutes", lower=0, upper=199, at=[0.25, 0.5])
        assert answer.picture.limits == (0, 199)
        value, _, low, high = answer.picture.rows[1][1:]
        drawn = draw(answer, tmp_path / "q.svg")
        assert f">{value:.0f} ({low:.0f} to {high:.0f})<" in drawn
        assert f"The median is {value:.0f}, with 95% confidence {low:.0f} to {high:.0f}" in drawn
        assert draw(answer, tmp_path / "q.html").count("<circle") == 2

    def test_without_the_median_the_nearest_quantile_is_named(self, tmp_path):
        answer = ask("quantiles", column="minutes", lower=0, upper=199, at=[0.9, 0.99])
        assert "The quantile at 0.9 is" in draw(answer, tmp_path / "q.svg")


@pytest.mark.parametrize("interval", [(0, 1), (0, 60), (0, 100), (29, 71), (40, 100), (99, 100)])
def test_numbers_beside_intervals_stay_in_the_picture(interval):
    axes = style.new_figure(8.0, 2.0).subplots()
    axes.set_xlim(0, 100)
    estimates.write_beside(axes, "175.0 (42.0 to 239.0)", interval, 0.5, (0, 100))
    box = axes.texts[0].get_window_extent()
    assert axes.bbox.x0 <= box.x0
    assert box.x1 <= axes.bbox.x1


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        (("2020-01-01", "2025-01-01"), ["2020-01-01", "2022-01-01", "2024-01-01"]),
        (("2020-01-05", "2020-12-20"), ["2020-04-01", "2020-07-01", "2020-10-01"]),
        (("2020-01-05", "2020-01-07"), ["2020-01-05", "2020-01-06", "2020-01-07"]),
    ],
)  # fmt: skip
def test_ticks_of_dates_are_days_that_people_know(ends, wanted):
    axes = style.new_figure(8.0, 2.0).subplots()
    low, high = (Moment(date.fromisoformat(end).toordinal() - 719_163) for end in ends)
    style.write_dates_below(axes, low)
    axes.set_xlim(low, high)
    ticks = [f"{Moment(tick)}" for tick in axes.xaxis.get_major_locator()()]
    assert ticks == wanted


def test_the_last_date_below_a_curve_stays_in_the_picture():
    low, high = Moment(19_692), Moment(19_783)  # 2023-12-01 and 2024-03-01, both ticks
    points = (Moment(19_723), Moment(19_754))
    rows = tuple(Number(f"<= {each}", 0.5, 0.1, 0.4, 0.6) for each in points)
    shown = Picture(rows=rows, level=0.95, curve=Curve(points=points, ends=(low, high)))
    nothing = {"headline": "", "warnings": (), "notes": (), "brief": ()}
    words = estimates._Words(title="cdf", axis="day", colour=style.BLUE, **nothing)
    figure = estimates._draw(shown, list(rows), words)
    figure.canvas.draw()
    labels = [each for each in figure.axes[0].get_xticklabels() if each.get_text()]
    assert labels[-1].get_text() == "2024-03-01"
    assert labels[-1].get_window_extent().x1 <= figure.bbox.x1


class TestGroups:
    options = MappingProxyType({"by": "way", "groups": ["car", "bus"]})

    def histogram(self):
        return ask("histogram", column="home", categories=["true", "false"], **self.options)

    def test_bars_stand_below_their_groups(self, tmp_path):
        answer = self.histogram()
        assert answer.picture.groups == ("car", "car", "bus", "bus")
        assert [line.split()[0] for line in as_text(answer.picture).splitlines()[1:]] == [
            "car", "true", "false", "bus", "true", "false",
        ]  # fmt: skip
        drawn = draw(answer, tmp_path / "g.svg")
        assert re.findall(r">(car|bus|true|false)<", drawn) == [
            "car", "true", "false", "bus", "true", "false",
        ]  # fmt: skip
        page = draw(answer, tmp_path / "g.html")
        assert page.index("<b>car</b>") < page.index("<b>bus</b>")

    def test_labels_of_numbers_stay_whole(self):
        labels = [row["label"] for row in self.histogram().to_dict()["estimate"]]
        assert labels == ["car, true", "car, false", "bus, true", "bus, false"]

    def test_names_with_commas_stay_in_their_groups(self):
        rows = tuple(Number("a, b, c", x, 1.0, 0.0, 9.0) for x in (1.0, 2.0))
        lines = as_text(Picture(rows=rows, level=0.95, groups=("a, b", "a"))).splitlines()
        assert [line.split("  ")[0] or line.strip().split("  ")[0] for line in lines[1:]] == [
            "a, b", "c", "a", "b, c",
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("values", "finding"),
        [
            ((90, 20, 80, 10), "yes is the largest in both groups"),
            ((90, 20, 10, 10), "yes is the largest in 1 of 2 groups"),
            ((20, 20, 10, 10), "No answer is clearly the largest in any group"),
        ],
    )
    def test_findings(self, values, finding):
        names = ("car, yes", "car, no", "bus, yes", "bus, no")
        rows = tuple(Number(*row, 1.0, 0.0, 99.0) for row in zip(names, values, strict=True))
        shown = Picture(rows=rows, level=0.95, groups=("car", "car", "bus", "bus"))
        assert sdp.show.state_finding(shown) == finding

    def test_quantiles_by_group_have_no_largest(self, tmp_path):
        given = {**self.options, "lower": 0, "upper": 199, "at": [0.25, 0.75]}
        drawn = draw(ask("quantiles", column="minutes", **given), tmp_path / "q.svg")
        assert "largest" not in drawn

    def test_a_count_by_group_names_the_largest(self, tmp_path):
        drawn = draw(ask("count", column="home", **self.options), tmp_path / "n.svg")
        assert "car is the largest of 2" in drawn


def test_a_single_number_is_a_dot_on_its_range(tmp_path):
    mean = Estimate(value=48.0, error=NormalError(stderr=1.0), limits=(0, 120))
    page = sdp.show.plot_estimate(mean, tmp_path / "m.html", title="Age").read_text()
    assert 'circle cx="72"' in page
    assert "the axis is the public range" in page


@pytest.mark.parametrize("rows", [3, 12])
def test_the_heading_of_costs_stands_on_the_panel_however_many_rows(tmp_path, monkeypatch, rows):
    from shuffledp.show import curves

    drawn = []
    monkeypatch.setattr(curves, "save", lambda figure, path: drawn.append(figure) or path)
    listed = [("shuffle", f"p{place}", 1.0 + place / 4) for place in range(rows)]
    costs = {("shuffle", "p0"): "104 B, 2"}
    sdp.show.error_curves({"shuffle": [(10, 1.0, "p0"), (100, 1.0, "p0")]}, tmp_path / "p.svg",
        title="T", subtitle="", ylabel="RMSE", chosen=(10, 1.0, "p0"), rows=listed, costs=costs)  # fmt: skip
    (figure,) = drawn
    figure.draw_without_rendering()
    panel = figure.axes[1]
    (head,) = [text for text in panel.texts if text.get_text().startswith("a live report")]
    above = head.get_window_extent().y0 - panel.get_window_extent().y1
    assert 0 < above < 0.2 * figure.dpi
    ticks = [label.get_text() for label in panel.get_xticklabels(minor=True)]
    assert not any(ticks)


ASKED = {
    "count": {"column": "home"},
    "histogram": {"column": "way", "categories": ["car", "bicycle", "bus", "train", "other"]},
    "mean": {"column": "minutes", "lower": 0, "upper": 240},
    "cdf": {"column": "minutes", "lower": 0, "upper": 240, "at": [10, 20, 40]},
    "quantiles": {"column": "minutes", "lower": 0, "upper": 240},
    "sum": {"column": "minutes", "lower": 0, "upper": 240},
    "std": {"column": "minutes", "lower": 0, "upper": 240},
}


@pytest.mark.parametrize("model", ["shuffle", "central", "local"])
@pytest.mark.parametrize("task", ASKED)
def test_small_print_has_two_lines_and_axes_have_labels(task, model, tmp_path, monkeypatch):
    """The promise stays in the picture: epsilon, delta, model, neighbours, whom it counts on, and of what."""
    if (task, model) in {("cdf", "local"), ("quantiles", "local"), ("std", "local")}:
        pytest.skip("slow, and as in the shuffle model")
    seen, drawn = [], []
    monkeypatch.setattr(estimates, "foot", lambda _, lines: seen.extend(lines))
    monkeypatch.setattr(estimates, "save", lambda figure, path, _: drawn.append(figure) or path)
    promise = {"delta": 1e-6} if model == "shuffle" else {}
    people = {
        "home": [True, False] * 500,
        "way": ["car", "bicycle", "bus", "train", "other"] * 200,
        "minutes": [*range(100)] * 10,
    }
    asked = {"epsilon": 1.0, "model": model, "rng": sdp.SeededWords(1), **promise}
    answer = sdp.ask(people, task, on_invalid="drop", **ASKED[task], **asked)
    answer.plot(tmp_path / "a.png")
    assert 1 <= len(seen) <= 2, seen
    text = " ".join(seen)
    assert str(answer.guarantee).partition("; by ")[0] in text
    assert "the promise protects one row" in text
    (figure,) = drawn
    wanted = "people" if answer.picture.whole else ASKED[task]["column"]
    assert figure.axes[0].get_xlabel() == wanted


@pytest.mark.parametrize(
    ("task", "asked", "axis"),
    [
        ("range", {"column": "minutes", "lower": 0, "upper": 240, "at": [10, 20]}, "people"),
        ("histogram", {"column": "way", "categories": ["bus", "car"], "by": "home", "groups": ["a", "b"]}, "people"),
        ("words", {"column": "way", "alphabet": "letters", "max_length": 4, "delta": 1e-6}, "people"),
        ("count", {"column": "late", "person": "who", "of": "rows", "max_rows": 4}, "rows"),
        ("sum", {"column": "minutes", "lower": 0, "upper": 240}, "minutes"),
    ],
)  # fmt: skip
def test_the_axis_says_what_is_counted(task, asked, axis, tmp_path, monkeypatch):
    """People, also where there are no shares of them; not the column."""
    drawn = []
    monkeypatch.setattr(estimates, "save", lambda figure, path, _: drawn.append(figure) or path)
    people = {
        "minutes": [*range(100)] * 4,
        "way": ["bus", "car"] * 200,
        "home": ["a", "a", "b", "b"] * 100,
        "late": [True, False, False, False] * 100,
        "who": [*range(200)] * 2,
    }
    sdp.ask(people, task, epsilon=1.0, model="central", **asked).plot(tmp_path / "a.png")
    assert drawn[0].axes[0].get_xlabel() == axis


@pytest.mark.parametrize(("end", "last"), [(100_000, "100,000,000"), (677, "1,000,000")])
def test_long_numbers_below_the_axis_stay_in_the_picture(end, last, tmp_path, monkeypatch):
    """And none stands on another."""
    drawn = []
    monkeypatch.setattr(estimates, "save", lambda figure, path, _: drawn.append(figure) or path)
    asked = {"column": "x", "lower": -end, "upper": end, "epsilon": 1.0, "model": "central"}
    sdp.ask({"x": [0] * 1477}, "sum", **asked).plot(tmp_path / "a.png")
    (figure,) = drawn
    figure.draw_without_rendering()
    low, high = figure.axes[0].get_xlim()
    labels = [
        label
        for label in figure.axes[0].get_xticklabels()
        if low <= label.get_position()[0] <= high and label.get_visible()
    ]
    assert labels[-1].get_text() == last
    boxes = [label.get_window_extent() for label in labels]
    assert figure.bbox.x0 <= boxes[0].x0
    assert boxes[-1].x1 <= figure.bbox.x1
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


@pytest.mark.parametrize("width", [7.6, 8.0, 9.6])
def test_small_print_ends_within_the_picture(width):
    """Of sentences as ours are, in a figure of any width that we draw."""
    note = str(sdp.protocols.krr.make(n=10_000, epsilon=1.0, delta=1e-6, k=8).guarantee)
    figure = style.new_figure(width, 3)
    lines = style.wrap_notes([note] * 3, width)
    style.foot(figure, lines)
    end = max(each.get_window_extent().x1 for each in figure.texts)
    assert 0.85 * figure.bbox.x1 < end < figure.bbox.x1
