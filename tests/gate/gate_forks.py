"""A warm parent: imports, then forks a child for each step that it is told of, as the farm's does.

One JSON line in: step, folder, and a function to call first in that child alone. One out: the child's exit code.
"""

import importlib
import json
import os
import sys
from pathlib import Path

import torch
from transformers.models.bert import modeling_bert
from transformers.models.llama import modeling_llama

from tensorfarm.gate import judge, step
from tensorfarm.gate.subject import graph, run

LOADED = (judge, run, graph, modeling_bert, modeling_llama)  # a child finds them, and starts in no time


def serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        told = json.loads(line)
        child = os.fork()
        if child == 0:
            _child(told)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _child(told: dict[str, str]) -> None:
    code = 1
    try:
        torch.set_num_threads(1)
        if told["before"]:
            module, _, name = told["before"].partition(":")
            getattr(importlib.import_module(module), name)()
        code = step.main(told["step"], Path(told["folder"]))
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)
