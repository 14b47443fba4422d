"""A program: canonical graph, weights as bytes, example inputs, and where the original came from.

Weights are never re-initialised: seeded weights differ between CPU instruction sets. Invariant: ``semantic_hash`` is
the one that capture minted, and every weight's bytes hash to what the graph says.
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tensorfarm.contract import graph_json
from tensorfarm.contract.bundle import Bundle, CorruptBundle, pack
from tensorfarm.contract.canonical import canonical_text
from tensorfarm.contract.digest import canonical_json, sha256_bytes
from tensorfarm.contract.graph import Graph
from tensorfarm.contract.tensors import tensor_sha256, tensors_of, write_tensors

FORMAT = "tensorfarm.program/2"
EXPORTED = "source.pt2"
_HEADER, _GRAPH, _WEIGHTS, _INPUTS = "program.json", "graph.json", "weights.tensors", "inputs.tensors"
# What a candidate is compiled and judged for: the outputs alone, or the gradients as well.
MODES = ("inference", "training")


@dataclass(frozen=True)
class Program:
    """``source`` is ``package.module:factory`` or the file name of an export; ``exported`` that file's bytes.

    ``weights`` maps a graph weight's name to its tensor, ``inputs`` a tensor input's name to its example.
    ``in_spec`` is torch's serialised pytree spec of ``(args, kwargs)``, to pack inputs by; ``takes`` and ``returns``
    are ``structure_text`` of inputs and outputs, which are part of the identity. ``members`` are the
    sha256 of what the file holds beside the weights, empty where the program came from no file.
    """

    source: str
    semantic_hash: str
    input_spec_id: str
    graph: Graph
    weights: Mapping[str, torch.Tensor]
    inputs: dict[str, torch.Tensor]
    in_spec: str
    takes: str
    returns: str
    exported: bytes | None = None
    members: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)

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
            _HEADER: canonical_json(header).encode(),
            _GRAPH: graph_json.dumps(self.graph).encode(),
        }
        if self.exported is not None:
            members[EXPORTED] = self.exported
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=path.name, dir=path.parent) as scratch:
            for name, tensors in ((_WEIGHTS, self.weights), (_INPUTS, self.inputs)):
                place = members[name] = Path(scratch) / name
                write_tensors(place, tensors)
            return pack(path, members)

    @staticmethod
    def load(
        path: Path,
        expected_sha256: str | None = None,
        members: Mapping[str, str] | None = None,
        *,
        proves_weights: bool = True,
    ) -> Program:
        """Read a program. Raises CorruptBundle where the file, a weight or the format is not what it says.

        Weights of a file that was asked for by its sha256 are read when the first of them is, and each proved unless
        the file's own proof is enough: somebody has proved them before. ``members``: those of the program, told by
        whoever has loaded it; then only these are proved until a weight is read.
        """
        bundle = Bundle(path, expected_sha256, members)
        contents = {_HEADER: bundle.read(_HEADER)}
        header = json.loads(contents[_HEADER])
        if header.get("format") != FORMAT:
            raise CorruptBundle(
                f"{path.name} has format {header.get('format')!r}", limit=FORMAT, next_step="capture it again"
            )
        present = [name for name in (_GRAPH, _INPUTS, EXPORTED) if name != EXPORTED or name in bundle.names()]
        contents |= {name: bundle.read(name) for name in present}
        graph = graph_json.decoded(json.loads(contents[_GRAPH]))
        weights = StoredWeights(bundle, graph, proves=proves_weights or expected_sha256 is None)
        if expected_sha256 is None:
            weights.read()
        return Program(
            source=header["source"],
            semantic_hash=header["semantic_hash"],
            input_spec_id=header["input_spec_id"],
            graph=graph,
            weights=weights,
            inputs=tensors_of(io.BytesIO(contents[_INPUTS]), _INPUTS),
            in_spec=header["in_spec"],
            takes=header["takes"],
            returns=header["returns"],
            exported=contents.get(EXPORTED),
            members=dict(members or {name: sha256_bytes(content) for name, content in contents.items()}),
        )


class StoredWeights(Mapping[str, torch.Tensor]):
    """The weights of a bundle by their names in the graph, all read at once when the first is asked for.

    Whoever needs the graph alone need not read gigabytes. Raises CorruptBundle for a weight with other bytes.
    """

    def __init__(self, bundle: Bundle, graph: Graph, *, proves: bool) -> None:
        self._bundle, self._graph, self._proves = bundle, graph, proves
        self._read: dict[str, torch.Tensor] | None = None

    def read(self) -> dict[str, torch.Tensor]:
        if self._read is None:
            found = read_member(self._bundle, _WEIGHTS)
            for name, weight in self._graph.weights.items():
                if name not in found or (self._proves and tensor_sha256(found[name]) != weight.sha256):
                    place = self._bundle.path.name
                    raise CorruptBundle(f"weight {weight.target} in {place} is not the one that was captured")
            self._read = found
        return self._read

    def __getitem__(self, name: str) -> torch.Tensor:
        return self.read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.read())

    def __len__(self) -> int:
        return len(self.read())


def read_member(bundle: Bundle, name: str) -> dict[str, torch.Tensor]:
    """Tensors stored as member ``name`` of a bundle."""
    with bundle.stream(name) as stream:
        return tensors_of(stream, name)
