"""What `shuffledp run` costs against the size of the question: rows, categories, questions; a chart, and its numbers.

    python benchmarks/scale.py docs/img/cost-by-size.svg docs/img/cost-by-size.json
    python benchmarks/scale.py docs/img/cost-by-size.svg docs/img/cost-by-size.json --draw      # without measuring
    python benchmarks/scale.py docs/img/cost-by-size.svg docs/img/cost-by-size.json --long      # up to 10^8 rows

CPU seconds and peak memory of whole commands, starting Python included, on files of Parquet: the better of two. A
histogram of 16 categories of 10^5 to 10^7 rows; one of 10 to 10^6 categories and a survey of 1 to 50 histograms,
each of 10^6 rows.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engines import PRIVATE, Spent, command, write

from shuffledp.show.style import COLOURS, FAINT, INK, new_figure, save_svg

ROWS, LONG = (10**5, 10**6, 10**7), (10**8,)
CATEGORIES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
QUESTIONS = (1, 2, 5, 10, 20, 50)
MIDDLE, K, ROUNDS = 10**6, 16, 2
Measured = dict[str, list[tuple[int, float, float]]]
"""By what grows: its size, CPU seconds, and megabytes."""


def measure(sizes: tuple[int, ...]) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        return {
            "rows": [*_grow_rows(place, sizes)],
            "categories": [*_grow_categories(place)],
            "questions": [*_grow_questions(place)],
        }


def _grow_rows(folder: Path, sizes: tuple[int, ...]) -> Iterator[tuple[int, float, float]]:
    for n in sizes:
        path = folder / "rows.parquet"
        write(path, n, f"(hash(range) % {K})::smallint")
        yield n, *_run("histogram", str(path), *PRIVATE, "--lower", "0", "--upper", str(K - 1))


def _grow_categories(folder: Path) -> Iterator[tuple[int, float, float]]:
    for k in CATEGORIES:
        path = folder / "categories.parquet"
        write(path, MIDDLE, f"(hash(range) % {k})::integer")
        yield k, *_run("histogram", str(path), *PRIVATE, "--lower", "0", "--upper", str(k - 1))


def _grow_questions(folder: Path) -> Iterator[tuple[int, float, float]]:
    path = folder / "questions.parquet"
    columns = ", ".join(
        f"(hash(range + {i}) % {K})::smallint as q{i}" for i in range(max(QUESTIONS))
    )
    write(path, MIDDLE, f"0::smallint as none, {columns}, 0::smallint")
    for count in QUESTIONS:
        survey = folder / "survey.toml"
        asked = "".join(
            f'[questions.q{i}]\ntask = "histogram"\nlower = 0\nupper = {K - 1}\n'
            for i in range(count)
        )
        survey.write_text(f"epsilon = 1.0\ndelta = 1e-9\n{asked}")
        yield count, *_run(str(survey), str(path), "--json")


def _run(*words: str) -> tuple[float, float]:
    spent: list[Spent] = [command(*words) for _ in range(ROUNDS)]
    return min(each.cpu for each in spent), min(each.megabytes for each in spent)


TITLES = {
    "rows": f"rows, {K} categories",
    "categories": "categories, $10^6$ rows",
    "questions": "histograms in a survey, $10^6$ rows",
}


def draw(found: Measured, path: Path) -> None:
    """Seconds above, memory below; a column for each thing that grows. Dotted: what is proportional to it."""
    figure = new_figure(11.0, 5.6)
    panels = figure.subplots(2, len(found), sharex="col", sharey="row")
    figure.subplots_adjust(left=0.07, right=0.98, top=0.86, bottom=0.1, hspace=0.12, wspace=0.1)
    for place, (name, points) in enumerate(found.items()):
        sizes = [each[0] for each in points]
        for axes, values in zip(panels[:, place], list(zip(*points, strict=True))[1:], strict=True):
            axes.plot(sizes, values, color=COLOURS[place], lw=1.8, marker="o", ms=4)
            axes.plot(
                sizes, [values[-1] * size / sizes[-1] for size in sizes], color=INK, lw=0.9, ls=":"
            )
            axes.set(xscale="log")
            axes.grid(color=FAINT, lw=0.7)
            axes.spines[["top", "right"]].set_visible(False)
        panels[0, place].set(yscale="log", ylim=(0.1, 30))
        panels[1, place].set(yscale="log", ylim=(50, 5000))
        for axes in panels[:, place]:
            axes.yaxis.set_major_formatter("{x:,g}")
        panels[1, place].set_xlabel(TITLES[name], color=INK)
    panels[1, -1].set_xticks(QUESTIONS, map(str, QUESTIONS))
    panels[1, -1].minorticks_off()
    panels[0, 0].set_ylabel("CPU seconds", color=INK)
    panels[1, 0].set_ylabel("megabytes", color=INK)
    figure.text(
        0.012, 0.93, "What a command costs against the size of its question",
        fontsize=14, fontweight="bold", color=INK,
    )  # fmt: skip
    figure.text(0.98, 0.93, "dotted: proportional", ha="right", color=INK)
    save_svg(figure, path)


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    chart, numbers = map(Path, words)
    if "--draw" not in sys.argv:
        found = measure(ROWS + (LONG if "--long" in sys.argv else ()))
        rows = ",\n".join(
            f" {json.dumps(name)}: "
            + json.dumps([(size, round(cpu, 3), round(used)) for size, cpu, used in points])
            for name, points in found.items()
        )
        numbers.write_text(f"{{\n{rows}\n}}\n")
    draw(json.loads(numbers.read_text()), chart)


if __name__ == "__main__":
    main()
