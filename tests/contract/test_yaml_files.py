"""YAML that a person wrote: nothing written there is dropped in silence."""

import time
from pathlib import Path

import pytest

from tensorfarm.contract.refusal import Refusal
from tensorfarm.contract.yaml_file import parsed_yaml, read_yaml


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
        ("a: &a {b: *a}\n", ("it is no YAML", "an alias stands inside of what it names", "line 1")),
        ("count: 1" + ":59" * 400 + ".5", ("it is no YAML",)),
        ("count: 0x" + "f" * 5000, ("it is no YAML", "a number of 5002 characters", "line 1")),
        ("count: !!int ''\n", ("it is no YAML",)),
        ("yes: !!bool perhaps\n", ("it is no YAML",)),
        ("day: !!timestamp today\n", ("it is no YAML",)),
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


def _doubled(times: int, one: str = "[*a{0}, *a{0}]") -> str:
    steps = "".join(f"a{n + 1}: &a{n + 1} {one.format(n)}\n" for n in range(times))
    return f"a0: &a0 {{x: 1}}\n{steps}"


@pytest.mark.parametrize(
    ("text", "fact", "limit"),
    [
        (_doubled(60), "values with its aliases written out", "at most 100000"),
        (_doubled(60, "{{<<: [*a{0}, *a{0}]}}"), "values with its aliases written out", "at most 100000"),
        (
            "a: &a [" + "1, " * 999 + "]\nb: [" + "*a, " * 999 + "]\n",
            "values with its aliases written out",
            "at most 100000",
        ),
        ("# remark\n" * 200_000, "more than 1048576 bytes", "at most 1048576"),
    ],
)
def test_a_file_that_is_too_large_as_it_is_or_written_out_is_refused_before_it_is_built(
    tmp_path: Path, text: str, fact: str, limit: str
) -> None:
    started = time.monotonic()
    with pytest.raises(Refusal) as refused:
        _read(tmp_path, text)
    assert time.monotonic() - started < 60
    assert fact in refused.value.fact
    assert limit in refused.value.limit
    assert refused.value.next_step == "write less there"
    assert len(str(refused.value)) < 400


def test_a_value_that_is_named_and_used_some_times_is_read() -> None:
    assert parsed_yaml(_doubled(3), "some text")["a1"] == [{"x": 1}, {"x": 1}]


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(Refusal, match="more than 1048576 bytes"):
        read_yaml(Path("/dev/zero"), "contract")
