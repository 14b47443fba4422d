"""A verdict as a file that a person opens in a browser."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.observe.verdict_page import verdict_page
from tensorfarm.gate.attestation import Certificate


def write_verdict(file: Path, title: str, certificate: Certificate, again: str) -> None:
    """Write the page. Refuses a place that cannot be written."""
    about = f"judged at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC on {certificate.attestation.get('node', '')}"
    text = verdict_page(title, certificate, about, again)
    try:
        file.write_text(text)
    except OSError as error:
        raise Refusal(
            f"{file} cannot be written: {error.strerror}",
            limit="a file in a folder that is there and yours",
            next_step="correct --html",
        ) from None
