"""Secure words against NumPy's PCG64, as one big array and in chunks of 1 MiB."""

import numpy as np
from timing import Row, best, faster, show

from shuffledp import SecureWords

BIG = 1 << 25  # words in all: 256 MiB
CHUNK = 1 << 17  # words in a chunk: 1 MiB
ROUNDS = 7
AT_LEAST = 2.0


def rows() -> list[Row]:
    pcg, secure = np.random.PCG64(1), SecureWords()
    chunks = range(BIG // CHUNK)

    def pcg_chunks(_: int) -> None:
        for _ in chunks:
            pcg.random_raw(CHUNK)

    def secure_chunks(_: int) -> None:
        for _ in chunks:
            secure.words(CHUNK)

    big = best({"pcg": lambda _: pcg.random_raw(BIG), "ours": lambda _: secure.words(BIG)}, ROUNDS)
    chunked = best({"pcg": pcg_chunks, "ours": secure_chunks}, ROUNDS)
    return [
        _row("256 MiB of words, one array", big),
        _row("256 MiB of words, chunks of 1 MiB", chunked),
    ]


def _row(what: str, took: dict[str, float]) -> Row:
    speed = {name: 8 * BIG / 1e9 / time for name, time in took.items()}
    row = faster(
        what, baseline=took["pcg"], ours=took["ours"], at_least=AT_LEAST, named="PCG64 random_raw"
    )
    return Row(
        what=row.what,
        baseline=f"{row.baseline}, {speed['pcg']:.2f} GB/s",
        ours=f"{row.ours}, {speed['ours']:.2f} GB/s",
        ratio=row.ratio,
        wanted=row.wanted,
        met=row.met,
    )


if __name__ == "__main__":
    show(rows(), "Secure words")
