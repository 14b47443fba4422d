"""Bundles: equal members are equal bytes, and bytes that are not the ones asked for are refused."""

import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract.bundle import Bundle, CorruptBundle, pack
from tensorfarm.contract.digest import sha256_file, sha256_tree

MEMBERS = {"b.json": b"{}", "a/deep": b"\x00\xff", "empty": b""}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "some.bundle"


@settings(max_examples=20, deadline=None)
@given(st.permutations(list(MEMBERS)))
def test_the_order_of_members_leaves_no_trace(tmp_path_factory: pytest.TempPathFactory, order: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp()
    reference = pack(folder / "one", MEMBERS)
    assert pack(folder / "two", {name: MEMBERS[name] for name in order}) == reference
    assert (folder / "one").read_bytes() == (folder / "two").read_bytes()


def test_a_file_s_date_leaves_no_trace_and_its_executable_bit_does(place: Path, tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_bytes(b"run")
    tool.chmod(0o644)
    plain = pack(place, {"tool": tool})
    os.utime(tool, (1, 1))
    assert pack(place, {"tool": tool}) == plain == pack(place, {"tool": b"run"})
    tool.chmod(0o755)
    assert pack(place, {"tool": tool}) != plain
    Bundle(place).extract(tmp_path / "out")
    assert os.access(tmp_path / "out" / "tool", os.X_OK)


def test_members_come_back(place: Path, tmp_path: Path) -> None:
    sha256 = pack(place, MEMBERS)
    bundle = Bundle(place, sha256)
    assert sha256 == sha256_file(place)
    assert {name: bundle.read(name) for name in bundle.names()} == MEMBERS
    bundle.extract(tmp_path / "out", "a/")
    assert [path.name for path in (tmp_path / "out").rglob("*")] == ["deep"]


def test_a_changed_byte_is_refused(place: Path) -> None:
    sha256 = pack(place, MEMBERS)
    content = bytearray(place.read_bytes())
    content[len(content) // 2] ^= 1
    place.write_bytes(content)
    with pytest.raises(CorruptBundle, match=sha256[:12]):
        Bundle(place, sha256)


def test_a_changed_member_is_refused_even_where_no_hash_was_asked_for(place: Path) -> None:
    pack(place, {"member": b"precious bytes"})
    place.write_bytes(place.read_bytes().replace(b"precious", b"PRECIOUS"))
    with pytest.raises(CorruptBundle, match=r"member member of bundle some.bundle is damaged"):
        Bundle(place).read("member")


def test_a_member_is_streamed_from_where_it_lies(place: Path) -> None:
    sha256 = pack(place, MEMBERS)
    for name, content in MEMBERS.items():
        with Bundle(place, sha256).stream(name) as stream:
            assert stream.read(len(content)) == content
    with pytest.raises(CorruptBundle, match="has no member nothing"), Bundle(place, sha256).stream("nothing"):
        pass


@pytest.mark.parametrize("content", [b"", b"not a bundle", None])
def test_what_is_no_bundle_is_refused(place: Path, content: bytes | None) -> None:
    if content is not None:
        place.write_bytes(content)
    with pytest.raises(CorruptBundle, match=r"some.bundle (is not a bundle|does not exist)"):
        Bundle(place)


def test_an_unknown_member_is_refused(place: Path) -> None:
    pack(place, MEMBERS)
    with pytest.raises(CorruptBundle, match="has no member nothing"):
        Bundle(place).read("nothing")


@pytest.mark.parametrize("name", ["../escaped", "/escaped", "deep/../../escaped"])
def test_a_path_that_leads_outside_is_refused(place: Path, tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(CorruptBundle, match="outside of itself"):
        Bundle(place).extract(tmp_path / "out" / "in")
    assert not list(tmp_path.rglob("escaped"))


def test_a_failed_write_leaves_nothing(place: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        pack(place, {"a": b"x", "b": tmp_path / "missing"})
    assert list(tmp_path.iterdir()) == []


def test_a_tree_s_digest_sees_names_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    before = sha256_tree(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    assert sha256_tree(tmp_path) == before
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert sha256_tree(tmp_path) != before
