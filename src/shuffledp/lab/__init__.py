"""The laboratory: experiments that recompute what the literature states, and a page of verdicts.

An experiment is a folder with a file `run.py`. Its docstring is a title and a paragraph on what it
does and why; its function `run(context)` returns a `Result`: verdicts, figures, a table, the parameters used.
"""

from shuffledp.lab.runner import (
    Context,
    Drawn,
    Effort,
    Experiment,
    Record,
    Result,
    Verdict,
    experiments,
    folders,
    load,
    run_experiment,
    run_lab,
    write_page,
)

__all__ = [
    "Context",
    "Drawn",
    "Effort",
    "Experiment",
    "Record",
    "Result",
    "Verdict",
    "experiments",
    "folders",
    "load",
    "run_experiment",
    "run_lab",
    "write_page",
]
