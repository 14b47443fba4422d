"""Streams of random numbers that no seed of torch's reaches: Python's and numpy's.

The gate seeds torch's generator before every call, so what is drawn there is drawn again. A program that draws from
elsewhere is random without a seed. Most such draws show in a second call's output; a branch that is taken one time in
ten does not. Invariant: whoever looks, or tries other positions, leaves both streams where they were.
"""

from __future__ import annotations

import hashlib
import pickle
import random
from collections.abc import Iterator

import numpy.random as numpy_random  # numpy loads it when it is first asked for, in the middle of a call

# A layer that is left out with probability 0.1 is left out in one of so many calls, but for one time in thirty.
_POSITIONS = 32


def position() -> str:
    """A digest of where both streams are: it moves where somebody draws."""
    return hashlib.blake2b(pickle.dumps((random.getstate(), numpy_random.get_state(legacy=False)))).hexdigest()


def positions() -> Iterator[int]:
    """Puts both streams at one position after another; at the end of the loop they are where they were."""
    python, numpy = random.getstate(), numpy_random.get_state(legacy=False)
    try:
        for seed in range(_POSITIONS):
            random.seed(seed)
            numpy_random.seed(seed)
            yield seed
    finally:
        random.setstate(python)
        numpy_random.set_state(numpy)
