"""Runner of the ``inductor`` runtime: the artifact's compile caches at the path they were built at, no compiling.

Invariant: what is loaded are the artifact's files, byte for byte, and no others: the folder outlives its users, and
whoever ran there before may have edited, deleted or added one. That is never the candidate's fault.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tensorfarm.contract import inductor_runtime
from tensorfarm.contract.artifact import RUNTIME_FOLDER, Artifact, open_artifact
from tensorfarm.contract.bundle import Bundle
from tensorfarm.contract.executable import executable
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.subject.load import Loaded
from tensorfarm.gate.subject.specialised import of_graph, refuse_another_device, tensors_of_graph

_LOCKS = "locks"  # Inductor's own, empty and of no consequence


def load_artifact(artifact: Artifact, device: str) -> Loaded:
    """Unpack where needed and set up the call. A cache that does not answer raises ``RecompileBlocked`` in the call."""
    refuse_another_device("cpu", device)
    place = Path(artifact.options["build_path"])
    here = inductor_runtime.build_path(artifact.candidate_id)
    if place != here:
        raise Refusal(
            f"artifact {artifact.sha256[:12]} was built at {place}",
            limit=f"here it would be unpacked at {here}",
            next_step=f"set {inductor_runtime.BUILD_ROOT_VARIABLE} alike on every node and compile again",
        )
    with inductor_runtime.held(place):
        _unpack(artifact, place)
    inductor_runtime.apply_settings(place, artifact.options["settings"])
    inductor_runtime.block_compilation()
    return _called_through_the_caches(artifact)


def _called_through_the_caches(artifact: Artifact) -> Loaded:
    """What is left to do for a second one: the process stays as it was set up."""
    module = executable(artifact.graph, artifact.weights)
    return Loaded(
        run=of_graph(artifact.graph, inductor_runtime.compiled(module)),
        evidence=lambda: {"runtime": "inductor", **inductor_runtime.cache_evidence()},
        fresh=lambda: _called_through_the_caches(open_artifact(artifact.path, artifact.sha256)),
        tensors=lambda: tensors_of_graph(artifact.graph, dict(module.state_dict(keep_vars=True))),
    )


def _unpack(artifact: Artifact, place: Path) -> None:
    """Files that are right stay where they are: another process may be running them."""
    if _is_unpacked(artifact, place):
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    artifact.unpack_runtime(place)


def _is_unpacked(artifact: Artifact, place: Path) -> bool:
    bundle = Bundle(artifact.path, artifact.sha256)
    wanted = {name.removeprefix(RUNTIME_FOLDER): name for name in bundle.names() if name.startswith(RUNTIME_FOLDER)}
    files = {path.relative_to(place) for path in place.rglob("*") if path.is_symlink() or not path.is_dir()}
    found = {str(path): place / path for path in files if path.parts[0] != _LOCKS}
    return found.keys() == wanted.keys() and all(
        not path.is_symlink() and path.is_file() and path.read_bytes() == bundle.read(wanted[name])
        for name, path in found.items()
    )
