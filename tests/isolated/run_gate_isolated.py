"""Runs the gate's tests where only the gate, the contract and third-party packages can be imported.

Start it with ``python -I -S``: no ``.pth`` file is then read. Under ``-I`` alone an editable install still finds the
compiler, and a judge that can import what it judges is no witness.
"""

import importlib.util
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
OUT_OF_REACH = ("compiler", "cost_model", "bisect", "farm")


def site_packages() -> Path:
    """The environment's packages. ``sys.prefix`` names the base interpreter under ``-S``, so go by the executable."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Path(sys.executable).parents[1] / "lib" / version / "site-packages"


def main(folder: Path) -> int:
    if not (sys.flags.isolated and sys.flags.no_site):
        print(f'the gate is not isolated; run "python -I -S {Path(__file__).name} {folder}"', file=sys.stderr)
        return 2
    if not any(folder.rglob("test_*.py")):
        print(f"isolated gate: skipped, {folder} holds no tests yet")
        return 0

    sys.path[:0] = [str(REPOSITORY / "gate"), str(REPOSITORY / "contract"), str(site_packages())]
    within_reach = [name for name in OUT_OF_REACH if importlib.util.find_spec(f"tensorfarm.{name}")]
    if within_reach:
        print(
            f"isolated gate: tensorfarm.{{{','.join(within_reach)}}} can be imported from {sys.path}", file=sys.stderr
        )
        return 2

    import pytest

    print(f"isolated gate: {folder}")
    config = str(REPOSITORY / "pyproject.toml")
    return int(pytest.main(["-q", "-c", config, "--rootdir", str(REPOSITORY), "-p", "no:cacheprovider", str(folder)]))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
