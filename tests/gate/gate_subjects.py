"""Things to be judged, right and wrong, as a user would write them, and programs that take their process down."""

import ctypes
import os
from collections.abc import Callable
from typing import Any

import torch

from tensorfarm.gate.subject.scratch import new_folder


class Small(torch.nn.Module):
    """One product, one buffer that counts calls, and a nested result."""

    def __init__(self, shift: float = 0.5) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.shift = shift

    def forward(self, x: torch.Tensor, scale: float = 2.0) -> dict[str, torch.Tensor]:
        self.calls.add_(1)
        y = torch.relu(self.linear(x)) * scale + self.shift
        return {"y": y, "total": y.sum()}


def x() -> torch.Tensor:
    return torch.arange(8.0).view(2, 4) - 3


def expected(*calls: tuple[Any, ...]) -> list[torch.Tensor]:
    """What ``Small`` gives under the seed that factories are called with."""
    torch.manual_seed(0)
    module = Small()
    with torch.no_grad():
        return [module(*call)["y"] for call in calls]


def small() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return Small(), (x(), 2.0)


class Counted(Small):
    """``Small`` with more than one count: AOTInductor reads a one-element buffer's first value for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(64, dtype=torch.int64))


def counted() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return Counted(), (x(), 2.0)


class Remembering(torch.nn.Module):
    """Its answer hangs on how often it was called, which a buffer of ``size`` elements keeps."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return x * self.seen


def remembering_one() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return Remembering(1), (x(),)


def remembering_each() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return Remembering(4), (x(),)


def wrong_small() -> tuple[torch.nn.Module, tuple[Any, ...]]:
    return Small(0.25), (x(), 2.0)


def module_alone() -> torch.nn.Module:
    return Small()


def no_module() -> int:
    return 3


def unable() -> torch.nn.Module:
    raise ValueError("no weights here")


def litters_and_dies(x: torch.Tensor) -> torch.Tensor:
    new_folder("litter")
    os.abort()


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def triple(x: torch.Tensor) -> torch.Tensor:
    return x * 3


def half_written(x: torch.Tensor) -> torch.Tensor:
    """What is left is right where it is zero, as fresh pages are."""
    out = torch.empty(1 << 16, dtype=x.dtype)
    out[: 1 << 15] = 2
    return out


class Breaking(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2


def breaking() -> torch.nn.Module:
    return Breaking()


class NeverTraced(torch.nn.Module):
    @torch._dynamo.disable
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def never_traced() -> torch.nn.Module:
    return NeverTraced()


class Repeated(torch.nn.Module):
    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        return x * times


class DoublesAndAdds(torch.nn.Module):
    """Compiled anew for each name, and to one graph for all names of two letters."""

    def forward(self, x: torch.Tensor, y: torch.Tensor, name: str) -> torch.Tensor:
        x.mul_(len(name))
        return x + y


def doubles_and_adds() -> torch.nn.Module:
    return DoublesAndAdds()


def repeated() -> torch.nn.Module:
    return Repeated()


def relu_is_dropped(graph: torch.fx.GraphModule, _examples: Any) -> Callable[..., Any]:
    """A backend of ``torch.compile`` with a fault in it."""
    for node in graph.graph.nodes:
        if node.target is torch.relu:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
            break
    graph.recompile()
    return graph.forward


def relu_is_dropped_before_inductor(graph: torch.fx.GraphModule, examples: Any) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx  # a compiler, wanted by one subject alone

    relu_is_dropped(graph, examples)
    return compile_fx(graph, examples)


def goes_wrong_on_avx2(x: torch.Tensor) -> torch.Tensor:
    """A kernel that was specialised for each level of instructions, and one of them wrongly."""
    y = x * 2
    return y + 1e-3 if torch.backends.cpu.get_cpu_capability() == "AVX2" else y


def segfault(x: torch.Tensor) -> torch.Tensor:
    ctypes.string_at(0)
    return x


def abort(x: torch.Tensor) -> torch.Tensor:
    ctypes.CDLL(None).abort()
    return x


def leave(x: torch.Tensor) -> torch.Tensor:
    os._exit(3)
    return x


def hoard(x: torch.Tensor) -> torch.Tensor:
    held = [x]
    while True:
        held.append(torch.empty(1 << 24))
