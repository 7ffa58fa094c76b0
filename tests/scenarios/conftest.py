"""Adds --update-scenarios: writes the decisions down instead of comparing them. Review the difference like code."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-scenarios", action="store_true", help="rewrite tests/scenarios/*.decision.yaml")
