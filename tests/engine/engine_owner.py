"""Owns an engine whose only job hangs; closes it when told to, unless it is killed before."""

import sys
from pathlib import Path

from tensorfarm.farm.engine.config import EngineConfig, PoolSpec, RoleSpec
from tensorfarm.farm.engine.job import Job, Step
from tensorfarm.farm.engine.pool import Engine

request = {"note": sys.argv[1], "python_path": [str(Path(__file__).parent)]}
step = Step("plain", "engine_steps:touches_and_hangs", request, seconds=600, memory_bytes=1 << 30)
with Engine.start(EngineConfig((PoolSpec("compile", "test_compile"),), {"plain": RoleSpec()})) as engine:
    engine.submit(Job("job", "compile", (step,)))
    sys.stdin.readline()
