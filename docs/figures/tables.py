"""The generated parts of the README and of the documentation.

`make tables` writes them into their pages, between two marks:

    <!-- generated: NAME -->
    <!-- end -->

and a test compares. What is between the marks is not edited by hand.
"""

import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path

import accuracy
import amplification
import commands
import comparison
import epsilon
import names
import shuffledp as sdp
import survey
from claims import CLAIMS
from shuffledp.core.capabilities import list_capabilities
from shuffledp.core.privacy import Model
from shuffledp.lab import load
from shuffledp.mechanisms import MECHANISMS
from shuffledp.protocols import PROTOCOLS

ROOT = Path(__file__).resolve().parents[2]
_MARKED = re.compile(r"(<!-- generated: ([\w -]+?) -->\n\n)(.*?)(\n<!-- end -->)", re.DOTALL)
N, EPSILON, DELTA = 1_000_000, 1.0, 1e-8


def markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown.

    >>> print(markdown(("a", "b"), [("1", "2")]), end="")
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, *rows]
    drawn = ["| " + " | ".join(line) + " |" for line in lines]
    drawn.insert(1, "|" + "---|" * len(head))
    return "\n".join(drawn) + "\n"


def round_to_two_digits(value: float) -> str:
    """
    >>> [round_to_two_digits(value) for value in (0.00017, 1.42, 959.5, 1916.9)]
    ['0.00017', '1.4', '960', '1,900']
    """
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.10g}"


@cache
def models() -> str:
    """Root mean squared errors in the three models, for the protocols that shuffledp chooses."""
    questions = (
        ("How many?", 1, sdp.plan("count", n=N, epsilon=EPSILON, delta=DELTA)),
        (
            "What is the average of values from 0 to 120?",
            N,
            sdp.plan("mean", n=N, epsilon=EPSILON, delta=DELTA, lower=0, upper=120),
        ),
        (
            "How many in each of 1,024 groups?",
            1,
            sdp.plan("histogram", n=N, epsilon=EPSILON, delta=DELTA, k=1024),
        ),
    )
    rows = []
    for question, scale, plan in questions:
        best = {
            model: min(row.rmse for row in plan.rows if row.model is model and row.rmse is not None)
            for model in (Model.CENTRAL, Model.LOCAL)
        }
        errors = (best[Model.CENTRAL], plan.chosen.rmse, best[Model.LOCAL])
        rows.append((question, *(round_to_two_digits(error / scale) for error in errors)))
    return markdown(("question", "trust a curator", "trust a shuffler", "trust nobody"), rows)


def _name_models(spec: sdp.protocols.Spec) -> str:
    if spec.make is None:
        return "local"
    return "shuffle" if spec.make_local is None else "both"


def protocols() -> str:
    """Every registered protocol."""
    rows = [
        (
            f"`{spec.name}`",
            _capitalize(spec.title),
            "sum, mean" if spec.task in ("sum", "mean") else spec.task,
            _name_models(spec),
            spec.reference,
        )
        for spec in PROTOCOLS
    ]
    return markdown(("name", "protocol", "task", "model", "reference"), rows)


def mechanisms() -> str:
    """Every registered mechanism."""
    rows = [
        (
            f"`{spec.name}`",
            _capitalize(spec.title),
            ", ".join(spec.tasks) or "choice",
            spec.reference,
        )
        for spec in MECHANISMS
    ]
    return markdown(("name", "mechanism", "task", "reference"), rows)


def capabilities() -> str:
    """What a protocol may declare, and what happens if it does not."""
    rows = [(f"`{name}`", line.what, line.without) for name, line in list_capabilities().items()]
    return markdown(("capability", "what it offers", "without it"), rows)


def claims() -> str:
    """Every sentence about privacy, and who sees what."""
    lines = []
    for each in CLAIMS:
        said = (
            f"**{each.name}.** *Seen:* {each.sees}. *Releases:* {each.releases}. *Unit:* {each.unit}. "
            f"*Trusted:* {each.trust}."
        )
        lines += textwrap.wrap(said, 118, initial_indent="- ", subsequent_indent="  ")
    return "\n".join(lines) + "\n"


_PAGES = {
    ("count", "shuffle"): "counts",
    ("count", "both"): "counts",
    ("histogram", "shuffle"): "histograms",
    ("histogram", "both"): "frequency-oracles",
    ("mean", "shuffle"): "sums-and-means",
    ("mean", "both"): "sums-and-means",
    ("quantiles", "shuffle"): "quantiles-and-words",
    ("quantiles", "local"): "quantiles-and-words",
    ("words", "shuffle"): "quantiles-and-words",
    ("words", "both"): "quantiles-and-words",
}
"""On which page a protocol is documented, by its task and model: all of them on one would be too large for a phone."""


def _page_of(spec: sdp.protocols.Spec) -> tuple[str, str]:
    return ("mean" if spec.task == "sum" else spec.task, _name_models(spec))


def _find_module(spec: sdp.protocols.Spec) -> str:
    maker = spec.make_local or spec.make
    assert maker is not None
    return maker.__module__


def protocol_modules(page: str) -> str:
    """A heading and the documentation of each module of a page, for mkdocstrings."""
    here = (spec for spec in PROTOCOLS if _PAGES[_page_of(spec)] == page)
    return _modules((spec.title, _find_module(spec)) for spec in here)


def mechanism_modules() -> str:
    return _modules((spec.title, spec.make.__module__) for spec in MECHANISMS)


def _modules(listed: Iterable[tuple[str, str]]) -> str:
    titles: dict[str, list[str]] = {}
    for title, module in listed:
        titles.setdefault(module, []).append(title)
    return "\n".join(
        f"## {_capitalize(' and '.join(listed))}\n\n::: {module}\n"
        for module, listed in titles.items()
    )


def _capitalize(title: str) -> str:
    return title[:1].upper() + title[1:]


def errata() -> str:
    """The slips in the notes, from what the checks of experiments/errata state and find."""
    listed: str = load("errata").run.__globals__["page"]()
    return listed


def layers() -> str:
    """The rooms of the house, from the top, as import-linter has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    contracts = settings["importlinter"]["contracts"]
    stack = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    rooms = (re.findall(r"shuffledp\.(\w+)", layer) for layer in stack)
    return "".join(f"1. {', '.join(f'`{room}`' for room in line)}\n" for line in rooms)


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "CONTRIBUTING.md": {"layers": layers},
    "README.md": {"models": models},
    "docs/index.md": {"models": models},
    "docs/guides/comparison.md": {"comparison": comparison.table},
    "docs/guides/which-epsilon.md": {"epsilons": epsilon.table},
    "docs/howto/add-a-protocol.md": {"capabilities": capabilities},
    "docs/reference/protocols.md": {"protocols": protocols},
    **{
        f"docs/reference/protocols/{page}.md": {"modules": partial(protocol_modules, page)}
        for page in dict.fromkeys(_PAGES.values())
    },
    "docs/reference/claims.md": {"claims": claims},
    "docs/reference/cli.md": {
        f"options of {name}": partial(commands.list_options, name)
        for name, command in commands.commands().items()
        if command.params
    },
    "docs/reference/index.md": {"names": names.list_names},
    "docs/reference/mechanisms.md": {"mechanisms": mechanisms, "modules": mechanism_modules},
    "docs/theory/amplification.md": {"history": amplification.history},
    "docs/theory/errata.md": {"errata": errata},
    "docs/theory/shuffle-protocols.md": {"accuracy": accuracy.table},
    "docs/theory/survey.md": {"survey": survey.table},
}


def find_marked(text: str) -> dict[str, str]:
    """What stands between the marks of a page now, by name."""
    return {found[2]: found[3] for found in _MARKED.finditer(text)}


def fill(text: str, tables: dict[str, Callable[[], str]]) -> str:
    """The page with its generated parts written anew."""

    def write(found: re.Match[str]) -> str:
        return found[1] + tables[found[2]]().rstrip("\n") + "\n" + found[4]

    missing = tables.keys() - find_marked(text).keys()
    if missing:
        raise ValueError(f"the page has no mark for {', '.join(sorted(missing))}")
    return _MARKED.sub(write, text)


def main() -> None:
    for page, tables in TABLES.items():
        path = ROOT / page
        before = path.read_text(encoding="utf-8")
        after = fill(before, tables)
        if after != before:
            path.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{page}: written\n")


if __name__ == "__main__":
    main()
