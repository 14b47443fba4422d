"""Owns a crew whose only child hangs beside a grandchild in a session of its own; waits to be killed."""

import sys
from pathlib import Path

from tensorfarm.farm.engine.config import RoleSpec
from tensorfarm.farm.engine.crew import Crew
from tensorfarm.farm.engine.job import Job, Step

request = {"note": sys.argv[1], "new_session": True, "python_path": [str(Path(__file__).parent)]}
step = Step("plain", "engine_steps:hangs_with_a_grandchild", request, seconds=600, memory_bytes=1 << 30)
Crew({"plain": RoleSpec()}, "here").run(Job("job", "pool", (step,)))
