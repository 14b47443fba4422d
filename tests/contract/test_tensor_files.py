"""Tensor files: everything about a strided tensor comes back, and a file that is not whole is refused."""

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from tensorfarm.contract.digest import canonical_json
from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.tensors import parts_of, read_tensors, storage_sha256, write_tensors

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]
COMPLEX = [torch.complex64, torch.complex128]


@st.composite
def tensors(draw) -> torch.Tensor:
    """A view of some storage: any rank down to 0, any order of axes, with offsets, gaps, lazy conjugates and signs."""
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    dtype = draw(st.sampled_from(DTYPES + COMPLEX))
    raw = torch.randint(0, 2, [size + 2 for size in shape]).to(dtype)
    view = raw[tuple(slice(draw(st.integers(0, 2)), None, draw(st.integers(1, 2))) for _ in shape)]
    view = view.permute(draw(st.permutations(range(len(shape)))))
    if dtype in COMPLEX:
        view = draw(st.sampled_from([view, view.conj(), view.conj().imag]))
    return view


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    layout = (one.dtype, one.shape, one.stride(), one.storage_offset(), one.is_conj(), one.is_neg())
    return (
        layout == (other.dtype, other.shape, other.stride(), other.storage_offset(), other.is_conj(), other.is_neg())
        and torch.equal(one, other)
        and storage_sha256(one) == storage_sha256(other)
    )


@settings(max_examples=80, deadline=None)
@given(st.lists(tensors(), max_size=4))
def test_every_view_comes_back_as_it_was(views: list[torch.Tensor]) -> None:
    named = {f"t{place}": view for place, view in enumerate(views)}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "file"
        write_tensors(place, named)
        back = read_tensors(place)
        first = place.read_bytes()
        write_tensors(place, back)
        assert place.read_bytes() == first
    assert list(back) == list(named)
    assert [name for name in named if not _same(named[name], back[name])] == []


@settings(max_examples=40, deadline=None)
@given(st.lists(tensors(), max_size=4))
def test_the_file_is_what_safetensors_writes(views: list[torch.Tensor]) -> None:
    named = {f"t{place}": view for place, view in enumerate(views)}
    described, storages = parts_of(named)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        write_tensors(ours, named)
        save_file(storages, theirs, metadata={"tensorfarm.tensors/1": canonical_json(described)})
        assert ours.read_bytes() == theirs.read_bytes()
        assert load_file(ours).keys() == storages.keys()


def test_shared_memory_stays_shared_and_apart_stays_apart(tmp_path: Path) -> None:
    base = torch.arange(6.0)
    write_tensors(tmp_path / "file", {"all": base, "odd": base[1::2], "copy": base.clone()})
    back = read_tensors(tmp_path / "file")
    back["all"][3] = 99
    assert back["odd"].tolist() == [1, 99, 5]
    assert back["copy"].tolist() == [0, 1, 2, 3, 4, 5]


def test_an_expanded_tensor_costs_one_element(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", {"wide": torch.ones(1).expand(1 << 20)})
    assert (tmp_path / "file").stat().st_size < 1000
    assert read_tensors(tmp_path / "file")["wide"].stride() == (0,)


def test_a_gradient_is_not_written(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", {"x": torch.ones(2, requires_grad=True)})
    assert not read_tensors(tmp_path / "file")["x"].requires_grad


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "file"
    write_tensors(place, {"x": torch.arange(10.0)})
    whole = place.read_bytes()
    for length in (0, 4, 8, 20, len(whole) // 2, len(whole) - 1):
        place.write_bytes(whole[:length])
        with pytest.raises(Refusal, match="file is no readable tensor file"):
            read_tensors(place)


def test_a_missing_or_foreign_file_is_refused(tmp_path: Path) -> None:
    save_file({"x": torch.ones(1)}, tmp_path / "foreign")
    for name in ("foreign", "missing"):
        with pytest.raises(Refusal, match=f"{name} is no readable tensor file"):
            read_tensors(tmp_path / name)


@pytest.mark.parametrize(
    "views",
    [
        '[{"name":"x"}]',
        '[{"name":"x","storage":"s9","dtype":"float32"}]',
        '[{"name":"x","storage":"s","dtype":"float33","shape":[1],"stride":[1],"offset":0}]',
        '[{"name":"x","storage":"s","dtype":"float32","shape":["a"],"stride":[1],"offset":0}]',
        '[{"name":"x","storage":"s","dtype":"float32","shape":[9],"stride":[1],"offset":-4}]',
        "{",
        "7",
    ],
)
def test_a_view_that_the_file_cannot_hold_is_refused(tmp_path: Path, views: str) -> None:
    save_file({"s": torch.zeros(4, dtype=torch.uint8)}, tmp_path / "file", metadata={"tensorfarm.tensors/1": views})
    with pytest.raises(Refusal, match="file is no readable tensor file"):
        read_tensors(tmp_path / "file")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    place = tmp_path / "file"
    write_tensors(place, {"x": torch.ones(2)})
    with pytest.raises((TypeError, NotImplementedError, RuntimeError)):
        write_tensors(place, {"x": torch.ones(2).to_sparse()})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert read_tensors(place)["x"].tolist() == [1, 1]
