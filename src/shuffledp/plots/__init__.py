"""Pictures. They need Matplotlib: `pip install 'shuffledp[plot]'`."""

from shuffledp.plots.curves import privacy_curves
from shuffledp.plots.histograms import compare_histograms

__all__ = ["compare_histograms", "privacy_curves"]
