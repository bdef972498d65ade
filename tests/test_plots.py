"""Pictures: drawn at all sizes, refused clearly, and showing the numbers that they are given."""

import re
import sys

import numpy as np
import pytest

import shuffledp as sdp
from shuffledp.core.display import Number, Picture
from shuffledp.core.estimate import Estimate, NormalError
from shuffledp.plots import estimates, style

LABELS = ("cat", "dog", "owl")


def estimate_of(*values, stderr=30.0):
    value = np.array(values, dtype=np.float64)
    return Estimate(
        value=value, error=NormalError(stderr=np.full(len(value), stderr)), limits=(0, 10)
    )


def svg(tmp_path, truth, estimates, labels=LABELS):
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none"}):  # text stays text
        path = sdp.plots.compare_histograms(
            truth, estimates, tmp_path / "a" / "plot.svg", labels=labels, title="T", subtitle="S"
        )
    return path.read_text()


def test_shows_labels_numbers_and_intervals(tmp_path):
    drawn = svg(tmp_path, [5000, 400, 3], {"local": estimate_of(5100, 300, -20)})
    for text in ("cat", "dog", "owl", "the truth", "local", "5,000", "5,100 ± 59", "−20 ± 59"):
        assert f">{text}<" in drawn, text


def test_a_panel_per_estimate(tmp_path):
    estimates = {f"panel {i}": estimate_of(1, 2, 3) for i in range(5)}
    drawn = svg(tmp_path, [1, 2, 3], estimates)
    assert all(f">{name}<" in drawn for name in estimates)


@pytest.mark.parametrize("bins", [1, 40])
def test_few_and_many_bins(tmp_path, bins):
    labels = tuple(f"bin {i}" for i in range(bins))
    values = np.arange(bins, dtype=float)
    path = sdp.plots.compare_histograms(
        values, {"x": estimate_of(*values)}, tmp_path / "p.png", labels=labels, title="T"
    )
    assert path.stat().st_size > 1000


def test_all_zero(tmp_path):
    assert ">cat<" in svg(tmp_path, [0, 0, 0], {"x": estimate_of(0, 0, 0, stderr=0)})


@pytest.mark.parametrize("truth", [[], list(range(41)), [[1, 2], [3, 4]], 7])
def test_unreadable_pictures_are_refused(tmp_path, truth):
    with pytest.raises(sdp.UnsupportedError, match="bins"):
        sdp.plots.compare_histograms(truth, {}, tmp_path / "p.png", labels=(), title="T")


@pytest.mark.parametrize(("values", "labels"), [((1, 2), LABELS), ((1, 2, 3), LABELS[:2])])
def test_sizes_must_agree(tmp_path, values, labels):
    with pytest.raises(sdp.MismatchError, match="panel"):
        sdp.plots.compare_histograms(
            [1, 2, 3], {"panel": estimate_of(*values)}, tmp_path / "p.png", labels=labels, title="T"
        )


def test_missing_matplotlib_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(sdp.UnsupportedError, match=r"pip install 'shuffledp\[plot\]'"):
        sdp.plots.compare_histograms([1], {}, tmp_path / "p.png", labels=("a",), title="T")


def test_a_format_that_nobody_draws_is_one_sentence(tmp_path):
    line = [(10, 3.0, "rr"), (1000, 30.0, "rr")]
    words = {"title": "A plan", "subtitle": "", "ylabel": "RMSE", "chosen": (100, 10.0, "rr")}
    with pytest.raises(sdp.UnsupportedError, match=r"plan.doc: a picture ends in one of .pdf"):
        sdp.plots.error_curves({"local": line}, tmp_path / "plan.doc", **words)
    assert not list(tmp_path.iterdir())


class TestPrivacyCurves:
    def svg(self, tmp_path, curves, **options):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}):
            path = sdp.plots.privacy_curves(
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
        for text in ("clones 2023", "blanket", "200 honest users, epsilon0 = 1"):
            assert f">{text}<" in drawn, text
        assert re.search(
            r">Shuffling makes epsilon = [0-9.]+ of epsilon0 = 1 \(delta = 1e-6\)<", drawn
        )

    def test_points_and_dashes_for_many_bounds(self, tmp_path):
        points = {f"formula {place}": [(0.1, 1e-3), (0.2 + place, 1e-9)] for place in range(9)}
        drawn = self.svg(
            tmp_path, {**points, "curve": lambda e: 1e-6 / e}, smallest=0.01, dashed={"formula 3"},
            notes=["by a proof"], mark=(0.1, 1e-3),
        )  # fmt: skip
        for text in (*points, "curve", "by a proof"):
            assert f">{text}<" in drawn, text

    def test_missing_matplotlib_says_what_to_install(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        with pytest.raises(sdp.UnsupportedError, match=r"pip install 'shuffledp\[plot\]'"):
            sdp.profile(epsilon0=1.0, n=200, honest=1).plot(tmp_path / "p.png")


def test_error_curves_name_models_protocols_and_the_choice(tmp_path):
    import matplotlib as mpl

    lines = {
        "central": [(10, 1.4, "geometric"), (1000, 1.4, "geometric")],
        "shuffle": [*((n, 9.0, "rr") for n in range(10, 90, 10)), (1000, 1.5, "correlated_count")],
        "local": [(10, 9.0, "rr"), (1000, 90.0, "rr")],
    }
    with mpl.rc_context({"svg.fonttype": "none"}):
        path = sdp.plots.error_curves(
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
        path = sdp.plots.error_curves(
            {"local": [(10, 9.0, "rr"), (1000, 90.0, "rr")]}, tmp_path / "plan.svg", title="T",
            subtitle="S", ylabel="RMSE", chosen=(1000, 3.0, "protocol_2"), rows=rows,
        )  # fmt: skip
    drawn = path.read_text()
    assert all(f">protocol_{place}<" in drawn for place in range(30))
    assert ">every protocol, 1,000 users<" in drawn


def test_error_curves_say_what_a_live_report_costs(tmp_path):
    line = [(100, 4.0, "rr"), (1000, 9.0, "rr")]
    rows = [("local", "rr", 4.0), ("central", "geometric", 1.0)]
    path = sdp.plots.error_curves(
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
        sdp.plots.error_curves(
            {"local": []},
            tmp_path / "plan.svg",
            title="T",
            subtitle="S",
            ylabel="RMSE",
            chosen=(1, 1.0, "rr"),
        )


class TestCompareErrors:
    def test_shows_by_how_much_each_estimate_is_off(self, tmp_path):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}):
            path = sdp.plots.compare_errors(
                [5000, 400, 3], {"local": estimate_of(5100, 300, 3)}, tmp_path / "e.svg",
                labels=LABELS, title="T",
            )  # fmt: skip
        drawn = path.read_text()
        for text in ("cat", "the truth", "local", "+100 ± 59", "−100 ± 59", "0 ± 59"):
            assert f">{text}<" in drawn, text

    def test_all_right(self, tmp_path):
        exact = {"x": estimate_of(0, 0, 0, stderr=0)}
        path = sdp.plots.compare_errors(
            [0, 0, 0], exact, tmp_path / "e.png", labels=LABELS, title="T"
        )
        assert path.stat().st_size > 1000

    def test_sizes_must_agree(self, tmp_path):
        with pytest.raises(sdp.MismatchError, match="x"):
            sdp.plots.compare_errors(
                [1, 2, 3], {"x": estimate_of(1)}, tmp_path / "e.png", labels=LABELS, title="T"
            )


class TestPlotEstimate:
    def draw(self, tmp_path, estimate, suffix, **options):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": "none"}):
            return sdp.plots.plot_estimate(
                estimate, tmp_path / f"r.{suffix}", title="T & <T>", notes=["a $note$"], **options
            )

    def labelled(self, *labels):
        values = np.arange(len(labels), dtype=float) * 100 - 50
        return Estimate(value=values, error=NormalError(stderr=30.0), limits=(0, 9), labels=labels)

    def test_svg_has_labels_numbers_and_notes(self, tmp_path):
        drawn = self.draw(tmp_path, self.labelled("größe", "$x$"), "svg").read_text()
        for text in ("größe", "$x$", "-50", "50", "a $note$"):
            assert f">{text}<" in drawn, text

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
        assert page.count("<tr>") == 41
        assert "The 40 largest of 5,000" in page

    def test_the_largest_are_sorted(self, tmp_path):
        values = np.random.default_rng(1).permutation(100).astype(float)
        mixed = Estimate(value=values, error=NormalError(stderr=0.1), limits=(0, 99))
        page = self.draw(tmp_path, mixed, "html").read_text()
        shown = re.findall(r"<tr><th>(\d+)</th>", page)
        assert [values[int(place)] for place in shown] == list(range(99, 59, -1))

    @pytest.mark.parametrize("model", ["central", "shuffle", "local"])
    def test_bars_have_the_colour_of_the_model(self, tmp_path, model):
        page = self.draw(tmp_path, self.labelled("a", "b"), "html", model=model).read_text()
        colour = sdp.plots.MODEL_COLOURS[model]
        assert f'fill="{colour}" fill-opacity="0.45"/>' in page  # a is negative
        assert f'fill="{colour}"/>' in page

    def test_few_bins_keep_their_order(self, tmp_path):
        page = self.draw(tmp_path, self.labelled("a", "b", "c"), "html").read_text()
        assert re.findall(r"<tr><th>(\w+)</th>", page) == ["a", "b", "c"]

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
        self.draw(tmp_path, self.labelled("東京", "x"), "png")
        assert any("No installed font" in line for line in seen)
        seen.clear()
        self.draw(tmp_path, self.labelled("kyoto", "x"), "png")
        assert not any("No installed font" in line for line in seen)

    def test_an_svg_leaves_such_letters_to_the_viewer(self, tmp_path, monkeypatch):
        monkeypatch.setattr(style, "_find_missing", lambda text, _: set(text) & {"東"})
        path = sdp.plots.plot_estimate(self.labelled("東京", "x"), tmp_path / "a.svg", title="T")
        assert ">東京<" in path.read_text()

    def test_other_suffixes_are_refused(self, tmp_path):
        with pytest.raises(sdp.UnsupportedError, match="ends in one of"):
            self.draw(tmp_path, self.labelled("a", "b"), "doc")


def test_a_font_that_has_the_letters_is_chosen(monkeypatch):
    from matplotlib.font_manager import fontManager

    has = {str(font.fname): font.name == "STIXGeneral" for font in fontManager.ttflist}
    monkeypatch.setattr(
        style, "_find_missing", lambda text, path: set() if has[str(path)] else set(text) & {"東"}
    )
    assert style.choose_fonts("東x") == (["DejaVu Sans", "STIXGeneral"], True)
    assert style.choose_fonts("x") == (["DejaVu Sans"], True)


def test_a_placeholder_font_is_no_font_with_letters():
    fonts, _ = style.choose_fonts("\U000e0fff" + "\N{TAMIL LETTER A}")
    assert not any(name.startswith("Last Resort") for name in fonts)


@pytest.mark.parametrize(("gap", "clear"), [(5.4, False), (5.6, True)])
def test_the_largest_is_named_only_if_it_stands_out(gap, clear):
    rows = (Number("a", 100.0, 3.0, 94, 106), Number("b", 100 + gap * 5, 4.0, 92, 108))
    finding = sdp.plots.state_finding(Picture(rows=rows, level=0.95))
    assert ("b is the largest of 2" in finding) == clear
    assert ("too close" in finding) != clear


def test_unknown_errors_name_no_largest():
    rows = tuple(
        Number(name, value, float("nan"), 0, 9) for name, value in (("a", 1.0), ("b", 99.0))
    )
    assert "too close" in sdp.plots.state_finding(Picture(rows=rows, level=0.95))
