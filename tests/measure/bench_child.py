"""Runs one bench job as the engine's child would: a fresh process that has run no tensor operation.

``bench_child.py FUNCTION FILE``: the request is FILE's JSON, the answer goes to standard output.
"""

import json
import sys
from pathlib import Path

from tensorfarm.farm.measure import pairs

answer = getattr(pairs, sys.argv[1])(json.loads(Path(sys.argv[2]).read_text()))
print(json.dumps(answer))
