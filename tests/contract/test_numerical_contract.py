"""The numerical contract: read whole or refused by the field; its hash is what is enforced, no more and no less."""

import copy
from dataclasses import fields as fields_of
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

from tensorfarm.contract.contract_fields import Widens, field_rules, field_values
from tensorfarm.contract.contract_template import DTYPES, Draft, rendered
from tensorfarm.contract.numerics import (
    NOT_ENFORCED,
    Budget,
    Dtypes,
    MonteCarlo,
    NumericalContract,
    parse_contract,
    read_contract,
)
from tensorfarm.contract.refusal import Refusal

CONTRACTS = Path(__file__).parents[2] / "configs" / "contracts"
FLOAT32 = CONTRACTS / "float32.yaml"


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


def _other(path: str, present: Any) -> Any:
    """Another value that the field may have, but for what belongs to several fields at once."""
    rule = field_rules()[path]
    if rule.widens is Widens.LATER:
        return next(word for word in rule.words if word != present)
    if rule.widens is Widens.REMOVAL:
        return present[1:] or ["cuda"]
    if rule.widens is Widens.NARROWER:
        return [present[0] / 2, present[1]]
    return present / 2 if isinstance(present, float) else present + 1 if path != INT_BITS else present - 1


INT_BITS = "inputs.exact_integers.int_bits"


def test_the_float32_contract_says_what_it_says() -> None:
    contract = read_contract(FLOAT32)
    assert (contract.id, contract.version) == ("float32", 1)
    assert (contract.outputs, contract.gradients) == (Budget(4.0, 10.0), Budget(4.0, 12.0))
    assert contract.monte_carlo == MonteCarlo(12, 0)
    assert contract.digits_undecidable_below == 1.0
    assert contract.dtypes == Dtypes("float32", "float32", "float32")
    assert contract.accumulate["bfloat16"] == "float32"
    assert (contract.fma, contract.tf32) == (True, False)
    assert contract.shapes.batch[:4] == (0, 1, 2, 3)
    assert contract.exact_integer_bits == 13
    assert contract.devices == ("cpu",)


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_a_shipped_contract_is_what_init_writes(name: str) -> None:
    text = (CONTRACTS / f"{name}.yaml").read_text()
    header = yaml.safe_load(text)["contract"]
    assert rendered(Draft(name, header["date"], name, name, name, author=header["author"])) == text


def test_the_contract_of_instruction_sets_is_float32_on_three_of_them() -> None:
    levels, plain = (yaml.safe_load((CONTRACTS / name).read_text()) for name in ("cpu_levels.yaml", "float32.yaml"))
    assert levels.pop("devices") == ["cpu/default", "cpu/avx2", "cpu/avx512"]
    del levels["contract"], plain["contract"], plain["devices"]
    assert levels == plain


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_rendered_is_read_back(dtype: str) -> None:
    for name in ("plain", "null", "two: words", 'a "quoted" one', "3"):
        contract = parse_contract(yaml.safe_load(rendered(Draft(name, "2026-01-01", dtype, dtype, dtype))))
        assert (contract.id, contract.dtypes) == (name, Dtypes(dtype, dtype, dtype))


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
        place[path[-1] + "s"] = place.pop(path[-1])
        with pytest.raises(Refusal) as refused:
            parse_contract(misspelt, "mine.yaml")
        assert f"'{path[-1]}s' was unexpected" in str(refused.value)
        assert path[-1] in refused.value.limit.removeprefix("known here: ").split(", ")
        assert str(refused.value).startswith("mine.yaml: ")
        assert refused.value.next_step.startswith("did you mean ")


def test_a_misspelt_word_is_answered_with_the_one_that_is_meant(value: dict) -> None:
    value["gradients"]["forward_ad"] = "match_or_refus"
    with pytest.raises(Refusal, match=r'gradients\.forward_ad: .* did you mean "match_or_refuse"\?'):
        parse_contract(value)


def test_what_cannot_vary_says_that_only_it_is_enforced(value: dict) -> None:
    value["numerics"]["nan"]["payload"] = "exact"
    with pytest.raises(Refusal, match="only that is enforced"):
        parse_contract(value)


@pytest.mark.parametrize(
    ("path", "wrong", "says"),
    [
        ("budgets.outputs.c", -1, "minimum"),
        ("budgets.outputs.k", 1e6, "maximum"),
        ("budgets.outputs.k", "10", "not of type"),
        ("budgets.gradients.c", True, "not of type"),
        ("budgets.gradients.c", float("nan"), "is NaN"),
        ("budgets.gradients.c", float("inf"), "maximum"),
        ("oracle.monte_carlo.samples", 1, "minimum"),
        ("oracle.monte_carlo.samples", 2.5, "not of type"),
        ("oracle.monte_carlo.seed", -1, "minimum"),
        ("oracle.dtype", "float32", "was expected"),
        ("oracle.digits_undecidable_below", 17, "maximum"),
        ("oracle.digits_undecidable_below", float("nan"), "is NaN"),
        ("integers.exact", False, "was expected"),
        ("integers.exact", 1, "was expected"),
        ("determinism.batch_invariant", 0, "is not one of"),
        ("determinism.classes.rng", "bitwise_run_to_run", "was expected"),
        ("contract.id", "", "does not match"),
        ("contract.version", 0, "minimum"),
        ("contract.date", "2026-02-30", "there is no day 2026-02-30"),
        ("contract.date", "yesterday", "does not match"),
        ("governance.audited", "2026-13-01", "there is no day 2026-13-01"),
        ("shapes.batch", [0, 2, 1], r"\[0, 2, 1\] does not ascend; write \[0, 1, 2\]"),
        ("shapes.batch", [1, 1], "non-unique"),
        ("shapes.batch", [-1], "minimum"),
        ("shapes.batch", [], "non-empty"),
        ("devices", ["cpu/avx1024"], "does not match"),
        ("devices", ["tpu"], "does not match"),
        ("devices", [], "non-empty"),
        ("inputs.suites", ["normal", "strange"], "is not one of"),
        ("layout.inputs", ["transposd"], 'did you mean "transposed"'),
        (INT_BITS, 1, "minimum"),
        (INT_BITS, 25, "maximum"),
        ("budgets.outputs.c", "1e-1", "write 0.1, without quotes"),
        ("budgets.gradients.k", "1e-7", "write 1.0e-07, without quotes"),
        ("oracle.monte_carlo.samples", "12", "write 12, without quotes"),
        ("budgets.outputs.c", "four", "correct that field"),
        ("inputs.ranges.floating", [1.0, 1.0], "holds nothing"),
        ("inputs.ranges.floating", [0.0, float("inf")], "infinite"),
        ("inputs.ranges.integer", [0], "too short"),
        ("numerics.reduction_order", "sequential", "was expected"),
        ("numerics.contraction.tf32", "allowed", "was expected"),
        ("gradients.cotangents", [], "non-empty"),
        ("numerics.identities_forbidden", ["x-x=0"], "was expected"),
        ("format", "tensorfarm.contract/9", "is of format tensorfarm.contract/9"),
        ("governance.widenings", [{"field": "budgets.outputs.c"}], "is a required property"),
    ],
)
def test_a_value_out_of_range_is_refused(value: dict, path: str, wrong: object, says: str) -> None:
    *parents, last = path.split(".")
    _at(value, tuple(parents))[last] = wrong
    with pytest.raises(Refusal, match=says) as refused:
        parse_contract(value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_integers_that_the_dtype_cannot_hold_are_refused(value: dict) -> None:
    value["numerics"]["dtypes"]["inputs"] = "bfloat16"
    with pytest.raises(Refusal, match=r"integers of 13 bits are not exact in bfloat16 \(at most 8\); lower it"):
        parse_contract(value)


def test_a_contract_of_the_first_format_is_refused_with_the_way_out(value: dict) -> None:
    old = {
        "contract": {"id": "old", "version": 1},
        "oracle": value["oracle"],
        "budgets": value["budgets"],
        "exact": {"integers": True, "bools": True, "nan_positions": True, "inf_positions": True},
        "metadata": {"dtype": "exact"},
        "aliasing": {"input_mutation": "as_reference"},
    }
    with pytest.raises(Refusal, match=r'tensorfarm.contract/1 .* run "farm contract init"'):
        parse_contract(old)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a: [1", "is no YAML"),
        (b"\xff\xfe\x00", "is no YAML"),
        (b"", "the file: None is not of type 'object'"),
        (b"- 1", "is not of type 'object'"),
        (b"1: 2", "'1' was unexpected"),
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


def test_the_header_and_the_governance_leave_no_trace_in_the_hash(value: dict) -> None:
    before = parse_contract(value).hash
    value["contract"] = {"id": "other", "version": 2, "parent": "float32", "author": "a", "date": "2026-01-01"}
    value["governance"]["audited"] = "2026-01-01"
    assert parse_contract(value).hash == before


def test_a_date_may_be_written_as_yaml_has_it_or_as_text(value: dict) -> None:
    value["contract"]["date"] = date(2026, 1, 1)
    assert parse_contract(value).id == "float32"


def test_an_integer_and_its_float_hash_alike(value: dict) -> None:
    before = parse_contract(value).hash
    value["budgets"]["outputs"]["c"] = 4.0
    assert parse_contract(value).hash == before


def test_every_field_that_can_change_changes_the_hash(value: dict) -> None:
    seen = {parse_contract(value).hash}
    paths = [path for path, rule in field_rules().items() if rule.widens is not Widens.FIXED]
    value["inputs"]["exact_integers"]["int_bits"] = 8
    for path in paths:
        changed = copy.deepcopy(value)
        *parents, last = path.split(".")
        place = _at(changed, tuple(parents))
        place[last] = _other(path, place[last])
        seen.add(parse_contract(changed).hash)
    assert len(seen) == len(paths) + 1


def test_every_field_has_one_word_or_says_which_change_accepts_more(value: dict) -> None:
    leaves = {
        ".".join(path)
        for path in _fields(value)
        if path[0] not in NOT_ENFORCED and not isinstance(_at(value, path), dict)
    }
    assert leaves == field_values(value).keys() == field_rules().keys()


def test_the_documentation_names_every_field() -> None:
    text = (CONTRACTS.parents[1] / "docs" / "contract.md").read_text()
    assert [path for path in field_rules() if f"`{path}`" not in text] == []


@pytest.mark.parametrize("attribute", [item.name for item in fields_of(NumericalContract)])
def test_no_attribute_of_a_contract_is_mutable_or_absent(value: dict, attribute: str) -> None:
    assert not isinstance(getattr(parse_contract(value), attribute), (list, set, type(None)))


def test_a_contract_that_was_validated_before_is_taken_by_its_hash_and_no_other(value: dict) -> None:
    known = parse_contract(value)
    assert parse_contract(value, valid=known.hash) == known
    value["numerics"]["subnormals"] = "sometimes"
    with pytest.raises(Refusal, match=r"numerics.subnormals"):
        parse_contract(value, valid=known.hash)
