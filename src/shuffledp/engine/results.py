"""Results as files: all about an answer as JSON, or its numbers as a table."""

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from shuffledp.core.display import Number
from shuffledp.core.errors import ParameterError

__all__ = ["check_result", "write_result"]


def write_result(record: Mapping[str, Any], path: Path) -> Path:
    """Write what `to_dict` of an answer says, as the suffix of the path tells: .json, .csv, .tsv or .parquet.

    >>> from tempfile import mkdtemp
    >>> row = {"label": "count", "value": 7.0, "stderr": 1.0, "low": 5.0, "high": 9.0}
    >>> print(write_result({"estimate": [row]}, Path(mkdtemp(), "r.csv")).read_text(), end="")
    label,value,stderr,low,high
    count,7.0,1.0,5.0,9.0
    """
    _WRITERS[check_result(path)](record, path)
    return path


def check_result(path: Path) -> str:
    """The suffix of a file for a result; refuses one that no result is written to.

    >>> check_result(Path("r.parquet"))
    '.parquet'
    """
    suffix = path.suffix.lower()
    if suffix not in _WRITERS:
        raise ParameterError("out", str(path), f"must end in one of {', '.join(_WRITERS)}")
    return suffix


def _write_json(record: Mapping[str, Any], path: Path) -> None:
    text = json.dumps(record, allow_nan=False, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _write_text(record: Mapping[str, Any], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        mark = "\t" if path.suffix.lower() == ".tsv" else ","
        names = list(record["estimate"][0]) if record["estimate"] else Number._fields
        writer = csv.DictWriter(file, names, delimiter=mark, lineterminator="\n")
        writer.writeheader()
        writer.writerows(record["estimate"])


def _write_parquet(record: Mapping[str, Any], path: Path) -> None:
    """The rows, and all about them as JSON in the metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = list(record["estimate"])
    label, *numbers = list(rows[0]) if rows else Number._fields
    about = {"shuffledp": json.dumps(record, allow_nan=False)}
    typed = [(label, pa.string()), *((name, pa.float64()) for name in numbers)]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(typed, metadata=about)), path)


_WRITERS: Mapping[str, Callable[[Mapping[str, Any], Path], None]] = {
    ".json": _write_json,
    ".csv": _write_text,
    ".tsv": _write_text,
    ".parquet": _write_parquet,
}
