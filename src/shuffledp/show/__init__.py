"""Pictures. They need Matplotlib: the extra `shuffledp[plot]`."""

from shuffledp.show.curves import error_curves, privacy_curves
from shuffledp.show.estimates import (
    check_picture,
    compare_errors,
    name_page,
    plot_estimate,
    state_finding,
)
from shuffledp.show.style import MODEL_COLOURS

__all__ = [
    "MODEL_COLOURS",
    "check_picture",
    "compare_errors",
    "error_curves",
    "name_page",
    "plot_estimate",
    "privacy_curves",
    "state_finding",
]
