"""A distribution function with its band: the sample of commuters, with the seed that it is drawn with.

    python docs/figures/distribution.py

writes docs/howto/img/cdf.svg.
"""

import sys
from pathlib import Path

import shuffledp as sdp

PICTURE = Path(__file__).resolve().parents[1] / "howto" / "img" / "cdf.svg"
PEOPLE, SEED = 20_000, 7


def main() -> None:
    people = sdp.samples.survey(PEOPLE)
    answer = sdp.ask(
        {"minutes": people.minutes}, "cdf", column="minutes", lower=0, upper=240,
        at=range(5, 241, 5), epsilon=1.0, delta=1e-8, rng=sdp.SeededWords(SEED),
    )  # fmt: skip
    sys.stdout.write(f"{answer.plot(PICTURE)}\n")


if __name__ == "__main__":
    main()
