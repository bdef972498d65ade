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


_SCRIPTED_FENCE = re.compile(
    r'<(?P<kind>msu[bp]|msubsup)>(?P<fence><mo stretchy="true"[^>]*>[^<]*</mo>)'
)
_LETTERS = "𝔸𝔹ℂ𝔻𝔼𝔽𝔾ℍ𝕀𝕁𝕂𝕃𝕄ℕ𝕆ℙℚℝ𝕊𝕋𝕌𝕍𝕎𝕏𝕐ℤ"
_DOUBLE_STRUCK = re.compile(r'<mi mathvariant="double-struck">([A-Z])</mi>')


def mend(made: str) -> str:
    """MathML that browsers draw as it is meant.

    A tall bracket with an index is drawn small: let the index stand on nothing, beside the bracket. Double-struck
    letters are characters of their own: browsers know no other variants than upright.

    >>> mend('<msub><mo stretchy="true">)</mo><mo>+</mo></msub>')
    '<mo stretchy="true">)</mo><msub><mi></mi><mo>+</mo></msub>'
    >>> mend('<mi mathvariant="double-struck">E</mi>')
    '<mi>𝔼</mi>'
    """
    beside = _SCRIPTED_FENCE.sub(r"\g<fence><\g<kind>><mi></mi>", made)
    return _DOUBLE_STRUCK.sub(
        lambda found: f"<mi>{_LETTERS[ord(found[1]) - ord('A')]}</mi>", beside
    )


def on_page_content(content: str, page: Any, **_: Any) -> str:
    """Replace every formula of a page."""

    def formula(found: re.Match[str]) -> str:
        latex = html.unescape(found["latex"]).strip()
        made = convert(latex, display="block" if found["open"] == "[" else "inline")
        if "\\" in made:
            raise ValueError(f"{page.file.src_path}: not understood: {latex}")
        return mend(made)

    return _WRAPPED.sub(formula, content)
