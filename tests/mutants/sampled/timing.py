"""A plugin of pytest that writes down how long each test took, and lets coverage follow its processes."""

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

SECONDS = "MUTANTS_SECONDS"
PROCESSES = "MUTANTS_PROCESSES"


class _Clock:
    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.skipped:
            self.skipped.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        found = {name: took for name, took in self.seconds.items() if name not in self.skipped}
        Path(os.environ[SECONDS]).write_text(json.dumps(found), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(_Clock())


def pytest_collection_finish() -> None:
    # Not before: the workers of pytest-xdist are processes, too, and measured by pytest-cov.
    os.environ["COVERAGE_PROCESS_START"] = os.environ[PROCESSES]
