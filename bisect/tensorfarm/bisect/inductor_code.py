"""The part of a script that compiles with Inductor and leaves out exactly one of its sites.

Sites are numbered as the farm's compiler numbers them: in the order in which Inductor asks, over forward and backward,
whether to leave something out. Invariant: what is left out is the site with that number and no other.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InductorSite:
    """``passes`` and ``operators`` are the subsystems that have sites, all but the passes and operators ``required``.

    ``custom_pass`` is the user's post-grad pass as ``module.Name``, its module's source lying beside the script; empty
    where the pipeline has none. ``training`` says that the backward is compiled as well.
    """

    ordinal: int
    passes: tuple[str, ...]
    operators: tuple[str, ...]
    required: tuple[str, ...]
    custom_pass: str
    training: bool


def compiled_by_inductor(site: InductorSite, later_off: bool) -> str:
    """Source of ``compiled(**tensors)``, which compiles ``captured`` at its first call.

    With ``later_off`` no site after this one is on.
    """
    off = f"{'number > SITE or ' if later_off else ''}(OFF and number == SITE)"
    module, _, name = site.custom_pass.rpartition(".")
    parts = [
        _SETTINGS,
        _CUSTOM.format(module=module.rpartition(".")[2], name=name) if module else "",
        _LEAVE_OUT.format(
            site=site.ordinal,
            passes=site.passes,
            operators=site.operators,
            required="".join(f"\n    {_told(name)!r}," for name in site.required),
            off=off,
        ),
        _TRAINED if site.training else _UNTRAINED,
    ]
    return "\n".join(part.lstrip("\n") for part in parts if part)


def _told(name: str) -> str:
    """What Inductor says of a pass, which is its name, or of an operator that it decomposes."""
    operator, _, overload = name.rpartition(".")
    return f"<OpOverload(op='{operator}', overload='{overload}')>" if operator else name


_SETTINGS = """
CACHES = tempfile.TemporaryDirectory()  # empty, so that no cache answers
os.environ["TORCHINDUCTOR_CACHE_DIR"] = CACHES.name
inductor.compile_threads = inductor.cpp.threads = 1
"""

_CUSTOM = """
sys.path.insert(0, str(Path(__file__).parent))
from {module} import {name}  # the user's pass

inductor.post_grad_custom_post_pass = {name}() if isinstance({name}, type) else {name}
"""

_LEAVE_OUT = '''
SITE, PASSES, OPERATORS = {site}, {passes}, {operators}
REQUIRED = ({required}
)  # they have no number
met = depth = 0


def leave_out(_backend, subsystem, told=str):
    """Inductor asks before each pass, decomposition and lowering whether to leave it out."""
    global met
    if subsystem not in PASSES and (depth or subsystem not in OPERATORS) or told() in REQUIRED:
        return False
    number, met = met, met + 1
    return {off}


def apart(owner, name, before, after):
    """What a pass, or the making of a table of patterns, traces for itself is no site of the program."""
    original = getattr(owner, name)

    def counting(*args, **kwargs):
        global depth
        depth += before
        try:
            return original(*args, **kwargs)
        finally:
            depth += after

    setattr(owner, name, counting)


CompilerBisector.disable_subsystem = staticmethod(leave_out)
for table in (joint_graph, post_grad, pre_grad):
    apart(table, "lazy_init", 1, -1)
apart(GraphTransformObserver, "__enter__", 0, 1)
apart(GraphTransformObserver, "__exit__", -1, 0)

'''

_TRAINED = '''
def compiled(**tensors):
    """The program as Inductor compiles it, at the first call; the backward when it is first needed."""
    return torch.compile(captured, fullgraph=True, dynamic=False)(**tensors)
'''

_UNTRAINED = '''
@torch.no_grad()
def compiled(**tensors):
    """The program as Inductor compiles it, at the first call."""
    return torch.compile(captured, fullgraph=True, dynamic=False)(**tensors)
'''
