"""Small files of every format with the same people in them."""

import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

import shuffledp as sdp

NAMES = ("ch", "de", "日本", "other")
COUNTRIES = sdp.Categories(k=4, names=NAMES)
N = 5_003


def people(n=N, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "country": [NAMES[i] for i in rng.integers(4, size=n)],
        "age": rng.integers(0, 121, size=n).tolist(),
        "share": rng.uniform(size=n).round(6).tolist(),
        "churned": rng.integers(2, size=n).astype(bool).tolist(),
    }


def write(table, path):
    """A table (a dictionary of lists) as the file that the suffix says."""
    text = str(path).removesuffix(".gz")
    if text.endswith(".parquet"):
        pq.write_table(pa.table(table), path, row_group_size=700)
        return path
    if text.endswith((".arrow", ".feather", ".ipc")):
        feather.write_feather(pa.table(table), path, chunksize=900)
        return path
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    if text.endswith(("jsonl", "ndjson")):
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    else:
        mark = "\t" if text.endswith(".tsv") else ","
        lines = [mark.join(table), *(mark.join(map(_field, row.values())) for row in rows)]
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if str(path).endswith(".gz") else data)
    return path


def _field(value):
    return "" if value is None else str(value)


SUFFIXES = (
    "parquet",
    "arrow",
    "feather",
    "csv",
    "csv.gz",
    "tsv",
    "jsonl",
    "ndjson",
    "jsonl.gz",
)
