"""Originals and subjects that no gate can do its work with: they raise, die, hang, draw from anywhere, or return words.

Factories are named as they are called; functions take the factories' input and are judged as subjects.
"""

import ctypes
import os
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

X = torch.linspace(-1, 1, 12).view(3, 4)
Made = tuple[torch.nn.Module, tuple[torch.Tensor]]


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def tanh() -> Made:
    return Applied(torch.tanh), (X.clone(),)


def factory_raises() -> Made:
    raise RuntimeError("no weights here\nand a second line")


def factory_exits() -> Made:
    sys.exit("enough")


def raises() -> Made:
    def forward(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no such head")

    return Applied(forward), (X.clone(),)


def exits() -> Made:
    return Applied(lambda _: sys.exit(0)), (X.clone(),)


def draws_from_numpy() -> Made:
    return Applied(lambda x: x * float(np.random.default_rng().random())), (X.clone(),)


def draws_from_random() -> Made:
    return Applied(lambda x: x * random.SystemRandom().random()), (X.clone(),)


def draws_from_a_generator() -> Made:
    own = torch.Generator()
    own.seed()
    return Applied(lambda x: x + torch.rand(x.shape, generator=own)), (X.clone(),)


def returns_words() -> Made:
    return Applied(lambda _: {"answer": "done"}), (X.clone(),)


def outside_the_ranges() -> Made:
    return Applied(torch.tanh), (X * 100,)


def is_killed() -> Made:
    return Applied(lambda _: os.kill(os.getpid(), signal.SIGKILL)), (X.clone(),)


def leaves_without_a_word() -> Made:
    return Applied(lambda _: os._exit(0)), (X.clone(),)


def never_ends() -> Made:
    return Applied(hangs), (X.clone(),)


def asks_for_much_memory() -> Made:
    return Applied(lambda x: x + torch.ones(1 << 31)[:4]), (X.clone(),)


def keeps_all_memory() -> Made:
    kept: list[bytearray] = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        while True:
            try:
                kept.append(bytearray(1 << 20))
            except MemoryError:
                break
        kept.extend(bytearray(1 << 8) for _ in range(1 << 20))
        return x

    return Applied(forward), (X.clone(),)


# Subjects


def good(x: torch.Tensor) -> torch.Tensor:
    return x.tanh()


def sigkill(_: torch.Tensor) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfault(_: torch.Tensor) -> None:
    ctypes.string_at(0)


def aborts(_: torch.Tensor) -> None:
    os.abort()


def leaves_with_0(_: torch.Tensor) -> None:
    os._exit(0)


def exits_with_0(_: torch.Tensor) -> None:
    sys.exit(0)


def exits_with_words(_: torch.Tensor) -> None:
    sys.exit("enough")


def hangs(_: torch.Tensor) -> None:
    time.sleep(3600)


def allocates_what_nobody_has(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(1 << 44)[:1]


def runs_out_of_memory(x: torch.Tensor) -> torch.Tensor:
    pages = int(open("/proc/self/statm").read().split()[0])  # noqa: SIM115
    limit = pages * resource.getpagesize() + (1 << 26)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    return x + len(bytearray(1 << 30))


def raises_many_lines(_: torch.Tensor) -> None:
    raise ValueError("a kernel says:\nno such shape\nat all")


def returns_words_too(_: torch.Tensor) -> str:
    return "done"


def segfaults_on_integers(x: torch.Tensor) -> torch.Tensor:
    if torch.equal(x, x.round()):
        segfault(x)
    return x.tanh()


# Honest subjects with bad manners


def prints_megabytes(x: torch.Tensor) -> torch.Tensor:
    for _ in range(20):
        os.write(1, b"x" * (1 << 20))
        os.write(2, b"y" * (1 << 20))
    return x.tanh()


def closes_its_streams(x: torch.Tensor) -> torch.Tensor:
    os.closerange(0, 3)
    return x.tanh()


def leaves_a_thread(x: torch.Tensor) -> torch.Tensor:
    threading.Thread(target=time.sleep, args=(3600,)).start()
    return x.tanh()


def leaves_a_process(x: torch.Tensor) -> torch.Tensor:
    if os.fork() == 0:
        time.sleep(3600)
    return x.tanh()
