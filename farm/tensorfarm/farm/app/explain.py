"""Why two artifacts differ: opens both, and says it from their manifests and from what the store knows of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tensorfarm.contract.artifact import RUNTIME_FOLDER, open_artifact
from tensorfarm.contract.bundle import Bundle
from tensorfarm.contract.digest import sha256_json
from tensorfarm.farm.app.artifact_names import known_candidate, named
from tensorfarm.farm.app.difference import Difference, Side, cause, differences
from tensorfarm.farm.store.layout import StoreLayout


@dataclass(frozen=True)
class Explanation:
    """``cause`` is the most upstream difference in words; ``differences`` are all of them, in that order."""

    a: str
    b: str
    cause: str
    differences: Sequence[Difference]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def explain(store: Path, a: str, b: str) -> Explanation:
    """Compare two artifacts, each named as ``artifact_names`` has it. Refuses what is not there, unclear or damaged."""
    layout = StoreLayout(store)
    one, other = (_side(layout, name) for name in (a, b))
    found = [] if one.sha256 == other.sha256 else differences(one, other)
    return Explanation(one.sha256, other.sha256, cause(one, other, found), found)


def _side(layout: StoreLayout, name: str) -> Side:
    place = named(name, layout)
    artifact, bundle = open_artifact(place.path, place.sha256), Bundle(place.path)
    names = [member for member in bundle.names() if member.startswith(RUNTIME_FOLDER)]
    files = {member: hashlib.sha256(bundle.read(member)).hexdigest() for member in names}
    submitted, digests = place.submitted, place.pass_digests
    if not submitted:
        submitted, digests = known_candidate(layout, artifact.candidate_id)
    return Side(
        artifact.sha256,
        artifact.manifest,
        submitted,
        digests,
        weights={weight.name: weight.sha256 for weight in artifact.graph.weights.values()},
        runtime={"runtime": artifact.runtime, "options": sha256_json(dict(artifact.options)), **files},
    )
