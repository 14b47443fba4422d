"""What a call may leave behind in its process: the floating-point unit's modes and torch's global settings.

Modes of the unit are measured, never asked for: a compiled kernel sets them behind torch's back. Invariant: looking
changes nothing and draws no random number.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
import torch

_SUBNORMAL = 2.0**-140
_NUMPY_TINY, _NUMPY_ONE = np.float32(_SUBNORMAL), np.float32(1)
_NUMPY_STEP = np.float32(0.75 * 2.0**-23)
_ROUNDING = {(True, True): "nearest", (False, True): "down", (True, False): "up", (False, False): "toward_zero"}


@cache
def _operands() -> tuple[torch.Tensor, torch.Tensor]:
    """Made at the first look: who only imports this runs no operator of torch."""
    return torch.tensor([_SUBNORMAL]), torch.tensor([1.0])


def process_state() -> dict[str, Any]:
    """Names to values that JSON holds, equal before and after a call that leaves its process alone.

    ``random_stream`` is a digest of the default generator's state: it moves where a program draws.
    """
    tiny, one = _operands()
    return {
        "subnormals_torch": (tiny * one).item() != 0.0,
        "subnormals_numpy": bool(_NUMPY_TINY * _NUMPY_ONE != 0),
        "rounding": _ROUNDING[
            bool(_NUMPY_ONE + _NUMPY_STEP != _NUMPY_ONE), bool(-_NUMPY_ONE - _NUMPY_STEP != -_NUMPY_ONE)
        ],
        "default_dtype": str(torch.get_default_dtype()),
        "default_device": str(torch.get_default_device()),
        "grad_enabled": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "mkldnn": torch.backends.mkldnn.enabled,
        "flash_sdp": torch.backends.cuda.flash_sdp_enabled(),
        "math_sdp": torch.backends.cuda.math_sdp_enabled(),
        "warn_always": torch.is_warn_always_enabled(),
        "random_stream": hashlib.blake2b(torch.get_rng_state().numpy().tobytes(), digest_size=8).hexdigest(),
    }
