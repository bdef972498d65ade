"""Row by row: columns that cannot be grouped, where everybody's device is run on its own words."""

from dataclasses import replace

import numpy as np
import pytest

import shuffledp as sdp
from file_support import COUNTRIES, write
from shuffledp.engine import DuckDB, chunks, columns, local

KRR = sdp.protocols.krr.make_local(k=4, epsilon=1.0)
SURE = sdp.protocols.krr.make_local(k=4, epsilon=40.0)
ENGINES = ("memory", DuckDB(threads=3))
N = 3000
CODES = np.random.default_rng(8).integers(4, size=N)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """No domain is grouped, and a few hundred rows are a chunk."""
    monkeypatch.setattr(local, "MOST_CODES", 1)
    monkeypatch.setattr(columns, "_ROWS", 400)


def run(values, tmp_path, protocol=KRR, **options):
    path = tmp_path / "a.parquet"
    if not path.exists():
        write({"x": values}, path)
    return sdp.run_file(protocol, sdp.open_column(path), **options)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_row_has_its_own_words(tmp_path, engine):
    source, other = sdp.SeededWords(5), sdp.SeededWords(5)
    found = run(CODES, tmp_path, engine=engine, rng=source)
    expected = local.tally_each(KRR, CODES, other)
    assert found.tally.counts.tolist() == expected.counts.tolist()
    assert not found.dealt
    assert source.words(1) == other.words(1)  # and the source is where one reader would leave it


@pytest.mark.parametrize("engine", ENGINES)
def test_those_left_out_move_nobody(tmp_path, engine):
    left_out = np.arange(N) % 7 == 3
    names = [
        None if out else COUNTRIES.names[code] for code, out in zip(CODES, left_out, strict=True)
    ]
    found = run(
        names, tmp_path, domain=COUNTRIES, on_invalid="drop", engine=engine, rng=sdp.SeededWords(5)
    )
    words = sdp.SeededWords(5).words(N).reshape(N, 1)
    sent = KRR.randomizer.encode(CODES[~left_out], words[~left_out])
    expected = KRR.analyzer.tally(sdp.core.randomizer.forget(sent))
    assert found.tally.counts.tolist() == expected.counts.tolist()
    assert (found.n, found.rows) == (N - left_out.sum(), N)
    assert found.tally.users == found.n


@pytest.mark.parametrize("engine", ENGINES)
def test_secure_words_are_never_the_same(tmp_path, engine):
    found = {tuple(run(CODES, tmp_path, engine=engine).tally.counts) for _ in range(4)}
    assert len(found) > 1


def test_secure_workers_share_no_words(tmp_path):
    """Nearly uniform messages: 20 of 3,000 agree with probability below 1e-40."""
    uniform = sdp.protocols.krr.make_local(k=2**16, epsilon=1e-3)
    found = run(CODES * 0, tmp_path, uniform, engine=DuckDB(threads=3))
    assert found.tally.counts.max() < 20


@pytest.mark.parametrize("engine", ENGINES)
def test_chunks_come_in_order(tmp_path, engine):
    """The first bad value is the one that is named, and codes that are kept stay with their rows."""
    bad = CODES.copy()
    bad[[850, 2900]] = 9, 8
    with pytest.raises(sdp.DataError, match=r"value 9 in row 851 of"):
        run(bad, tmp_path, engine=engine)
    column = sdp.engine.take_column(CODES)
    coder = sdp.engine.codes.Coder(domain=KRR.randomizer.domain, on_invalid="error")
    kept = chunks.count_users(chunks.Job(column=column, coder=coder), threads=3)
    assert np.concatenate([some.codes for some in kept.job.read]).tolist() == CODES.tolist()
    assert kept.n == N


def test_those_left_out_are_not_counted():
    names = [*COUNTRIES.names, None, "nowhere", None]
    coder = sdp.engine.codes.Coder(domain=COUNTRIES, on_invalid="drop")
    column = sdp.engine.take_column(names)
    found = chunks.count_users(chunks.Job(column=column, coder=coder), threads=2)
    assert (found.n, found.rows) == (4, 7)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_row_is_rounded_by_its_own_word(engine):
    shares, grid = np.random.default_rng(3).random(N), sdp.Reals(lower=0.0, upper=1.0, steps=5)
    coder = sdp.engine.codes.Coder(domain=grid, on_invalid="error")
    job = chunks.Job(column=sdp.engine.take_column(shares), coder=coder)
    source, other = sdp.SeededWords(3), sdp.SeededWords(3)
    found = sdp.engine.find_engine(engine).counts(job, sdp.engine.Rounding(rng=source, bits=64))
    codes = sdp.core.domain.round_places(
        grid, grid.places(shares), other.words(N).reshape(N, 1), 64
    )
    assert found.counts.tolist() == np.bincount(codes, minlength=6).tolist()
    assert source.words(1) == other.words(1)


def test_a_bad_value_is_named_by_its_position():
    values = np.zeros(300_000, dtype=np.int64)
    values[200_001] = 9
    with pytest.raises(sdp.DataError, match="value 9 at position 200001 is outside"):
        local.tally_each(KRR, values, sdp.SeededWords(1))


def test_counted_people_have_their_codes(monkeypatch):
    """Where a protocol cannot be dealt, counts[x] devices are run on each x: the next code starts at its first."""
    undealt = replace(SURE, offers=replace(SURE.offers, deal=None))
    monkeypatch.setattr(local, "_PEOPLE", 100)
    counts = np.array([120, 0, 1, 79])
    for threads in (1, 2):
        found = local.tally_counts(undealt, counts, sdp.SeededWords(2), threads)
        assert found.counts.tolist() == counts.tolist()


@pytest.mark.parametrize("counts", [[1, -1, 2, 3], [0, 0, 0, 0], [1.0, 2.0, 3.0, 4.0]])
def test_counts_are_natural_numbers(counts):
    with pytest.raises(sdp.DataError, match="counts must be integers >= 0"):
        sdp.run_counts(KRR, counts)
