"""A file of which nothing could run is not a success: the run then ends with the code that CTest takes for "not run",
and says why in a line that scripts/test repeats."""

import pytest

NOT_RUN = 77
_reasons, _ran = [], []


def pytest_runtest_logreport(report):
    if report.skipped:
        _reasons.append(str(report.longrepr[2]).removeprefix("Skipped: "))
    elif report.when == "call" or report.failed:
        _ran.append(report.nodeid)


def pytest_collectreport(report):
    if report.skipped:
        _reasons.append(str(report.longrepr[2]).removeprefix("Skipped: "))


def pytest_sessionfinish(session, exitstatus):
    if _reasons and not _ran and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        print("\nnot run: " + "; ".join(sorted(set(_reasons))))
        session.exitstatus = NOT_RUN
