"""The numerical contract: read whole or refused by the field; its hash is what is enforced, no more and no less."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tensorfarm.contract.numerics import Budget, MonteCarlo, parse_contract, read_contract
from tensorfarm.contract.refusal import Refusal

FLOAT32 = Path(__file__).parents[2] / "configs" / "contracts" / "float32.yaml"


@pytest.fixture
def value() -> dict:
    return yaml.safe_load(FLOAT32.read_text())


def _fields(value: dict, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [(*path, key) for key in value]
    return found + [
        deep for key, item in value.items() if isinstance(item, dict) for deep in _fields(item, (*path, key))
    ]


def _at(value: dict, path: tuple[str, ...]) -> dict:
    for key in path:
        value = value[key]
    return value


def test_the_float32_contract_says_what_it_says() -> None:
    contract = read_contract(FLOAT32)
    assert (contract.id, contract.version) == ("float32", 1)
    assert (contract.outputs, contract.gradients) == (Budget(4.0, 10.0), Budget(4.0, 12.0))
    assert contract.monte_carlo == MonteCarlo(12, 0)
    assert contract.digits_undecidable_below == 1.0


def test_every_missing_field_is_refused_by_its_name(value: dict) -> None:
    for path in _fields(value):
        lacking = copy.deepcopy(value)
        del _at(lacking, path[:-1])[path[-1]]
        with pytest.raises(Refusal) as refused:
            parse_contract(lacking)
        assert f"'{path[-1]}' is a required property" in str(refused.value)


def test_a_misspelt_field_is_refused_anywhere_and_the_right_one_shown(value: dict) -> None:
    for path in _fields(value):
        misspelt = copy.deepcopy(value)
        place = _at(misspelt, path[:-1])
        place[path[-1] + "s"] = place[path[-1]]
        with pytest.raises(Refusal) as refused:
            parse_contract(misspelt, "mine.yaml")
        assert f"'{path[-1]}s' was unexpected" in str(refused.value)
        assert path[-1] in refused.value.limit.removeprefix("known here: ").split(", ")
        assert str(refused.value).startswith("mine.yaml: ")


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        (("budgets", "outputs", "c"), -1),
        (("budgets", "outputs", "k"), 1e6),
        (("budgets", "outputs", "k"), "10"),
        (("budgets", "gradients", "c"), True),
        (("budgets", "gradients", "c"), float("nan")),
        (("budgets", "gradients", "c"), float("inf")),
        (("oracle", "monte_carlo", "samples"), 1),
        (("oracle", "monte_carlo", "samples"), 2.5),
        (("oracle", "monte_carlo", "seed"), -1),
        (("oracle", "dtype"), "float32"),
        (("oracle", "digits_undecidable_below"), 17),
        (("oracle", "digits_undecidable_below"), float("nan")),
        (("exact", "integers"), False),
        (("contract", "id"), ""),
        (("contract", "version"), 0),
    ],
)
def test_a_value_out_of_range_is_refused(value: dict, path: tuple[str, ...], wrong: object) -> None:
    _at(value, path[:-1])[path[-1]] = wrong
    with pytest.raises(Refusal) as refused:
        parse_contract(value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: [1", "is no YAML"),
        (b"\xff\xfe\x00", "is no YAML"),
        (b"", "the file: None is not of type 'object'"),
        (b"- 1", "is not of type 'object'"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_no_contract_is_refused_in_one_line(tmp_path: Path, content: bytes | None, says: str) -> None:
    place = tmp_path / "contract.yaml"
    if content is not None:
        place.write_bytes(content)
    with pytest.raises(Refusal) as refused:
        read_contract(place)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_header_leaves_no_trace_in_the_hash(value: dict) -> None:
    before = parse_contract(value).hash
    value["contract"] = {"id": "other", "version": 2, "parent": "float32", "author": "a", "date": "2026-01-01"}
    assert parse_contract(value).hash == before


def test_an_integer_and_its_float_hash_alike(value: dict) -> None:
    before = parse_contract(value).hash
    value["budgets"]["outputs"]["c"] = 4.0
    assert parse_contract(value).hash == before


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value["budgets"]["outputs"].update(c=4.000001),
        lambda value: value["budgets"]["outputs"].update(k=11),
        lambda value: value["budgets"]["gradients"].update(c=5),
        lambda value: value["budgets"]["gradients"].update(k=10),
        lambda value: value["oracle"]["monte_carlo"].update(samples=13),
        lambda value: value["oracle"]["monte_carlo"].update(seed=1),
        lambda value: value["oracle"].update(digits_undecidable_below=2),
    ],
)
def test_everything_that_is_enforced_changes_the_hash(value: dict, change: Callable[[dict], object]) -> None:
    before = parse_contract(value).hash
    change(value)
    assert parse_contract(value).hash != before
