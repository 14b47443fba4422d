"""What compiling with Inductor and loading its artifact must do alike: settings, build path, the call that is compiled.

An Inductor artifact is its folder of compile caches, which answers only at the absolute path it was built at, under the
settings it was built with. Invariant: one function sets both up, so a compiler and a loader cannot disagree.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import torch._dynamo
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
import torch._inductor.cpp_builder as cpp_builder
import torch._inductor.cpu_vec_isa as cpu_vec_isa
from torch._dynamo.utils import counters
from torch._inductor.custom_graph_pass import CustomGraphPass

from tensorfarm.contract.refusal import Refusal

BUILD_ROOT_VARIABLE = "TENSORFARM_BUILD_ROOT"

# Names start with the configuration they belong to. The number of threads is part of every cache key and of the code.
# The user's post-grad pass goes by the identity of its source: the caches ask for that, and only a compiler runs it.
CUSTOM_PASS = "inductor.post_grad_custom_post_pass"
SETTINGS: Mapping[str, bool | int | str] = {
    "functorch.enable_autograd_cache": True,
    "functorch.enable_remote_autograd_cache": False,
    "inductor.autotune_remote_cache": False,
    "inductor.bundled_autotune_remote_cache": False,
    "inductor.compile_threads": 1,
    "inductor.cpp.threads": 1,
    "inductor.force_disable_caches": False,
    "inductor.fx_graph_cache": True,
    "inductor.fx_graph_remote_cache": False,
    CUSTOM_PASS: "",
    "torch.num_threads": 1,
}
_CONFIGURATIONS: Mapping[str, Any] = {"functorch": functorch_config, "inductor": inductor_config}
_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"


class RecompileBlocked(BaseException):
    """Something was about to be compiled where only loading is allowed.

    Not an ``Exception``: the cache code swallows those and falls back to compiling.
    """


class CustomPass(CustomGraphPass):
    """A post-grad pass as Inductor's caches want it: with an identity. A loader knows that and nothing else of it."""

    def __init__(self, identity: str, rewrite: Callable[[torch.fx.Graph], object] | None = None) -> None:
        self.identity, self.rewrite = identity, rewrite

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.rewrite is None:
            raise RecompileBlocked(
                "loading tried to run a post-grad pass: the artifact's compile caches did not answer"
            )
        self.rewrite(graph)

    def uuid(self) -> str:
        return self.identity


def build_root() -> Path:
    """The folder of all build paths: equal on every node that is to share artifacts."""
    chosen = os.environ.get(BUILD_ROOT_VARIABLE)
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"tensorfarm-build-{os.getuid()}"


def build_path(candidate_id: str) -> Path:
    """Where a candidate is built, and where its artifact is unpacked ever after."""
    return build_root() / candidate_id


@contextmanager
def held(place: Path) -> Generator[None]:
    """Hold a build path against other processes of this host. The lock lies beside it and outlives it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(place.name + ".lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def apply_settings(place: Path, settings: Mapping[str, Any]) -> None:
    """Point this process's Inductor at ``place`` and set its options. Refuses an option this torch does not have."""
    warm_toolchain()
    os.environ[_CACHE_VARIABLE] = str(place)
    for name, value in settings.items():
        if name == "torch.num_threads":
            torch.set_num_threads(value)
            continue
        owner, _, option = name.partition(".")
        *groups, last = option.split(".")
        target = _CONFIGURATIONS.get(owner)
        for group in groups:
            target = getattr(target, group, None)
        if not hasattr(target, last):
            raise Refusal(
                f"torch {torch.__version__} has no compile setting {name!r}",
                next_step="load the artifact with the toolchain that built it",
            )
        if name == CUSTOM_PASS:
            value = CustomPass(value) if value else None
        setattr(target, last, value)


def warm_toolchain() -> None:
    """Ask the C++ compiler once what it is and which vector instructions work; the answers live as long as the process.

    Without it every process would ask again, by compiling six probes into the candidate's own folder.
    """
    place = os.environ.pop(_CACHE_VARIABLE, None)
    try:
        cpu_vec_isa.pick_vec_isa()
        cpp_builder.get_compiler_version_info(cpp_builder.get_cpp_compiler())
    finally:
        if place is not None:
            os.environ[_CACHE_VARIABLE] = place


def compiled(module: torch.fx.GraphModule) -> Callable[..., Any]:
    """The module through ``torch.compile``, as both the compiler and the loader call it. Nothing is compiled yet."""
    torch._dynamo.reset()
    counters.clear()
    return torch.compile(module, fullgraph=True, dynamic=False)


def block_compilation() -> None:
    """From now on an attempt of this process to trace, lower or build anything raises ``RecompileBlocked``.

    Three ways lead to a compilation: a missing AOTAutograd entry (traced again, then answered by the inner cache), a
    missing graph, and a missing shared object, which is rebuilt while the counters go on saying "hit".
    """
    # Imported here: importing the code generators takes seconds, and a process that only builds never calls this.
    import torch._inductor.codecache as codecache
    import torch._inductor.compile_fx as compile_fx
    from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache

    look_up = cast("Callable[..., Any]", AOTAutogradCache.try_load)

    def found(*arguments: Any, **options: Any) -> Any:
        answer = look_up(*arguments, **options)
        # torch 2.11 answers with the entry, 2.13 with the entry and its configuration.
        if (answer[0] if isinstance(answer, tuple) else answer) is None:
            raise RecompileBlocked("loading tried to trace the graph: the artifact's compile caches did not answer")
        return answer

    AOTAutogradCache.try_load = staticmethod(found)
    compile_fx.fx_codegen_and_compile = _blocked("lower a graph")
    cpp_builder.CppBuilder.build = _blocked("call the C++ compiler")
    # Asked for on every load, although nothing will be built with it.
    setattr(codecache, "_precompile_header", lambda *_arguments, **_options: "")  # noqa: B010 (private to its module)


def _blocked(what: str) -> Callable[..., Any]:
    def refuse(*_arguments: Any, **_options: Any) -> Any:
        raise RecompileBlocked(f"loading tried to {what}: the artifact's compile caches did not answer")

    return refuse


def cache_evidence() -> dict[str, int]:
    """How often this process's caches answered since ``compiled``: hits, misses and bypasses by name."""
    found: dict[str, int] = {}
    for group in ("inductor", "aot_autograd"):
        for name, count in counters[group].items():
            if "cache" in name:
                found[name] = int(count)
    return dict(sorted(found.items()))
