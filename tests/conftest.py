"""For all tests: the policy on skipped ones, what they measured, and the broker that clients are tested against.

Without Java, tests that need it are skipped, and the run ends by saying which and why. With
MUSTER_REQUIRE_JAVA=1, as in .ci/run, a missing Java fails, and so does any skip that is not on the short
list in `allowed_skips.txt`.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

from harness import java_tools
from tests import module_rotation
from tests.listed import listed

JAVA_IS_REQUIRED = os.environ.get("MUSTER_REQUIRE_JAVA") == "1"
ALLOWED_SKIPS = Path(__file__).parent / "allowed_skips.txt"
NOT_THROUGH_GATEWAY = "not played through a gateway: "
"""What reasons begin with that are listed in tests/clients/through_gateway.py."""
LONGEST_IN_AN_ID = 60  # Of a parameter, in characters or bytes.
LONG = Path(__file__).parent / "long"

# How long one example takes is a matter of the machine. Each run has other examples, also where a variable like CI
# has Hypothesis draw the same for ever; a failure prints what repeats it.
settings.register_profile("muster", deadline=None, derandomize=False, print_blob=True)
settings.load_profile("muster")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    module_rotation.deselect(config, items)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What takes minutes is collected only where it is asked for by its path, as `make test-long` does."""
    asked = any(Path(argument.partition("::")[0]).resolve().is_relative_to(LONG) for argument in config.args)
    return True if collection_path == LONG and not asked else None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long values by their length: a test's id goes through every report, and one had 197,000 characters."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_IN_AN_ID:
        return f"{argname}-of-{len(val)}"
    return None


@pytest.fixture(scope="session")
def java() -> None:
    """For tests that need Java and Kafka's jars: skipped without them, or failed where they are required."""
    try:
        java_tools.java()
        java_tools.kafka_jars()
    except java_tools.JavaUnavailable as missing:
        do_without_java(missing)


@pytest.fixture(scope="session")
def streams_jars(java: None) -> Path:
    """The folder with Kafka Streams' jars; as for `java`, the test is skipped or fails without them."""
    try:
        return java_tools.streams_jars()
    except java_tools.JavaUnavailable as missing:
        do_without_java(missing)


def do_without_java(missing: java_tools.JavaUnavailable) -> NoReturn:
    """Skip the test, saying what is missing, or fail it where Java is required."""
    if JAVA_IS_REQUIRED:
        pytest.fail(f"MUSTER_REQUIRE_JAVA=1: {missing}")
    pytest.skip(f"needs Java: {missing}")


def allowed_patterns(text: str) -> list[str]:
    """The patterns in an `allowed_skips.txt`."""
    return listed(text)


def not_allowed(skips: dict[str, str], patterns: list[str]) -> dict[str, str]:
    """Of the skips (reason by test id), those that no pattern allows."""
    return {
        test: reason
        for test, reason in skips.items()
        if not any(fnmatchcase(test, pattern) for pattern in patterns)
    }


class SkipPolicy:
    """Gathers what was skipped, in the process that reports, and ends the run accordingly."""

    def __init__(self, required: bool, patterns: list[str], accepted: str | None = None) -> None:
        """`accepted`: the beginning of reasons that are listed elsewhere, and well."""
        self.skips: dict[str, str] = {}
        self._required = required
        self._patterns = patterns
        self._accepted = accepted

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skips[report.nodeid] = _reason(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:  # A whole module that skipped itself.
            self.skips[report.nodeid] = _reason(report)

    @property
    def offending(self) -> dict[str, str]:
        if not self._required:
            return {}
        accepted = self._accepted
        doubtful = {
            test: reason
            for test, reason in self.skips.items()
            if accepted is None or not reason.removeprefix("Skipped: ").startswith(accepted)
        }
        return not_allowed(doubtful, self._patterns)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.offending and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.skips:
            return
        terminalreporter.section(f"skipped: {len(self.skips)}")
        for test, reason in sorted(self.skips.items()):
            verdict = "NOT ALLOWED " if test in self.offending else ""
            terminalreporter.line(f"{verdict}{test}: {reason}")
        if self.offending:
            terminalreporter.line(
                f"MUSTER_REQUIRE_JAVA=1: {len(self.offending)} skips fail this run", red=True
            )


class Figures:
    """What tests measured (`record_property("figure", ...)`), shown at the end of the run."""

    def __init__(self) -> None:
        self._figures: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown":  # By then the test has measured all, and it is shown once.
            self._figures += [str(value) for name, value in report.user_properties if name == "figure"]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._figures:
            terminalreporter.section("figures")
        for figure in self._figures:
            terminalreporter.line(figure)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # Under xdist the workers run, and this process reports.
        accepted = NOT_THROUGH_GATEWAY if config.getoption("--target") == "gateway" else None
        patterns = allowed_patterns(ALLOWED_SKIPS.read_text())
        config.pluginmanager.register(SkipPolicy(JAVA_IS_REQUIRED, patterns, accepted))
        config.pluginmanager.register(Figures())


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--target kafka` runs the tests with real clients against Apache Kafka, the judge of the tests."""
    module_rotation.add_options(parser)
    default = os.environ.get("MUSTER_TEST_TARGET", "muster")
    parser.addoption(
        "--target", choices=("gateway", "kafka", "muster"), default=default, help="the broker under test"
    )
