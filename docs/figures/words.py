"""Words of real text without a list of words: the docstrings of the installed SciPy, one word per person.

    python docs/figures/words.py

writes docs/howto/img/words.svg and says what was found. Nothing of the text is kept here; another version of SciPy has
other words.
"""

import re
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import scipy

import shuffledp as sdp
from shuffledp.show.style import save_svg

PICTURE = Path(__file__).resolve().parents[1] / "howto" / "img" / "words.svg"
EPSILON, DELTA, SEED = 1.0, 1e-8, 7


def read_words() -> list[str]:
    """Every word of three to twelve letters in SciPy's docstrings."""
    found: list[str] = []
    for path in sorted(Path(scipy.__file__).parent.rglob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        for written in re.findall(r'"""(.*?)"""', text, re.DOTALL):
            found += re.findall(r"\b[a-z]{3,12}\b", written.lower())
    return found


def draw(exact: Counter[str], answer: sdp.Answer, path: Path) -> None:
    """True against estimated counts; missed words below, and the threshold as a line."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "shuffledp"
    import matplotlib.pyplot as plt

    estimate = answer.estimate
    labels = estimate.labels or ()
    value = np.asarray(estimate.value)
    truth = np.array([exact[word] for word in labels])
    threshold = answer.to_dict()["found"]["threshold"]
    missed = sorted({times for word, times in exact.items() if word not in labels and times >= 20})
    figure, axes = plt.subplots(figsize=(7, 4.6), layout="constrained")
    axes.plot([20, 1e5], [20, 1e5], color="0.75", linewidth=1)
    axes.axhline(threshold, color="#b3432b", linewidth=1, linestyle="--")
    axes.text(2e4, threshold * 1.08, f"threshold {threshold:.0f}", color="#b3432b")
    axes.scatter(truth, value, s=9, color="#1f5f8b", label=f"found: {len(labels)} words")
    axes.scatter(missed, [24.0] * len(missed), s=9, marker="|", color="0.45", label="not found")
    for word in labels[:1] + labels[2:3]:
        place = labels.index(word)
        axes.annotate(word, (truth[place], value[place]), xytext=(-8, 4), ha="right",
                      textcoords="offset points")  # fmt: skip
    axes.set(xscale="log", yscale="log", xlim=(20, 1e5), ylim=(20, 1e5))
    axes.set(xlabel="people who have the word", ylabel="estimated")
    axes.legend(loc="upper left", frameon=False)
    axes.set_title(
        f"Words of {answer.n:,} people, {answer.guarantee.model.value} model, epsilon = 1"
    )
    save_svg(figure, path)


def main() -> None:
    words = read_words()
    answer = sdp.ask(
        words,
        "words",
        alphabet="letters",
        max_length=12,
        epsilon=EPSILON,
        delta=DELTA,
        rng=sdp.SeededWords(SEED),
    )
    exact = Counter(words)
    draw(exact, answer, PICTURE)
    found = set(answer.estimate.labels or ())
    often = [word for word, times in exact.items() if times >= 200]
    errors = [
        value - exact[word]
        for word, value in zip(answer.estimate.labels or (), answer.estimate.value, strict=True)
    ]
    sys.stdout.write(
        f"SciPy {scipy.__version__}: {len(words):,} people, {len(exact):,} words. Found {len(found)}, of them "
        f"{sum(word not in exact for word in found)} that nobody has; of {len(often)} words of 200 people or "
        f"more {sum(word in found for word in often)}; RMSE {np.sqrt(np.mean(np.square(errors))):.1f}.\n"
    )


if __name__ == "__main__":
    main()
