"""Who is who: the semantic hash of a program and the ids derived from it. Minted at capture, carried ever after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tensorfarm.contract.canonical import canonical_text, live_weights
from tensorfarm.contract.digest import sha256_json, sha256_text
from tensorfarm.contract.graph import Graph


def mint_semantic_hash(graph: Graph, takes: str = "", returns: str = "") -> str:
    """Hex sha256 of the canonical text. Called by capture; everyone else carries the result."""
    return sha256_text(canonical_text(graph, takes, returns))


def input_spec_id(graph: Graph) -> str:
    """Hex sha256 over dtype, shape, stride and gradient flag of every input, and the strides of every live weight.

    A weight's layout is no meaning, but eager operators hand it on to their outputs, and artifacts are built for it.
    """
    inputs = [
        repr(item.literal)
        if item.spec is None
        else [str(item.spec.dtype), list(item.spec.shape), list(item.spec.stride), item.requires_grad]
        for item in graph.inputs
    ]
    weights = [list(graph.weights[name].spec.stride) for name in live_weights(graph)]
    return sha256_json({"inputs": inputs, "weights": weights})


@dataclass(frozen=True)
class CandidateKey:
    """Everything an artifact depends on. Its hash is the candidate's id and the artifact cache's key.

    ``pass_digests`` maps each user-written pass in the pipeline (``module:Class``) to the sha256 of its source.
    """

    semantic_hash: str
    input_spec_id: str
    mode: str
    contract_hash: str
    target: str
    toolchain_id: str
    pipeline: str
    pass_digests: Mapping[str, str]

    @property
    def candidate_id(self) -> str:
        fields = {**vars(self), "pass_digests": dict(self.pass_digests)}
        return sha256_json({"format": "tensorfarm.candidate/1", **fields})
