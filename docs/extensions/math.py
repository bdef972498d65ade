"""Formulas as MathML, made when the site is built: no script, no font and no network for a reader.

pymdownx.arithmatex finds the formulas (it knows what is code and what is not) and wraps them; this
hook turns each wrapped LaTeX formula into MathML.
"""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_WRAPPED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<latex>.*?)\\[)\]]</(?P=tag)>', re.S
)


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replace every formula of a page."""

    def formula(found: re.Match[str]) -> str:
        latex = html.unescape(found["latex"]).strip()
        made = convert(latex, display="block" if found["open"] == "[" else "inline")
        if "\\" in made:
            raise ValueError(f"{page.file.src_path}: not understood: {latex}")
        return made

    return _WRAPPED.sub(formula, content)
