"""One flag for every golden: run with ``--rewrite-goldens``, then read the difference before committing it."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite-goldens", action="store_true", help="write tests/goldens anew instead of comparing")


@pytest.fixture(scope="session")
def rewrite_goldens(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite-goldens"))
