"""One artifact or one module before the gate, outside of any sweep: what a person names, as something to be judged.

Whatever of the user's has to be imported, captured or compiled is, in processes of its own. Nothing is written to the
store: a verdict that no sweep asked for has no cell to belong to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tensorfarm.compiler.backends import BACKENDS
from tensorfarm.compiler.pipeline import parse
from tensorfarm.contract.artifact import open_artifact
from tensorfarm.contract.bundle import Bundle
from tensorfarm.contract.program import MODES
from tensorfarm.contract.refusal import Refusal, refuse_unknown
from tensorfarm.farm.app.artifact_names import known_candidate, named
from tensorfarm.farm.app.authored_test import refuse_uncollectable, write_test
from tensorfarm.farm.app.built_apart import built_apart
from tensorfarm.farm.app.named_candidate import candidate_named
from tensorfarm.farm.app.sweep_file import SweepConfig
from tensorfarm.farm.store.layout import StoreLayout
from tensorfarm.farm.store.reader import Reader
from tensorfarm.gate.attestation import Certificate
from tensorfarm.gate.intake import Named, artifact_subject, judged_apart, subject_of
from tensorfarm.gate.library import contract_fields
from tensorfarm.gate.limits import SECONDS, limits_here
from tensorfarm.gate.setting import LEVELS, refuse_seed
from tensorfarm.gate.whole_run import Said, silent

# What torch.compile is asked for by name alone; anything else is a pipeline, or a backend of the user's own.
TORCH_BACKENDS = ("inductor", "aot_eager", "eager")
DEFAULT_MODE = "inference"
_FILES = (".pt2", ".onnx")
_HEXADECIMAL = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class VerifyRequest:
    """``what`` is an artifact (a file, the beginning of its sha256 or candidate id, ``SWEEP_ID:CELL``), a factory, or a
    ``.pt2`` or ``.onnx`` file. Empty fields are filled from the store where it knows the artifact.

    ``reference`` names the original where ``what`` does not bring it along. ``contract`` is a file or the name of a
    dtype. ``python_path`` are folders with the user's code. ``author`` is a file to write the same to as a test.
    ``seconds`` is how long each process may take.
    """

    store: Path
    what: str
    backend: str = ""
    mode: str = ""
    level: str = "standard"
    contract: str = ""
    reference: str = ""
    seed: int | None = None
    python_path: Sequence[Path] = field(default_factory=tuple[Path, ...])
    author: Path | None = None
    seconds: float = SECONDS


def verify(request: VerifyRequest, said: Said = silent) -> tuple[str, Certificate]:
    """A title and the verdict; ``said`` is told of each step that takes its time.

    Raises Refusal for a name that leads nowhere, an unknown level, mode or backend, and a contract with a fault.
    """
    if request.author is not None:
        refuse_uncollectable(request.author)
    with _prepared(request, said) as (title, judged):
        certificate = judged_apart(judged, said)
        if request.author is not None:
            write_test(request.author, title, judged)
        return title, certificate


@contextmanager
def _prepared(request: VerifyRequest, said: Said) -> Generator[tuple[str, Named]]:
    """The title and what is to be judged; files that had to be built for it last as long as the block."""
    refuse_unknown("level", request.level, LEVELS)
    if request.mode:
        refuse_unknown("mode", request.mode, MODES)
    if request.seed is not None:
        refuse_seed(request.seed)
    if _is_artifact(request.what):
        yield _of_artifact(request)
    elif Path(request.what).suffix in _FILES:
        yield _of_file(request)
    elif ":" not in request.what:
        raise Refusal(
            f"{request.what!r} names nothing that can be verified",
            limit="an artifact, package.module:factory, path.py:factory, or a .pt2 or .onnx file",
            next_step="correct the name",
        )
    else:
        with tempfile.TemporaryDirectory(prefix="tensorfarm-verify-") as folder:
            yield _of_module(request, Path(folder), said)


def _is_artifact(what: str) -> bool:
    name, colon, cell = what.partition(":")
    if colon:
        return "/" in cell and not name.endswith(".py")
    return what.endswith(".artifact") or (bool(what) and set(what) <= _HEXADECIMAL)


def _named(request: VerifyRequest, reference: str, subject: Mapping[str, Any], **fields: Any) -> Named:
    common: dict[str, Any] = {
        "contract": contract_fields(request.contract or None),
        "mode": request.mode or DEFAULT_MODE,
        "seed": request.seed or 0,
        "limits": limits_here(request.seconds),
    }
    folders = [str(folder.resolve()) for folder in request.python_path]
    return Named(reference, subject, level=request.level, python_path=folders, **{**common, **fields})


def _of_module(request: VerifyRequest, folder: Path, said: Said) -> tuple[str, Named]:
    if request.reference:
        raise Refusal("a factory is its own reference", limit="--reference is for files", next_step="leave it out")
    backend = request.backend or TORCH_BACKENDS[0]
    title = f"{request.what} by {backend}"
    if backend in TORCH_BACKENDS or _is_users(backend):
        subject = {"kind": "compiled", "source": request.what, "backend": backend}
        return title, _named(request, request.what, subject, captures=True)
    said(f"{backend} compiles {request.what}")
    return title, _of_pipeline(request, backend, folder)


def _is_users(backend: str) -> bool:
    """``package.module:function`` of a backend for torch.compile, which no pipeline is spelt like."""
    return ":" in backend and backend.partition(":")[0].partition("{")[0] not in BACKENDS


def _of_pipeline(request: VerifyRequest, backend: str, folder: Path) -> Named:
    if backend.partition(":")[0].partition("{")[0] not in BACKENDS:
        raise Refusal(
            f"backend {backend!r} is unknown",
            limit=f"{', '.join(TORCH_BACKENDS)}, a pipeline such as fx:dce,cse, or package.module:function",
            next_step="correct --backend",
        )
    pipeline = str(parse(backend))
    folders = [str(place.resolve()) for place in request.python_path]
    limits = limits_here(request.seconds)
    program, artifact = built_apart(request.what, pipeline, request.mode or DEFAULT_MODE, folders, folder, limits)
    return _named(request, str(program), artifact_subject(artifact))


def _of_file(request: VerifyRequest) -> tuple[str, Named]:
    _refuse_backend(request)
    subject = subject_of(request.what)
    own = request.what if subject["kind"] == "exported" else ""
    reference = request.reference or own
    if not reference:
        raise Refusal(
            f"{request.what} does not hold the original it was made from",
            limit="an original to judge it by",
            next_step="give --reference package.module:factory",
        )
    return f"{request.what} ({subject['kind']})", _named(request, reference, subject)


def _of_artifact(request: VerifyRequest) -> tuple[str, Named]:
    """By what its candidate was submitted as where the store knows it: contract, mode, seed and the code's folders."""
    _refuse_backend(request)
    layout = StoreLayout(request.store)
    place = named(request.what, layout)
    artifact = open_artifact(place.path, place.sha256)
    submitted = place.submitted or known_candidate(layout, artifact.candidate_id)[0]
    reference = request.reference or str(_program_of(layout, request.what, artifact.semantic_hash))
    fields: dict[str, Any] = {}
    if submitted:
        config = _config_of(layout, artifact.candidate_id)
        fields = {
            "contract": contract_fields(request.contract or config.contract),
            "mode": request.mode or submitted["mode"],
            "seed": config.seed if request.seed is None else request.seed,
            "ir_contract": config.ir_contract,
        }
        request = replace(request, python_path=(*request.python_path, *map(Path, config.python_path)))
    title = f"artifact {place.sha256[:12]}" + (
        f" ({submitted['program']}/{submitted['pipeline']})" if submitted else ""
    )
    return title, _named(request, reference, artifact_subject(place.path), **fields)


def _program_of(layout: StoreLayout, what: str, semantic_hash: str) -> Path:
    """The captured program that an artifact is of. Refuses where the store has none."""
    for place in sorted(layout.programs.glob("*.program")) if layout.programs.is_dir() else ():
        if f'"semantic_hash":"{semantic_hash}"' in Bundle(place).read("program.json").decode():
            return place
    raise Refusal(
        f"{layout.root} holds no program that {what} is of",
        limit=f"semantic hash {semantic_hash[:12]}",
        next_step="give --reference package.module:factory",
    )


def _config_of(layout: StoreLayout, candidate_id: str) -> SweepConfig:
    with Reader(layout) as reader:
        sweep_id = candidate_named(reader, candidate_id).sweep_id
        return SweepConfig.from_json(reader.named("sweep_config", sweep_id=sweep_id).to_pylist()[0]["config"])


def _refuse_backend(request: VerifyRequest) -> None:
    if request.backend:
        raise Refusal(
            f"{request.what} is compiled already", limit="--backend is for factories", next_step="leave it out"
        )
