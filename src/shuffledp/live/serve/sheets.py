"""Published results as tables for spreadsheets: CSV, and XLSX without a library."""

import csv
import io
import re
import zipfile
from typing import Any
from xml.sax.saxutils import escape

from shuffledp.core.display import Number

__all__ = ["XLSX", "write_csv", "write_xlsx"]

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
_NUMBERS = Number._fields[1:]
_HEAD = ["window", "question", "people", "of", "label", *_NUMBERS]


def _list_rows(results: list[dict[str, Any]]) -> list[list[Any]]:
    """One row per window, question and label, under a head."""
    rows: list[list[Any]] = [_HEAD]
    for result in results:
        for name, answer in result["questions"].items():
            who = [answer["people"], answer.get("of", answer["people"])]
            rows += [
                [result["window"], name, *who, row["label"], *(row[each] for each in _NUMBERS)]
                for row in answer["estimate"]
            ]
    return rows


def write_csv(results: list[dict[str, Any]]) -> str:
    """The results as a table: one line per window, question and row."""
    lines = io.StringIO()
    writer = csv.writer(lines)
    for row in _list_rows(results):
        writer.writerow([_disarm(cell) if isinstance(cell, str) else cell for cell in row])
    return lines.getvalue()


def _disarm(label: str) -> str:
    """A label that no spreadsheet takes for a formula: anybody may have sent it as a word.

    >>> _disarm("=1+1"), _disarm("bus")
    ("'=1+1", 'bus')
    """
    return f"'{label}" if label.startswith(("=", "+", "-", "@", "\t", "\r")) else label


_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML
_OPEN = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_OFFICE = "http://schemas.openxmlformats.org"
_TYPES = f"""{_OPEN}<Types xmlns="{_OFFICE}/package/2006/content-types">\
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>\
<Override PartName="/xl/workbook.xml" ContentType="{XLSX}.main+xml"/>\
<Override PartName="/xl/worksheets/sheet1.xml" \
ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>"""
_WORKBOOK = f"""{_OPEN}<workbook xmlns="{_OFFICE}/spreadsheetml/2006/main" \
xmlns:r="{_OFFICE}/officeDocument/2006/relationships"><sheets>\
<sheet name="results" sheetId="1" r:id="rId1"/></sheets></workbook>"""


def _relate(kind: str, target: str) -> str:
    return (
        f'{_OPEN}<Relationships xmlns="{_OFFICE}/package/2006/relationships"><Relationship Id="rId1" '
        f'Type="{_OFFICE}/officeDocument/2006/relationships/{kind}" Target="{target}"/></Relationships>'
    )


def _write_cell(value: Any) -> str:
    """A number, or a text that is never a formula.

    >>> _write_cell(1.5), _write_cell("=1+1 & co")
    ('<c><v>1.5</v></c>', '<c t="inlineStr"><is><t xml:space="preserve">=1+1 &amp; co</t></is></c>')
    """
    if isinstance(value, str):
        shown = escape(_UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", value))
        return f'<c t="inlineStr"><is><t xml:space="preserve">{shown}</t></is></c>'
    return f"<c><v>{value!r}</v></c>"


def write_xlsx(results: list[dict[str, Any]]) -> bytes:
    """The same as a workbook of one sheet; texts are texts there, whatever they begin with."""
    rows = "".join(f"<row>{''.join(map(_write_cell, row))}</row>" for row in _list_rows(results))
    sheet = f'{_OPEN}<worksheet xmlns="{_OFFICE}/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>'
    parts = {
        "[Content_Types].xml": _TYPES,
        "_rels/.rels": _relate("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": _WORKBOOK,
        "xl/_rels/workbook.xml.rels": _relate("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": sheet,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()
