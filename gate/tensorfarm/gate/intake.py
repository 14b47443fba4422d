"""From names to a gate run in processes of its own: what a person or a test calls by name, as a judge's request.

Nothing of the user's is imported or run in this process. Invariant: what cannot be found is refused in one line before
a judge is started.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tensorfarm.contract.artifact import read_header
from tensorfarm.contract.bundle import Bundle
from tensorfarm.contract.capture import capture
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.attestation import Certificate, certificate_of
from tensorfarm.gate.child import interpreter, leave_refusal, refusal_in, run_child
from tensorfarm.gate.finding import inapplicable
from tensorfarm.gate.limits import DEFAULT_LIMITS, Limits
from tensorfarm.gate.subject_fields import refuse_misspelt
from tensorfarm.gate.whole_run import Said, certify_case, silent

_ILLEGAL_GRAPH = 10  # exit code of a program that cannot be captured
_KINDS = "a mapping with a kind, module:function, path.py:function, or a .artifact, .pt2 or .onnx file"


@dataclass(frozen=True)
class Named:
    """What is judged, by names. ``reference`` is a factory, an exported program (``.pt2``) or a captured one
    (``.program``); ``subject`` is what ``subject_of`` gives; ``contract`` the fields of a contract.

    ``python_path`` are folders with the user's code. ``captures``: the captured program is judged too, where there is
    one. ``limits`` hold for each process by itself.
    """

    reference: str
    subject: Mapping[str, Any]
    contract: Mapping[str, Any]
    mode: str
    level: str
    seed: int = 0
    python_path: Sequence[str] = ()
    captures: bool = False
    ir_contract: Mapping[str, Any] | None = None
    limits: Limits = DEFAULT_LIMITS


def judged_apart(named: Named, said: Said = silent) -> Certificate:
    """Judge in processes of its own; ``said`` is told of each step.

    Raises Refusal for what is not there, and where the judge itself refuses.
    """
    # A subject may have left anything in it.
    with tempfile.TemporaryDirectory(prefix="tensorfarm-certify-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        said("what is judged is looked up and captured")
        program, excuse = _program(named, folder / "captured.program")
        request: dict[str, Any] = {
            "subject": dict(named.subject),
            "mode": named.mode,
            "level": named.level,
            "contract": dict(named.contract),
            "ir_contract": None if named.ir_contract is None else dict(named.ir_contract),
            "folder": str(folder / "run"),
            "seed": named.seed,
            "threads": 1,
            "candidate_id": named.subject.get("candidate_id", ""),
            "source": named.reference,
            **(_of_program(program) if program is not None else {}),
        }
        try:
            result = certify_case(request, python_path=named.python_path, limits=named.limits, said=said)
            certificate = certificate_of(result)
        except Refusal as refusal:
            # Its next step may be about the folder, which is gone by the time that anybody reads it.
            told = refusal.next_step if str(folder) not in refusal.next_step else ""
            raise Refusal(refusal.fact, limit=refusal.limit, next_step=told, exit_code=refusal.exit_code) from None
    if not excuse:
        return certificate
    return replace(certificate, findings=(*certificate.findings, inapplicable("capture", f"capture: {excuse}")))


def subject_of(compiled: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """The subject that a judge is told of. Refuses a file that is not there or of no kind that is known."""
    if isinstance(compiled, Mapping):
        subject = {key: str(item) if isinstance(item, Path) else item for key, item in compiled.items()}
        refuse_misspelt(subject)
        return subject
    text = str(compiled)
    path = Path(text)
    if ":" in text and path.suffix not in _FILES:
        return {"kind": "callable", "source": text}
    if path.suffix not in _FILES:
        raise Refusal(f"{text!r} names nothing that can be judged", limit=_KINDS, next_step="correct the name")
    if not path.is_file():
        raise Refusal(f"there is no file {text}", limit=_KINDS, next_step="correct the path")
    if path.suffix == ".artifact":
        return artifact_subject(path)
    return {"kind": _FILES[path.suffix] or _kind_of_package(path), "path": str(path.resolve())}


_FILES = {".artifact": "artifact", ".onnx": "onnx", ".pt2": ""}


def artifact_subject(path: Path) -> dict[str, Any]:
    """An artifact file as a subject. Refuses a file that is none."""
    sha256 = sha256_file(path)
    header = read_header(Bundle(path, sha256))
    return {
        "kind": "artifact",
        "path": str(path.resolve()),
        "sha256": sha256,
        "candidate_id": header["candidate_id"],
        "runtime": header["runtime"],
    }


def _kind_of_package(path: Path) -> str:
    """A ``.pt2`` file holds an exported program, or what AOTInductor made of one."""
    try:
        with zipfile.ZipFile(path) as package:
            built = any("/aotinductor/" in name for name in package.namelist())
    except zipfile.BadZipFile:
        raise Refusal(
            f"{path} is no exported program",
            limit="a file of torch.export.save, or of AOTInductor",
            next_step="export it",
        ) from None
    return "aoti" if built else "exported"


def _program(named: Named, place: Path) -> tuple[Path | None, str]:
    """The captured program where one is needed or asked for, and why there is none."""
    reference = Path(named.reference)
    if reference.suffix == ".program":
        if not reference.is_file():
            raise Refusal(f"there is no file {reference}", next_step="correct the path")
        return reference.resolve(), ""
    needed = named.subject["kind"] == "artifact" or reference.suffix == ".pt2"
    if not needed and not named.captures:
        return None, ""
    excuse = _captured(named, place)
    if excuse and needed:
        raise Refusal(excuse, next_step="an artifact is judged against a program that can be captured")
    return (None, excuse) if excuse else (place, "")


def _captured(named: Named, place: Path) -> str:
    """Capture the reference into the file ``place``, in a child. Why it cannot be captured, empty where it was."""
    call = f"intake.main({named.reference!r}, {str(place)!r})"
    ended = run_child(interpreter("intake", call, named.python_path), named.limits)
    refusal = refusal_in(_refused(place))
    if refusal is not None and refusal.exit_code != _ILLEGAL_GRAPH:
        raise refusal
    if refusal is not None:
        return str(refusal)
    # A capture that dies says nothing of the original, which is called by itself later.
    done = place.is_file() and ended.returncode == 0
    return "" if done else f"capturing {named.reference} ended with {ended.death}"


def main(source: str, place: str) -> int:
    """In the child: the program file, or a refusal beside where it would be."""
    try:
        # As every other process of the gate calls a factory, so that one without a seed builds the same weights.
        torch.manual_seed(0)
        capture(source).save(Path(place))
    except Refusal as refusal:
        return leave_refusal(_refused(Path(place)), refusal)
    return 0


def _refused(place: Path) -> Path:
    return place.with_suffix(".refused")


def _of_program(path: Path) -> dict[str, Any]:
    header = json.loads(Bundle(path).read("program.json"))
    return {
        "program": str(path),
        "program_sha256": sha256_file(path),
        "semantic_hash": header["semantic_hash"],
        "source": header["source"],
    }
