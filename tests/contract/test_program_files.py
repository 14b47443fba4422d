"""Programs and artifacts as files: what was captured or compiled comes back, or is refused."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tensorfarm.contract.artifact import open_artifact, write_artifact
from tensorfarm.contract.bundle import CorruptBundle, pack
from tensorfarm.contract.graph import Graph, Input, Node, Output, OutputKind, Ref, TensorSpec, Weight, WeightKind
from tensorfarm.contract.identity import input_spec_id, mint_semantic_hash
from tensorfarm.contract.manifest import Decision, Entry, EntryKind, Manifest, Numerics
from tensorfarm.contract.program import Program
from tensorfarm.contract.tensors import tensor_sha256


@pytest.fixture
def program() -> Program:
    x, weight = torch.ones(2, 3), torch.arange(6.0).reshape(3, 2).t()
    spec = TensorSpec.of(x)
    entry = Weight("w", WeightKind.PARAMETER, "layer.w", TensorSpec.of(weight), tensor_sha256(weight), True)
    node = Node("sum", "aten.add.Tensor", (Ref("x"), Ref("w")), (), (spec,), origins=("sum",), source="model.py:3")
    graph = Graph((Input("x", spec),), {"w": entry}, {"sum": node}, (Output(OutputKind.USER, Ref("sum")),))
    return Program(
        source="my.models:factory",
        semantic_hash=mint_semantic_hash(graph),
        input_spec_id=input_spec_id(graph),
        graph=graph,
        weights={"w": weight},
        inputs={"x": x},
        in_spec="in",
        takes="builtins.tuple(*)",
        returns="builtins.dict['y'](*)",
        exported=b"bytes of a file",
    )


def _manifest(program: Program) -> Manifest:
    entries = (
        Entry(EntryKind.PASS, "dce", Decision.NO_OP, ir_hash_before="g0", ir_hash_after="g0"),
        Entry(EntryKind.SITE, "cse", Decision.REFUSED, site="s1", reason="it draws", attributes={"limit": "4"}),
        Entry(EntryKind.PASS, "cse", numerics=Numerics.ROUNDING, ir_hash_before="g0", ir_hash_after="g1"),
    )
    return Manifest(program.semantic_hash, "fx:dce,cse", {"torch": "2.13.0"}, "g0", "g1", entries)


def _rewritten(place: Path, member: str, change: Callable[[bytes], bytes]) -> None:
    """The bundle with one member changed and every checksum right."""
    with zipfile.ZipFile(place) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    pack(place, members | {member: change(members[member])})


def test_a_program_comes_back_with_its_strides(program: Program, tmp_path: Path) -> None:
    sha256 = program.save(tmp_path / "deep" / "a.program")
    back = Program.load(tmp_path / "deep" / "a.program", sha256)
    plain = {name: value for name, value in vars(program).items() if name not in ("weights", "inputs", "members")}
    assert {name: getattr(back, name) for name in plain} == plain
    assert torch.equal(back.weights["w"], program.weights["w"])
    assert back.weights["w"].stride() == (1, 2)
    assert torch.equal(back.inputs["x"], program.inputs["x"])
    assert back.canonical == program.canonical
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.program"]


def test_the_members_that_were_proved_are_enough(program: Program, tmp_path: Path) -> None:
    """Whoever was told them reads no weight before it is asked for; then the whole file is proved."""
    place = tmp_path / "a.program"
    sha256 = program.save(place)
    members = Program.load(place, sha256).members
    assert sorted(members) == ["graph.json", "inputs.tensors", "program.json", "source.pt2"]
    _rewritten(place, "weights.tensors", lambda content: content[:-1] + bytes([content[-1] ^ 1]))
    back = Program.load(place, sha256, members)
    assert back.canonical == program.canonical
    with pytest.raises(CorruptBundle, match=f"{sha256[:12]} was asked for"):
        back.weights["w"]
    _rewritten(place, "inputs.tensors", lambda content: content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CorruptBundle, match=r"member inputs.tensors of bundle a.program is damaged"):
        Program.load(place, sha256, members)


def test_saving_twice_gives_the_same_bytes(program: Program, tmp_path: Path) -> None:
    assert program.save(tmp_path / "one") == Program.load(tmp_path / "one").save(tmp_path / "two")


def test_an_edited_weight_byte_is_refused_by_the_weight_s_name(program: Program, tmp_path: Path) -> None:
    place = tmp_path / "a.program"
    program.save(place)
    _rewritten(place, "weights.tensors", lambda content: content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CorruptBundle, match=r"weight layer.w in a.program is not the one that was captured"):
        Program.load(place)


def test_a_missing_weight_and_a_foreign_format_are_refused(program: Program, tmp_path: Path) -> None:
    place = tmp_path / "a.program"
    replace(program, weights={}).save(place)
    with pytest.raises(CorruptBundle, match=r"weight layer.w"):
        Program.load(place)
    program.save(place)
    _rewritten(place, "program.json", lambda content: content.replace(b"program/2", b"program/9"))
    with pytest.raises(CorruptBundle, match=r"format 'tensorfarm.program/9'"):
        Program.load(place)


@pytest.fixture
def artifact(program: Program, tmp_path: Path) -> tuple[Path, str]:
    kernel = tmp_path / "kernel.so"
    kernel.write_bytes(b"machine code")
    place = tmp_path / "store" / "a.artifact"
    sha256 = write_artifact(
        place,
        semantic_hash=program.semantic_hash,
        candidate_id="c1",
        runtime="graph",
        options={"threads": 1},
        graph=program.graph,
        weights=program.weights,
        manifest=_manifest(program),
        runtime_files={"lib/kernel.so": kernel},
    )
    return place, sha256


def test_an_artifact_comes_back(program: Program, artifact: tuple[Path, str], tmp_path: Path) -> None:
    back = open_artifact(*artifact)
    assert (back.sha256, back.semantic_hash, back.candidate_id) == (artifact[1], program.semantic_hash, "c1")
    assert (back.runtime, back.options, back.graph) == ("graph", {"threads": 1}, program.graph)
    assert back.manifest == _manifest(program)
    assert torch.equal(back.weights["w"], program.weights["w"])
    back.unpack_runtime(tmp_path / "unpacked")
    assert (tmp_path / "unpacked" / "lib" / "kernel.so").read_bytes() == b"machine code"
    assert [path.name for path in artifact[0].parent.iterdir()] == ["a.artifact"]


def test_other_bytes_than_those_that_were_gated_are_refused(artifact: tuple[Path, str]) -> None:
    place, sha256 = artifact
    _rewritten(place, "manifest.json", lambda content: content.replace(b"it draws", b"it sings"))
    with pytest.raises(CorruptBundle, match="was asked for"):
        open_artifact(place, sha256)


def test_a_program_is_no_artifact(program: Program, tmp_path: Path) -> None:
    sha256 = program.save(tmp_path / "a.program")
    with pytest.raises(CorruptBundle, match=r"no member artifact.json"):
        open_artifact(tmp_path / "a.program", sha256)


def test_a_manifest_comes_back_from_its_json(program: Program) -> None:
    manifest = _manifest(program)
    assert Manifest.from_json(json.loads(manifest.to_json())) == manifest
    assert Manifest.from_json(json.loads(manifest.to_json())).to_json() == manifest.to_json()


def test_a_whole_chain_has_no_gap(program: Program) -> None:
    assert _manifest(program).gaps() == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"captured_ir_hash": "other"}, "before dce: the graph is g0, the last entry left other"),
        ({"lowered_ir_hash": "other"}, "after the last pass: the artifact's graph is other, not g1"),
        ({"entries": ()}, "after the last pass: the artifact's graph is g1, not g0"),
    ],
)
def test_a_change_that_no_pass_owns_up_to_is_a_gap(program: Program, change: dict, says: str) -> None:
    assert replace(_manifest(program), **change).gaps() == [says]


def test_a_removed_pass_leaves_a_gap(program: Program) -> None:
    manifest = _manifest(program)
    third = Entry(EntryKind.PASS, "fuse", ir_hash_before="g1", ir_hash_after="g2")
    chained = replace(manifest, entries=(*manifest.entries, third), lowered_ir_hash="g2")
    assert chained.gaps() == []
    assert replace(chained, entries=(manifest.entries[0], third)).gaps() == [
        "before fuse: the graph is g1, the last entry left g0"
    ]
