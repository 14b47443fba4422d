"""Runner of the ``inductor`` runtime: the artifact's compile caches at the path they were built at, no compiling.

Invariant: the folder holds the files of exactly one artifact, named in a marker that is written last.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tensorfarm.contract import inductor_runtime
from tensorfarm.contract.artifact import Artifact
from tensorfarm.contract.executable import executable
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate.subject.load import Loaded

_MARKER = ".artifact"


def load(artifact: Artifact) -> Loaded:
    """Unpack where needed and set up the call. A cache that does not answer raises ``RecompileBlocked`` in the call."""
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
    module = executable(artifact.graph, artifact.weights)
    call = inductor_runtime.compiled(module)
    return Loaded(artifact, call, module, lambda: {"runtime": "inductor", **inductor_runtime.cache_evidence()})


def _unpack(artifact: Artifact, place: Path) -> None:
    marker = place / _MARKER
    if marker.is_file() and marker.read_text() == artifact.sha256:
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    artifact.unpack_runtime(place)
    marker.write_text(artifact.sha256)
