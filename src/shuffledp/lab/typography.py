"""Plain text with formulas, as HTML: Greek letters, powers, roots."""

import re
from html import escape

__all__ = ["typeset"]

_GREEK = {"alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "lambda": "λ"}
_NAMES = "|".join(_GREEK)
_STEPS: tuple[tuple[str, str], ...] = (
    (r"&gt;=", "≥"),
    (r"&lt;=", "≤"),
    (r"(?<=\S) - (?=\S)", " − "),
    (r"(?<!\w)\*(\w[^*\n]*?)\*(?!\w)", r"<em>\1</em>"),
    (r"\bsqrt\((\w+)\)", r"√\1"),
    (r"\bsqrt\(", "√("),
    (r"\^\(([^()]*)\)", r"<sup>\1</sup>"),
    (r"\^(-?\w+(?:\.\d+)?)", r"<sup>\1</sup>"),
    (rf"\b({_NAMES})_?(0|L|star)\b", r"\1<sub>\2</sub>"),
)


def typeset(text: str) -> str:
    """Escaped for HTML, with the formulas made readable.

    >>> typeset("8 e^(epsilon0/2) sqrt(n) >= delta & *not* less")
    '8 e<sup>ε<sub>0</sub>/2</sup> √n ≥ δ &amp; <em>not</em> less'
    >>> typeset("10^6 people")
    '10<sup>6</sup> people'
    """
    result = escape(text)
    for pattern, replacement in _STEPS:
        result = re.sub(pattern, replacement, result)
    return re.sub(rf"\b({_NAMES})(?![a-z])", lambda found: _GREEK[found[1]], result)
