"""Words without a list: what is found among a million people, how well it is counted, and how long decoding takes.

Run as `python benchmarks/heavy_hitters.py [12 | 2.1 | small | one | local] [first seed] [runs]`, which prints a line of
JSON for each run; `run.py` takes one run of each budget. Each run draws its own words, counts, public functions and
noise; the people are dealt from grouped words, exactly as a file would be. `one` and `local` are `local_prefixes` with
one message, behind a shuffler and alone; for the latter five more words are planted near its threshold.
"""

import json
import resource
import sys
import time
from typing import Any

import numpy as np
from timing import Row, quantity

import shuffledp as sdp
from shuffledp.core.analyzer import Tally
from shuffledp.engine.local import tally_each

WORDS, EXPONENT, BITS = 200_000, 1.05, 64
QUESTIONS: dict[str, dict[str, Any]] = {
    "12": {"n": 10**6, "epsilon": 1.0, "delta": 1e-8, "max_messages": 12.0, "from": 200},
    "2.1": {"n": 10**6, "epsilon": 1.0, "delta": 1e-8, "max_messages": 2.1, "from": 270},
    "small": {"n": 10**4, "epsilon": 2.0, "delta": 1e-8, "max_messages": 12.0, "from": 100},
    "one": {"n": 10**6, "epsilon": 1.0, "delta": 1e-8, "from": 900},
    "local": {"n": 10**6, "epsilon": 1.0, "from": 27_500},
}
PLANTED = 5

WANTED = {"12": 22.0, "2.1": 60.0}
"""How far counts may be off (RMSE)."""
SECONDS, MEGABYTES = 20.0, 1500.0


def rows() -> list[Row]:
    return [row for question in WANTED for row in _judge(measure(question, seed=1))]


def _judge(run: dict[str, Any]) -> list[Row]:
    least = QUESTIONS[run["question"]]["from"]
    sent = f"{run['messages']:.1f} messages"
    what = f"words, n=1e6, Zipf 1.05, {sent}"
    wrong, wanted = run["missed"] + run["false"], f"{run['of']} words of {least} people or more"
    return [
        quantity(
            f"{what}: words missed, and false ones",
            baseline=wanted,
            ours=wrong,
            unit="words",
            at_most=0,
        ),
        quantity(
            f"{what}: RMSE of a count",
            baseline=f"{run['found']} found",
            ours=run["rmse"],
            unit="people",
            at_most=WANTED[run["question"]],
        ),
        quantity(
            f"{what}: decoding, CPU time",
            baseline="-",
            ours=run["cpu_seconds"],
            unit="s",
            at_most=SECONDS,
        ),
        quantity(
            f"{what}: memory", baseline="-", ours=run["peak_MB"], unit="MB", at_most=MEGABYTES
        ),
    ]


def draw_people(n: int, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Random words of 64 bits and how many people have each: Zipf's law."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, WORDS + 1) ** -EXPONENT
    counts = rng.multinomial(n, weights / weights.sum())
    words = rng.integers(0, 2**BITS, WORDS, dtype=np.uint64)
    return words[counts > 0], counts[counts > 0]


def tally_words(
    made: sdp.ShuffleProtocol, words: Any, counts: Any, source: sdp.SeededWords
) -> Tally:
    """Dealt from grouped words; or, where that cannot be, from everybody's messages."""
    device, n = made.offers.stream, int(counts.sum())
    if device is None:
        return tally_each(made, np.repeat(words, counts), source)
    cells = device.deal_words(words, counts, source) + device.deal_noise(n, source)
    return Tally(counts=cells, users=n)


def measure(question: str, seed: int) -> dict[str, Any]:
    """One run."""
    asked = dict(QUESTIONS[question])
    least, n = asked.pop("from"), asked["n"]
    words, counts = draw_people(n, seed)
    if (
        question == "local"
    ):  # n does not matter to it, and among Zipf's words few are near its threshold
        counts[100 : 100 + PLANTED] = least
        made = sdp.make("local_prefixes", bits=BITS, seed=seed, epsilon=asked["epsilon"])
    else:
        name = "local_prefixes" if question == "one" else "hashed_prefixes"
        made = sdp.make(name, bits=BITS, honest=1.0, seed=seed, **asked)
    tally = tally_words(made, words, counts, sdp.SeededWords(seed))
    start, cpu = time.perf_counter(), time.process_time()
    estimate = made.analyzer.estimate(tally)
    took, cpu = time.perf_counter() - start, time.process_time() - cpu
    truth = {str(word): int(count) for word, count in zip(words, counts, strict=True)}
    exact = np.array([truth.get(word, 0) for word in estimate.labels])
    found = set(estimate.labels)
    errors = (estimate.value - exact)[exact > 0]
    return {
        "question": question,
        "seed": seed,
        "messages": round(made.cost.messages_mean, 3),
        "found": len(found),
        "false": int((exact == 0).sum()),
        "missed": sum(count >= least and word not in found for word, count in truth.items()),
        "of": sum(count >= least for count in truth.values()),
        "rmse": round(float(np.sqrt(np.mean(errors**2))), 2),
        "bias": round(float(np.mean(errors)), 2),
        "within_2_stderr": round(
            float(np.mean(np.abs(errors) < 2 * estimate.stderr[exact > 0])), 3
        ),
        "found_95": estimate.error.sight.find_count(0.95),
        "seconds": round(took, 1),
        "cpu_seconds": round(cpu, 1),
        "peak_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    which, first, runs = (*sys.argv[1:], *("12", "1", "3")[len(sys.argv) - 1 :])[:3]
    for seed in range(int(first), int(first) + int(runs)):
        sys.stdout.write(json.dumps(measure(which, seed)) + "\n")
        sys.stdout.flush()
