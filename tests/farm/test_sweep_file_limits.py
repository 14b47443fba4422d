"""Numbers and names of a sweep file that no child, socket or store could be given are refused by their field."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.sweep_file import SweepConfig, read_sweep_file

CONTRACT = Path(__file__).parents[2] / "configs" / "contracts" / "float32.yaml"


def _read(tmp_path: Path, **changed: Any) -> SweepConfig:
    value = {
        "sweep": "one",
        "contract": str(CONTRACT),
        "pipelines": ["fx:dce"],
        "programs": [{"module": "small_models:mlp"}],
    }
    (tmp_path / "one.yaml").write_text(yaml.safe_dump(value | changed))
    return read_sweep_file(tmp_path / "one.yaml")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"limits": {"memory_gib": float("inf")}}, "limits.memory_gib: inf is greater"),
        ({"limits": {"memory_gib": float("nan")}}, "a number is NaN"),
        ({"limits": {"memory_gib": 1e300}}, "limits.memory_gib"),
        ({"limits": {"gate_seconds": float("inf")}}, "limits.gate_seconds: inf is greater"),
        ({"limits": {"capture_seconds": 10**400}}, "limits.capture_seconds"),
        ({"measure": {"fresh_hours": 0}}, "measure.fresh_hours: 0 is less"),
        ({"measure": {"fresh_hours": float("inf")}}, "measure.fresh_hours: inf is greater"),
        ({"seed": 1 << 63}, "seed: 9223372036854775808 is greater"),
        ({"sweep": "one\n"}, "sweep: 'one\\n' does not match"),
        ({"programs": [{"module": "small_models:mlp", "name": "a\n"}]}, "programs.0.name"),
        ({"programs": [{"module": "small_models:mlp\n"}]}, "programs.0.module"),
        ({"programs": [{"module": "small_models:mlp\0"}]}, "programs.0.module"),
        ({"contract": "a\0b"}, "contract: 'a\\x00b' does not match"),
        ({"python_path": [""]}, "python_path.0"),
    ],
)
def test_what_could_not_be_used_is_refused_by_its_field(tmp_path: Path, changed: dict[str, Any], says: str) -> None:
    with pytest.raises(Refusal) as refused:
        _read(tmp_path, **changed)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_largest_seed_and_whole_numbers_written_with_a_point_are_taken(tmp_path: Path) -> None:
    config = _read(tmp_path, seed=(1 << 63) - 1, measure={"pairs": 4.0}, limits={"memory_gib": 2})
    assert (config.seed, config.pairs, type(config.pairs)) == ((1 << 63) - 1, 4, int)
    assert SweepConfig.from_json(config.to_json()) == config
