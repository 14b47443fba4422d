"""The file of a case's expectations: whose bytes stand where two write, what is read of it, and what is proved."""

import hashlib
import multiprocessing
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest
import torch
from gate_workshop import program

from tensorfarm.contract.exchange import CallReport
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.gate import indexed_file
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.indexed_file import IndexedFile
from tensorfarm.gate.observation import Observation
from tensorfarm.gate.oracle_file import OracleFile


def expected(number: float) -> dict[str, tuple[Expectation, ...]]:
    seen = Observation({"output:0": torch.full((3,), number)}, CallReport())
    return {"example": (Expectation(seen, cotangents={0: torch.full((3,), number)}),)}


def judge(path: Path, number: float, both: Barrier, told: Any) -> None:
    """One judge. It has computed only when the other one has found no file either."""

    def compute() -> dict[str, tuple[Expectation, ...]]:
        both.wait(60)
        return expected(number)

    cotangents, sha256, found = OracleFile(path, shared=True).kept(compute)
    told.put((number, float(cotangents["example"][0][0][0]), sha256, found))


def test_where_two_judges_compute_at_once_the_first_ones_oracle_stands_for_both(tmp_path: Path) -> None:
    forked = multiprocessing.get_context("fork")
    both, told = forked.Barrier(2), forked.Queue()
    path = tmp_path / "oracles" / "one.oracle"
    judges = [forked.Process(target=judge, args=(path, number, both, told)) for number in (1.0, 2.0)]
    for one in judges:
        one.start()
    rows = [told.get(timeout=60) for _ in judges]
    for one in judges:
        one.join(60)
    assert {number for number, *_ in rows} == {1.0, 2.0}
    (asked,) = {given for _, given, *_ in rows}
    (sha256,) = {sha256 for *_, sha256, _ in rows}
    assert [found for *_, found in rows] == [False, False]
    kept = OracleFile(path, shared=True).believed(sha256, lambda: pytest.fail("it is there"))
    assert kept["example"][0].eager.tensors["output:0"].tolist() == [asked] * 3
    assert [item.name for item in path.parent.iterdir()] == [path.name]
    assert path.parent.stat().st_mode & 0o222 == 0
    path.parent.chmod(0o755)


def test_an_oracle_that_was_changed_meanwhile_is_computed_again_and_put_right(tmp_path: Path) -> None:
    place = OracleFile(tmp_path / "one.oracle", shared=False)
    _, sha256, _ = place.kept(lambda: expected(1.0))
    place.path.unlink()
    OracleFile(place.path, shared=False).kept(lambda: expected(2.0))
    found = place.believed(sha256, lambda: expected(1.0))
    assert found["example"][0].eager.tensors["output:0"].tolist() == [1.0] * 3
    assert place.kept(lambda: pytest.fail("it is there"))[1:] == (sha256, True)


def test_a_comparison_is_made_once_of_the_same_tensors_and_anew_of_equal_ones() -> None:
    asked: list[str] = []

    def answer() -> int:
        asked.append("")
        return len(asked)

    seen = Observation({}, CallReport())
    evidence = Evidence(None, {}, {}, {"main": {"example": (seen,)}})  # type: ignore[arg-type]  # asked for no setting
    value, other = torch.zeros(2), torch.zeros(2)
    assert evidence.once(("size",), (value, None), answer) == 1
    assert evidence.once(("size",), (value, None), answer) == 1
    assert evidence.once(("size",), (other, None), answer) == 2
    assert evidence.once(("shape",), (value, None), answer) == 3
    planted = evidence.with_seen("example", 0, Observation({"output:0": other}, CallReport()))
    assert planted.once(("size",), (value, None), answer) == 1
    for _ in range(100):  # a tensor that is gone gives its id away, unless it is held
        evidence.once(("size",), (torch.zeros(2), None), answer)
    assert len(asked) == 103


def test_equal_storages_lie_once_and_each_tensor_comes_back_as_it_was(tmp_path: Path) -> None:
    whole = torch.arange(4096.0)
    tensors = {"a": whole.view(64, 64).t(), "b": whole[7:11], "c": whole.clone(), "none": torch.empty(0, 3)}
    path = tmp_path / "file"
    sha256 = indexed_file.write(path, {"of": "a test"}, tensors)
    assert path.stat().st_size < 2 * whole.nbytes
    file = IndexedFile(path)
    assert (file.sha256, file.note) == (sha256, {"of": "a test"})
    found = file.tensors(lambda _: True)
    assert list(found) == list(tensors)
    for name, value in tensors.items():
        assert torch.equal(found[name], value)
        assert found[name].stride() == value.stride()
    assert indexed_file.write(tmp_path / "again", {"of": "a test"}, tensors) == sha256
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_a_byte_that_is_not_the_indexs_is_refused_by_who_reads_it_and_by_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    sha256 = indexed_file.write(path, None, {"first": torch.zeros(100), "second": torch.ones(100)})
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    file = IndexedFile(path)
    assert file.sha256 == sha256
    assert torch.equal(file.tensors(lambda name: name == "first")["first"], torch.zeros(100))
    with pytest.raises(Refusal, match="no readable indexed file"):
        file.tensors(lambda name: name == "second")


@pytest.mark.parametrize("kept_bytes", [0, 4, 40, -100])
def test_a_file_that_ends_too_early_is_refused(tmp_path: Path, kept_bytes: int) -> None:
    path = tmp_path / "file"
    indexed_file.write(path, None, {"one": torch.ones(100)})
    path.write_bytes(path.read_bytes()[:kept_bytes])
    with pytest.raises(Refusal, match="no readable indexed file"):
        IndexedFile(path).tensors(lambda _: True)


def test_an_index_with_other_words_has_another_sha256(tmp_path: Path) -> None:
    path = tmp_path / "file"
    sha256 = indexed_file.write(path, "a note", {"one": torch.ones(100)})
    path.write_bytes(path.read_bytes().replace(b"a note", b"b note"))
    assert IndexedFile(path).sha256 != sha256


def test_weights_of_a_program_that_is_known_by_its_sha256_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    path, source = tmp_path / "one.program", tmp_path / "wide.py"
    source.write_text("import torch\n\n\ndef wide():\n    return torch.nn.Linear(999, 999), (torch.ones(2, 999),)\n")
    made = program(f"{source}:wide")  # far larger than what is read ahead
    made.save(path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    loaded, whole = Program.load(path, sha256), Program.load(path, sha256)
    assert all(torch.equal(whole.weights[name], value) for name, value in made.weights.items())
    largest = max(made.weights.values(), key=lambda value: value.nbytes)
    with path.open("r+b") as stream:
        stream.seek(path.read_bytes().rindex(largest.contiguous().numpy().tobytes()) + largest.nbytes // 2)
        stream.write(b"\xa5" * 8)
    assert all(torch.equal(whole.weights[name], value) for name, value in made.weights.items())
    assert loaded.graph.weights.keys() == made.weights.keys()
    with pytest.raises(Refusal):
        next(iter(loaded.weights.values()))
