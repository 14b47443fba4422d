"""A pytest plugin: the fixture ``certify`` fails a test with what a person needs to see, and nothing else.

Importing it loads no torch, so that test runs which certify nothing do not wait for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tensorfarm.gate.attestation import Certificate

LEVELS = ("quick", "standard", "full")
_LEVEL, _CONTRACT = "--certify-level", "--certify-contract"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tensorfarm", "certify compiled programs")
    group.addoption(_LEVEL, choices=LEVELS, default="standard", help="How much is asked where a test does not say.")
    group.addoption(
        _CONTRACT,
        metavar="FILE",
        default=None,
        help="Contract of tests that name none: a file, or float32, float64, float16, bfloat16 for the template's.",
    )


@pytest.fixture
def certify(request: pytest.FixtureRequest) -> Callable[..., Certificate]:
    """A function: ``certify(reference, compiled, inputs, contract=None, **options)``, options as the library has them.

    Fails the test where the verdict is not ``admitted``, doubts included; returns the certificate.
    """
    # Imported when a test asks for it: both load torch.
    from tensorfarm.contract.refusal import Refusal
    from tensorfarm.gate.library import certify as judge
    from tensorfarm.gate.readable import readable

    # A plugin that a test file names itself is loaded after the command line was read.
    level = request.config.getoption(_LEVEL, "standard")
    named_contract = request.config.getoption(_CONTRACT, None)

    def certified(
        reference: Any, compiled: Any, inputs: Any = None, contract: Any = None, **options: Any
    ) -> Certificate:
        chosen: dict[str, Any] = {"level": level, **options}
        try:
            certificate = judge(reference, compiled, inputs, named_contract if contract is None else contract, **chosen)
        except Refusal as refusal:
            pytest.fail(f"cannot be certified: {refusal}", pytrace=False)
        if certificate.outcome.exit_code:
            pytest.fail(readable(certificate, _again(request, chosen["level"], named_contract)), pytrace=False)
        return certificate

    return certified


def _again(request: pytest.FixtureRequest, level: str, contract: str | None) -> str:
    words = ["pytest", request.node.nodeid, _LEVEL, level, *([_CONTRACT, contract] if contract else [])]
    return shlex.join(words)
