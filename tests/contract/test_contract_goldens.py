"""What everyone shares, pinned: hashes, events, a bundle. A difference here is a new version and a decision record.

``pytest tests/contract --rewrite-goldens`` writes them anew.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import MISSING, Field, asdict, fields, replace
from pathlib import Path

import pytest
import torch

from tensorfarm.contract.artifact import open_artifact, write_artifact
from tensorfarm.contract.capture import captured
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.events import TYPES, Event, Recorded, decoded, recorded
from tensorfarm.contract.graph import Graph, Input, Node, Output, OutputKind, Ref, TensorSpec, Weight, WeightKind
from tensorfarm.contract.identity import CandidateKey, mint_semantic_hash
from tensorfarm.contract.manifest import Decision, Entry, EntryKind, Manifest
from tensorfarm.contract.numerics import read_contract
from tensorfarm.contract.outcome import Outcome
from tensorfarm.contract.program import Program

ROOT = Path(__file__).parents[2]
GOLDENS = ROOT / "tests" / "goldens" / "contract"
SPEC = TensorSpec(torch.float32, (2, 4), (4, 1))
Pinned = Callable[[str, str], None]


@pytest.fixture
def pinned(rewrite_goldens: bool) -> Pinned:
    def compare(name: str, text: str) -> None:
        if rewrite_goldens:
            GOLDENS.mkdir(parents=True, exist_ok=True)
            (GOLDENS / name).write_text(text)
        assert (GOLDENS / name).read_text() == text

    return compare


def drawn_graph() -> Graph:
    """Two draws, a specialised input, a cast, and constants whose bits matter."""
    nodes = [
        Node("first", "aten.bernoulli.p", (Ref("x"), 0.25), (), (SPEC,)),
        Node("second", "aten.bernoulli.p", (Ref("x"), 0.25), (), (SPEC,)),
        Node("apart", "aten.sub.Tensor", (Ref("second"), Ref("first")), (("alpha", 2),), (SPEC,)),
        Node("scaled", "aten.mul.Scalar", (Ref("apart"), -0.0), (), (SPEC,)),
        Node(
            "cast",
            "aten._to_copy.default",
            (Ref("scaled"),),
            (("dtype", torch.bfloat16),),
            (TensorSpec(torch.bfloat16, (2, 4), (4, 1)),),
        ),
    ]
    inputs = (Input("x", SPEC, None, True), Input("mode", None, "mean"))
    outputs = (Output(OutputKind.USER, Ref("cast")), Output(OutputKind.USER, (Ref("apart"), 1e-3, None, True)))
    return Graph(inputs, {}, {node.name: node for node in nodes}, outputs)


def weighted_graph() -> Graph:
    """Equal weights kept apart, a shared value, many results, and a buffer that is written."""
    half = TensorSpec(torch.float32, (2, 2), (2, 1))
    entries = [
        Weight("w", WeightKind.PARAMETER, "layer.w", SPEC, "ab" * 32, True),
        Weight("v", WeightKind.PARAMETER, "layer.v", SPEC, "ab" * 32, True),
        Weight("mean", WeightKind.BUFFER, "layer.mean", SPEC, "cd" * 32),
    ]
    nodes = [
        Node("sum", "aten.add.Tensor", (Ref("w"), Ref("v")), (), (SPEC,)),
        Node("next", "aten.add.Tensor", (Ref("mean"), Ref("sum")), (), (SPEC,)),
        Node("parts", "aten.split.Tensor", (Ref("sum"), 2, 1), (), (half, half), True),
        Node("right", "getitem", (Ref("parts"), 1), (), (half,)),
        Node("left", "getitem", (Ref("parts"), 0), (), (half,)),
        Node("whole", "aten.cat.default", ((Ref("right"), Ref("left")), 1), (), (SPEC,)),
    ]
    outputs = (Output(OutputKind.USER, Ref("whole")), Output(OutputKind.MUTATES_BUFFER, Ref("next"), "layer.mean"))
    return Graph((), {item.name: item for item in entries}, {node.name: node for node in nodes}, outputs)


class SmallMLP(torch.nn.Module):
    """Weights written as bits: a seeded initialisation differs between instruction sets."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        with torch.no_grad():
            for number, parameter in enumerate(self.parameters()):
                bits = [0x3F800000 + 0x01234 * (number * 16 + place) for place in range(parameter.numel())]
                values = struct.unpack(f"<{len(bits)}f", struct.pack(f"<{len(bits)}I", *bits))
                parameter.copy_(torch.tensor(values).reshape(parameter.shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.nn.functional.gelu(self.up(x), approximate="tanh")) * 0.1


def small_mlp() -> Program:
    x = torch.tensor([[1.0, -2.0, 0.5]], requires_grad=True)
    return captured("goldens:small_mlp", torch.export.export(SmallMLP(), (x,), strict=False))


@pytest.mark.parametrize("graph", [drawn_graph(), weighted_graph()], ids=["drawn", "weighted"])
def test_a_built_graph_keeps_its_text_and_hash(pinned: Pinned, graph: Graph, request: pytest.FixtureRequest) -> None:
    graph.validate()
    program = Program("built", mint_semantic_hash(graph), "", graph, {}, {}, "", "", "")
    pinned(f"{request.node.callspec.id}.canonical.txt", f"{program.canonical}# sha256 {program.semantic_hash}\n")


def test_a_captured_model_keeps_its_text_and_hash(pinned: Pinned) -> None:
    program = small_mlp()
    text = f"{program.canonical}# sha256 {program.semantic_hash}\n# inputs {program.input_spec_id}\n"
    pinned("small_mlp.canonical.txt", text)


def test_a_candidate_keeps_its_id(pinned: Pinned) -> None:
    key = CandidateKey("s", "i", "training", "c", "cpu/avx512", "t", "fx:dce,cse", {"mine:Pass": "1"})
    pinned("candidate_id.txt", key.candidate_id + "\n")


def test_the_float32_contract_keeps_its_hash(pinned: Pinned) -> None:
    pinned("float32.hash.txt", read_contract(ROOT / "configs" / "contracts" / "float32.yaml").hash + "\n")


def _sample(item: Field) -> object:
    row = {"name": item.name, "worst": float("inf")}
    samples = {
        "int": 7,
        "float": 0.5,
        "bool": True,
        "Mapping[str, str]": {"my:Pass": "ab"},
        "Mapping[str, float]": {"seconds": 0.5},
        "Mapping[str, Any]": row,
        "tuple[str, ...]": (item.name,),
        "tuple[Mapping[str, Any], ...]": (row,),
    }
    return samples.get(str(item.type), f"<{item.name}>")


def _example(kind: type[Event]) -> Event:
    return kind(**{item.name: _sample(item) for item in fields(kind)})


def test_every_event_type_keeps_its_record(pinned: Pinned) -> None:
    records = [
        recorded(_example(kind), ts_us=1_700_000_000_000_000, attempt=1, cause_id="c") for kind in TYPES.values()
    ]
    pinned("events.jsonl", "".join(json.dumps(asdict(record), sort_keys=True) + "\n" for record in records))


def test_the_pinned_records_are_read_as_the_events_they_were() -> None:
    lines = (GOLDENS / "events.jsonl").read_text().splitlines()
    records = [Recorded(**json.loads(line)) for line in lines]
    assert [record.type for record in records] == list(TYPES)
    for record in records:
        event = decoded(record)
        assert recorded(event, ts_us=record.ts_us, attempt=record.attempt, cause_id=record.cause_id) == record
        without_default = [item.name for item in fields(event) if item.default is MISSING]
        assert all(getattr(event, name) is not None for name in without_default)


def test_records_of_before_a_field_was_added_are_read_as_the_events_they_were() -> None:
    """``events_1.jsonl`` is of before decision 0014: every word of it comes back, and what is new has its default."""
    for line in (GOLDENS / "events_1.jsonl").read_text().splitlines():
        record = Recorded(**json.loads(line))
        event = decoded(record)
        told = json.loads(record.payload)
        again = json.loads(recorded(event, ts_us=record.ts_us).payload)
        assert {name: value for name, value in again.items() if name in told} == told
        assert all(getattr(event, name) in (0, {}) for name in again.keys() - told.keys()), record.type


def test_the_names_that_others_store_are_the_agreed_ones(pinned: Pinned) -> None:
    outcomes = [f"{outcome.exit_code} {outcome.value}" for outcome in Outcome]
    pinned("names.txt", "\n".join([*outcomes, *(f"{name}/{kind.version}" for name, kind in TYPES.items())]) + "\n")


def _write(place: Path) -> str:
    """Without source lines, which change whenever a line is added above."""
    program = small_mlp()
    program.graph.nodes = {name: replace(node, source="") for name, node in program.graph.nodes.items()}
    entries = (Entry(EntryKind.PASS, "dce", Decision.NO_OP, ir_hash_before="g", ir_hash_after="g"),)
    return write_artifact(
        place,
        semantic_hash=program.semantic_hash,
        candidate_id="c" * 64,
        runtime="graph",
        options={},
        graph=program.graph,
        weights=program.weights,
        manifest=Manifest(program.semantic_hash, "fx:dce", {"torch": "2"}, "g", "g", entries),
    )


def test_the_pinned_artifact_is_still_read(pinned: Pinned, rewrite_goldens: bool) -> None:
    place = GOLDENS / "small_mlp.artifact"
    if rewrite_goldens:
        _write(place)
    pinned("small_mlp.artifact.sha256", sha256_file(place) + "\n")
    artifact = open_artifact(place, sha256_file(place))
    program = small_mlp()
    assert artifact.semantic_hash == program.semantic_hash
    assert [torch.equal(artifact.weights[name], tensor) for name, tensor in program.weights.items()] == [True] * 4


def test_writing_the_pinned_artifact_again_gives_its_bytes(tmp_path: Path) -> None:
    _write(tmp_path / "again")
    assert sha256_file(tmp_path / "again") == (GOLDENS / "small_mlp.artifact.sha256").read_text().strip()
