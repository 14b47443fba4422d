"""A program: canonical graph, weights as bytes, example inputs, and where the original came from.

Weights are never re-initialised: seeded weights differ between CPU instruction sets. Invariant: ``semantic_hash`` is
the one that capture minted, and every weight's bytes hash to what the graph says.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

from tensorfarm.contract import graph_json
from tensorfarm.contract.bundle import Bundle, CorruptBundle, pack
from tensorfarm.contract.canonical import canonical_text
from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.tensors import read_tensors, tensor_sha256, write_tensors

FORMAT = "tensorfarm.program/2"
EXPORTED = "source.pt2"
# What a candidate is compiled and judged for: the outputs alone, or the gradients as well.
MODES = ("inference", "training")


@dataclass(frozen=True)
class Program:
    """``source`` is ``package.module:factory`` or the file name of an export; ``exported`` that file's bytes.

    ``weights`` maps a graph weight's name to its tensor, ``inputs`` a tensor input's name to its example.
    ``in_spec`` is torch's serialised pytree spec of ``(args, kwargs)``, to pack inputs by; ``takes`` and ``returns``
    are ``structure_text`` of inputs and outputs, which are part of the identity.
    """

    source: str
    semantic_hash: str
    input_spec_id: str
    graph: Graph
    weights: dict[str, torch.Tensor]
    inputs: dict[str, torch.Tensor]
    in_spec: str
    takes: str
    returns: str
    exported: bytes | None = None

    @property
    def canonical(self) -> str:
        """The text that ``semantic_hash`` is the hash of."""
        return canonical_text(self.graph, self.takes, self.returns)

    def save(self, path: Path) -> str:
        """Write one file and return its sha256."""
        header = {
            "format": FORMAT,
            "source": self.source,
            "semantic_hash": self.semantic_hash,
            "input_spec_id": self.input_spec_id,
            "in_spec": self.in_spec,
            "takes": self.takes,
            "returns": self.returns,
        }
        members: dict[str, bytes | Path] = {
            "program.json": canonical_json(header).encode(),
            "graph.json": graph_json.dumps(self.graph).encode(),
        }
        if self.exported is not None:
            members[EXPORTED] = self.exported
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=path.name, dir=path.parent) as scratch:
            for name, tensors in (("weights.tensors", self.weights), ("inputs.tensors", self.inputs)):
                place = members[name] = Path(scratch) / name
                write_tensors(place, tensors)
            return pack(path, members)

    @staticmethod
    def load(path: Path, expected_sha256: str | None = None) -> Program:
        """Read a program. Raises CorruptBundle where the file, a weight or the format is not what it says."""
        bundle = Bundle(path, expected_sha256)
        header = json.loads(bundle.read("program.json"))
        if header.get("format") != FORMAT:
            raise CorruptBundle(
                f"{path.name} has format {header.get('format')!r}", limit=FORMAT, next_step="capture it again"
            )
        graph = graph_json.decoded(json.loads(bundle.read("graph.json")))
        weights = read_member(bundle, "weights.tensors")
        for name, weight in graph.weights.items():
            if name not in weights or tensor_sha256(weights[name]) != weight.sha256:
                raise CorruptBundle(f"weight {weight.target} in {path.name} is not the one that was captured")
        return Program(
            source=header["source"],
            semantic_hash=header["semantic_hash"],
            input_spec_id=header["input_spec_id"],
            graph=graph,
            weights=weights,
            inputs=read_member(bundle, "inputs.tensors"),
            in_spec=header["in_spec"],
            takes=header["takes"],
            returns=header["returns"],
            exported=bundle.read(EXPORTED) if EXPORTED in bundle.names() else None,
        )


def read_member(bundle: Bundle, name: str) -> dict[str, torch.Tensor]:
    """Tensors stored as member ``name`` of a bundle."""
    with tempfile.TemporaryDirectory(prefix="tensorfarm-") as folder:
        place = Path(folder) / "member"
        place.write_bytes(bundle.read(name))
        return read_tensors(place)
