"""Concept 8, engines: where data and randomness meet."""

from typing import TYPE_CHECKING

from shuffledp.core import load_later

if TYPE_CHECKING:
    from shuffledp.engine.chunks import (
        DISPLAY,
        IMPORTS,
        CodeCounts,
        Engine,
        Headcount,
        Job,
        Progress,
        Report,
        Rounding,
        Tallied,
        timed,
        watch,
    )
    from shuffledp.engine.codes import Action, Coded, Coder, OnInvalid
    from shuffledp.engine.columns import (
        Column,
        categories_of,
        group_values,
        open_column,
        take_column,
    )
    from shuffledp.engine.files import (
        ENGINES,
        CodedColumn,
        FileRun,
        Frequencies,
        Released,
        find_engine,
        headcount,
        read_codes,
        release_column,
        release_counts,
        release_frequencies,
        run_file,
    )
    from shuffledp.engine.filters import Filter
    from shuffledp.engine.formats import DataFile, Files, Format, Paths, find_files
    from shuffledp.engine.local import DuckDB, Memory, run, run_counts
    from shuffledp.engine.messages import Randomized, randomize_file, tally_file
    from shuffledp.engine.output import (
        Staged,
        check_result,
        explain_unwritable,
        stage,
        write_result,
    )
    from shuffledp.engine.people import MissingPerson, Of, People, Reduce, looks_like_person
    from shuffledp.engine.reducing import Reduced, Reduction
    from shuffledp.engine.spark import Spark
    from shuffledp.engine.spelling import Spelling
    from shuffledp.engine.tallies import (
        Collected,
        Form,
        Reading,
        read_tallies,
        read_tally,
        write_tally,
    )

__all__ = [
    "DISPLAY",
    "ENGINES",
    "IMPORTS",
    "Action",
    "CodeCounts",
    "Coded",
    "CodedColumn",
    "Coder",
    "Collected",
    "Column",
    "DataFile",
    "DuckDB",
    "Engine",
    "FileRun",
    "Files",
    "Filter",
    "Form",
    "Format",
    "Frequencies",
    "Headcount",
    "Job",
    "Memory",
    "MissingPerson",
    "Of",
    "OnInvalid",
    "Paths",
    "People",
    "Progress",
    "Randomized",
    "Reading",
    "Reduce",
    "Reduced",
    "Reduction",
    "Released",
    "Report",
    "Rounding",
    "Spark",
    "Spelling",
    "Staged",
    "Tallied",
    "categories_of",
    "check_result",
    "explain_unwritable",
    "find_engine",
    "find_files",
    "group_values",
    "headcount",
    "looks_like_person",
    "open_column",
    "randomize_file",
    "read_codes",
    "read_tallies",
    "read_tally",
    "release_column",
    "release_counts",
    "release_frequencies",
    "run",
    "run_counts",
    "run_file",
    "stage",
    "take_column",
    "tally_file",
    "timed",
    "watch",
    "write_result",
    "write_tally",
]

if not TYPE_CHECKING:  # with it, every name would be Any
    __getattr__ = load_later(
        __name__,
        {
            "chunks": "DISPLAY IMPORTS CodeCounts Engine Headcount Job Progress Report Rounding Tallied timed watch",
            "codes": "Action Coded Coder OnInvalid",
            "columns": "Column categories_of group_values open_column take_column",
            "files": "ENGINES CodedColumn FileRun Frequencies Released find_engine headcount read_codes release_column release_counts release_frequencies run_file",
            "filters": "Filter",
            "formats": "DataFile Files Format Paths find_files",
            "local": "DuckDB Memory run run_counts",
            "messages": "Randomized randomize_file tally_file",
            "output": "Staged check_result explain_unwritable stage write_result",
            "people": "MissingPerson Of People Reduce looks_like_person",
            "reducing": "Reduced Reduction",
            "spark": "Spark",
            "spelling": "Spelling",
            "tallies": "Collected Form Reading read_tallies read_tally write_tally",
        },
    )
