"""Six source roots make one namespace package, and none of them gets in the way of the standard library."""

import bisect
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("contract", "compiler", "gate", "cost_model", "bisect", "farm")
STANDARD_BISECT = "import bisect; assert bisect.bisect_left([1, 3], 2) == 1; print(bisect.__file__)"
RAY_WORKER_BISECT = """
import ray

ray.init(address="local", num_cpus=1, include_dashboard=False, _node_ip_address="127.0.0.1", log_to_driver=False)

@ray.remote
def where() -> str:
    import bisect
    return bisect.__file__

print(ray.get(where.remote(), timeout=120))
ray.shutdown()
"""


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def source_files() -> set[str]:
    """Every file that ships, named as an installed package names it."""
    return {
        path.relative_to(ROOT / room).as_posix()
        for room in ROOMS
        for path in (ROOT / room / "tensorfarm").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    folder = tmp_path_factory.mktemp("wheel")
    built = python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder))
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_test_process_imports_the_standard_bisect() -> None:
    assert not Path(bisect.__file__).is_relative_to(ROOT / "bisect")
    assert bisect.bisect_left([1, 3], 2) == 1


def test_a_child_started_in_the_repository_imports_the_standard_bisect() -> None:
    child = python("-c", STANDARD_BISECT)
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == bisect.__file__


def test_a_ray_worker_imports_the_standard_bisect() -> None:
    driver = python("-c", RAY_WORKER_BISECT, RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0")
    assert driver.returncode == 0, driver.stdout + driver.stderr
    assert driver.stdout.strip().splitlines()[-1] == bisect.__file__


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_is_importable_and_comes_from_its_own_root(room: str) -> None:
    child = python("-c", f"import tensorfarm.{room} as room; print(room.__file__)")
    assert child.returncode == 0, child.stderr
    assert Path(child.stdout.strip()) == ROOT / room / "tensorfarm" / room / "__init__.py"


def test_no_root_turns_the_namespace_into_a_regular_package() -> None:
    assert [room for room in ROOMS if (ROOT / room / "tensorfarm" / "__init__.py").exists()] == []
    assert [room for room in ROOMS if (ROOT / room / "__init__.py").exists()] == []


def test_every_room_is_marked_as_typed() -> None:
    assert [room for room in ROOMS if not (ROOT / room / "tensorfarm" / room / "py.typed").is_file()] == []


def test_no_test_folder_is_a_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_the_wheel_holds_every_file_of_all_six_rooms(wheel_names: set[str]) -> None:
    assert {f"tensorfarm/{room}/__init__.py" for room in ROOMS} <= wheel_names
    assert source_files() - wheel_names == set()


def test_the_wheel_holds_nothing_outside_the_rooms(wheel_names: set[str]) -> None:
    allowed = tuple(f"tensorfarm/{room}/" for room in ROOMS)
    strangers = {name for name in wheel_names if not name.startswith(allowed) and ".dist-info/" not in name}
    assert strangers == set()


def isolated_gate(folder: Path) -> subprocess.CompletedProcess[str]:
    return python("-I", "-S", str(ROOT / "tests" / "isolated" / "run_gate_isolated.py"), str(folder))


@pytest.mark.parametrize("room", ["compiler", "cost_model", "bisect", "farm"])
def test_a_gate_test_that_reaches_another_room_fails_in_isolation(tmp_path: Path, room: str) -> None:
    (tmp_path / "test_reach.py").write_text(f"def test_reach():\n    import tensorfarm.{room}\n")
    run = isolated_gate(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert f"No module named 'tensorfarm.{room}'" in run.stdout


def test_the_gate_and_the_contract_are_importable_in_isolation(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text("import tensorfarm.contract\nimport tensorfarm.gate\ndef test_own(): pass\n")
    run = isolated_gate(tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr


def test_isolation_fails_when_test_files_hold_no_test(tmp_path: Path) -> None:
    (tmp_path / "test_empty.py").write_text("")
    assert isolated_gate(tmp_path).returncode == pytest.ExitCode.NO_TESTS_COLLECTED
