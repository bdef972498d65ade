"""Pictures. They need Matplotlib: `pip install 'shuffledp[plot]'`."""

from shuffledp.plots.curves import privacy_curves
from shuffledp.plots.histograms import compare_histograms
from shuffledp.plots.plans import error_curves

__all__ = ["compare_histograms", "error_curves", "privacy_curves"]
