"""Pictures. They need Matplotlib: `pip install 'shuffledp[plot]'`."""

from shuffledp.plots.curves import privacy_curves
from shuffledp.plots.errors import compare_errors
from shuffledp.plots.histograms import compare_histograms
from shuffledp.plots.plans import error_curves
from shuffledp.plots.results import check_picture, plot_estimate

__all__ = [
    "check_picture",
    "compare_errors",
    "compare_histograms",
    "error_curves",
    "plot_estimate",
    "privacy_curves",
]
