"""The pictures and the table of theory/amplification.md: `python docs/figures/amplification.py`.

Writes docs/theory/img/*.svg and the numbers behind them (numbers.json); a test computes the numbers
again. Needs Matplotlib.
"""

import json
from collections.abc import Callable
from pathlib import Path

import shuffledp as sdp
from shuffledp.accounting.closed_forms import CLOSED_FORMS
from shuffledp.show.style import save_svg

__all__ = ["DELTA", "HISTORY", "IMAGES", "history", "numbers"]

IMAGES = Path(__file__).resolve().parent.parent / "theory" / "img"
DELTA = 1e-6
USERS = tuple(round(10 ** (3 + step / 2)) for step in range(13))  # 10^3 ... 10^9
LOCAL = (0.25, 1.0, 2.0, 4.0)
HISTORY = ((0.25, 10_000), (1.0, 10_000), (1.0, 10**6), (4.0, 10**6))
FORMS = {form.name: form.epsilon for form in CLOSED_FORMS}
RANDOMIZERS = ("krr", "hadamard", "subset_selection", "local_hashing")

Curve = Callable[[float, int], float | None]


def evaluate_form(name: str) -> Curve:
    """A closed form; None outside its condition."""

    def epsilon(epsilon0: float, n: int) -> float | None:
        try:
            return FORMS[name](epsilon0=epsilon0, n=n, delta=DELTA)
        except sdp.UnsupportedError:
            return None

    return epsilon


def numeric(bound: str) -> Curve:
    """A numeric bound for any local randomizer."""
    return lambda epsilon0, n: (
        sdp.amplify(epsilon0=epsilon0, n=n, delta=DELTA, bound=bound, honest=1).epsilon
    )


def lower(epsilon0: float, n: int) -> float | None:
    return sdp.amplify_lower(epsilon0=epsilon0, n=n, delta=DELTA, honest=1)


BOUNDS: dict[str, Curve] = {
    "Erlingsson et al. 2019": evaluate_form("erlingsson_2019"),
    "Cheu et al. 2019 (binary only)": evaluate_form("cheu_2019"),
    "Balle et al. 2019, Hoeffding": evaluate_form("balle_2019_hoeffding"),
    "Balle et al. 2019, Bennett": evaluate_form("balle_2019_bennett"),
    "Feldman et al. 2021, formula": evaluate_form("feldman_2021"),
    "clones 2021, numeric": numeric("clones 2021"),
    "clones 2023, numeric": numeric("clones 2023"),
    "lower bound": lower,
}


def own(name: str) -> Curve:
    """The bound from the randomizer's own law, for 64 categories."""

    def epsilon(epsilon0: float, n: int) -> float:
        made = sdp.protocols.spec(name).make_local(k=64, epsilon=epsilon0).randomizer
        return sdp.amplify(randomizer=made, n=n, delta=DELTA, bound="blanket", honest=1).epsilon

    return epsilon


def numbers(users: tuple[int, ...] = USERS) -> dict[str, dict[str, list[float | None]]]:
    """Epsilon at DELTA by bound and epsilon0, one for each number of users."""
    found = {
        name: {f"{epsilon0:g}": [bound(epsilon0, n) for n in users] for epsilon0 in LOCAL}
        for name, bound in BOUNDS.items()
    }
    for name in RANDOMIZERS:
        found[name] = {"2": [own(name)(2.0, n) for n in users]}
    return found


def history() -> str:
    """The closed forms and the numeric bounds at a few parameters, as a Markdown table."""
    rows = [["bound", *(f"{e:g}, {n:,}" for e, n in HISTORY)], ["---"] * 5]
    for name, bound in BOUNDS.items():
        values = [bound(epsilon0, n) for epsilon0, n in HISTORY]
        rows.append([name, *("-" if value is None else f"{value:.4g}" for value in values)])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def draw() -> None:
    from matplotlib import rc_context

    IMAGES.mkdir(exist_ok=True)
    found = numbers()
    (IMAGES / "numbers.json").write_text(json.dumps(found, indent=1) + "\n")
    with rc_context({"svg.fonttype": "none", "font.size": 9}):
        each(found)
        together(found)
        laws(found)


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A7A7A", "#222222")


def each(found):
    """One panel for each bound: epsilon against n, a line for each epsilon0."""
    figure, panels = _panels(2, 4, 10.4, 5.4)
    for panel, name in zip(panels, BOUNDS, strict=True):
        for colour, (epsilon0, values) in zip(COLOURS, found[name].items(), strict=False):
            _line(panel, values, colour, f"epsilon0 = {epsilon0}")
        panel.set_title(name, loc="left", fontsize=9.5, fontweight="bold")
    panels[0].set_ylabel("epsilon")
    panels[4].set_ylabel("epsilon")
    handles, labels = panels[5].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    _save(figure, "each-bound.svg")


def together(found):
    """All bounds in one panel, for three epsilon0."""
    figure, panels = _panels(1, 3, 10.4, 4.6)
    for panel, epsilon0 in zip(panels, ("0.25", "1", "4"), strict=True):
        for colour, name in zip(COLOURS, BOUNDS, strict=True):
            style = "--" if name == "lower bound" else "-"
            _line(panel, found[name][epsilon0], colour, name, style=style)
        panel.axhline(float(epsilon0), color="#222222", lw=0.8, ls=":")
        panel.set_title(f"epsilon0 = {epsilon0}", loc="left", fontsize=10, fontweight="bold")
    panels[0].set_ylabel("epsilon")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    _save(figure, "all-bounds.svg")


def laws(found):
    """What the randomizer's own law gives, relative to the generic bound."""
    figure, (panel,) = _panels(1, 1, 6.4, 3.8)
    generic = found["clones 2023, numeric"]["2"]
    for colour, name in zip(COLOURS, RANDOMIZERS, strict=False):
        share = [value / base for value, base in zip(found[name]["2"], generic, strict=True)]
        _line(panel, share, colour, name)
    panel.axhline(1.0, color="#222222", lw=0.8, ls=":")
    panel.set(yscale="linear", ylim=(0, 1.05), ylabel="share of the generic epsilon")
    panel.set_title(
        "What its own law wins: epsilon0 = 2, 64 categories", loc="left", fontweight="bold"
    )
    panel.legend(frameon=False, loc="center left", bbox_to_anchor=(0.03, 0.46))
    figure.tight_layout()
    _save(figure, "own-law.svg")


def _panels(rows, columns, width, height):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), facecolor="white")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for panel in panels:
        panel.set(xscale="log", yscale="log")
        panel.minorticks_off()
        panel.grid(color="#E2E2E2", lw=0.6)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[-columns:]:
        panel.set_xlabel("n")
    return figure, panels


def _line(panel, values, colour, label, style="-"):
    shown = [float("nan") if value is None else value for value in values]
    panel.plot(USERS, shown, color=colour, lw=1.6, ls=style, label=label)


def _save(figure, name):
    save_svg(figure, IMAGES / name)


if __name__ == "__main__":
    draw()
