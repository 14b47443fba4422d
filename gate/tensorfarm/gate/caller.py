"""The caller's own process, where live objects are judged: what judging touches there is put back.

Invariant: after the block torch's global settings, the floating-point unit's mode and all random streams are as before,
however the block ended.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import torch

from tensorfarm.gate.process_state import process_state


@contextmanager
def undisturbed() -> Generator[None]:
    """Judge inside of it. A surrounding ``inference_mode`` is off in there: its tensors know no gradients."""
    state = process_state()
    python, numpy = random.getstate(), np.random.get_state()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    default = torch.get_default_dtype()
    grad = torch.is_grad_enabled()
    with torch.random.fork_rng(devices=devices), torch.inference_mode(mode=False):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
            torch.set_default_dtype(default)
            torch.set_float32_matmul_precision(state["matmul_precision"])
            torch.use_deterministic_algorithms(state["deterministic"], warn_only=warn_only)
            torch.set_warn_always(state["warn_always"])
            torch.set_autocast_enabled("cpu", state["autocast"])
            torch.backends.mkldnn.enabled = state["mkldnn"]
            torch.backends.cuda.enable_flash_sdp(state["flash_sdp"])
            torch.backends.cuda.enable_math_sdp(state["math_sdp"])
            torch.set_flush_denormal(not state["subnormals_torch"])
            if torch.get_num_threads() != state["threads"]:
                torch.set_num_threads(state["threads"])
            if str(torch.get_default_device()) != state["default_device"]:
                torch.set_default_device(None if state["default_device"] == "cpu" else state["default_device"])
    torch.set_grad_enabled(grad)
