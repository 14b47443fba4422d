"""YAML that a person wrote: nothing written there is dropped in silence."""

from pathlib import Path

import pytest

from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.yaml_file import read_yaml


def _read(tmp_path: Path, text: str) -> object:
    (tmp_path / "some.yaml").write_text(text)
    return read_yaml(tmp_path / "some.yaml", "sweep file")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed: 1\nname: a\nseed: 2\n", ("the key 'seed' is given twice", "line 3")),
        ("limits:\n  - {a: 1, b: 2, a: 1}\n", ("the key 'a' is given twice", "line 2")),
        ("a: 1\n'a': 2\n", ("the key 'a' is given twice", "line 2")),
        ("day: 2026-99-99\n", ("it is no YAML",)),
        ("[" * 5000, ("it is no YAML",)),
        ("a: [1\n", ("it is no YAML",)),
    ],
)
def test_a_key_given_twice_and_what_is_no_yaml_are_refused_in_one_line(
    tmp_path: Path, text: str, says: tuple[str, ...]
) -> None:
    with pytest.raises(Refusal) as refused:
        _read(tmp_path, text)
    assert all(word in str(refused.value) for word in (*says, "sweep file", "some.yaml", "; mend it there"))
    assert "\n" not in str(refused.value)


def test_a_merged_mapping_may_be_overridden_and_a_number_is_not_its_text(tmp_path: Path) -> None:
    text = "base: &base {a: 1, b: 2}\nmore: &more {<<: *base, b: 3}\nlast: {<<: *more, b: 4}\n1: x\n'1': y\n"
    assert _read(tmp_path, text) == {
        "base": {"a": 1, "b": 2},
        "more": {"a": 1, "b": 3},
        "last": {"a": 1, "b": 4},
        1: "x",
        "1": "y",
    }
