"""The part of a script that compiles with Inductor and leaves out exactly one of its sites.

The site is known by what Inductor says when it asks whether to leave something out, and by how often it had asked just
that before, over forward and backward. Invariant: what is left out is what that question was about and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """Inductor's question to its bisector, as it asks it: ``told`` is its own text. The first ``occurrence`` is 0."""

    subsystem: str
    told: str
    occurrence: int


@dataclass(frozen=True)
class InductorSite:
    """``passes`` and ``operators`` (decompositions, lowerings) are the subsystems that have sites.

    ``required`` are passes, and operators that are decomposed, that are never off. ``custom_pass`` is the user's
    post-grad pass as ``module.Name``, its module's source lying beside the script; empty where the pipeline has none.
    ``training`` says that the backward is compiled as well.
    """

    question: Question
    passes: tuple[str, ...]
    operators: tuple[str, str]
    required: tuple[str, ...]
    custom_pass: str
    training: bool


def compiled_by_inductor(site: InductorSite, later_off: bool) -> str:
    """Source of ``compiled(**tensors)``, which compiles ``captured`` at its first call.

    With ``later_off`` nothing that can be off is on after this site.
    """
    module, _, name = site.custom_pass.rpartition(".")
    asked = site.question
    required = "".join(f"\n    {_told(name)!r}," for name in site.required)
    parts = [
        _SETTINGS,
        _CUSTOM.format(module=module.rpartition(".")[2], name=name) if module else "",
        _NAMES.format(
            culprit=(asked.subsystem, asked.told),
            occurrence=asked.occurrence,
            passes=site.passes,
            operators=site.operators,
        ),
        _SWITCHABLE.format(required=required) if later_off else "",
        _LEAVE_OUT.format(decided=_LATER_TOO if later_off else _IT_ALONE),
        _TRAINED if site.training else _UNTRAINED,
    ]
    return "\n".join(part.lstrip("\n") for part in parts if part)


def _told(name: str) -> str:
    """What Inductor says of a pass, which is its name, or of an operator that it decomposes."""
    operator, _, overload = name.rpartition(".")
    return f"<OpOverload(op='{operator}', overload='{overload}')>" if operator else name


_SETTINGS = """
inductor.fx_graph_cache = functorch.enable_autograd_cache = False  # every pass runs; only built C++ is kept
inductor.compile_threads = inductor.cpp.threads = 1
"""

_CUSTOM = """
sys.path.insert(0, str(Path(__file__).parent))
from {module} import {name}  # the user's pass

inductor.post_grad_custom_post_pass = {name}() if isinstance({name}, type) else {name}
"""

_NAMES = """
# What Inductor says when it asks whether to leave the culprit out, and how often it had said just that before.
CULPRIT, OCCURRENCE = {culprit}, {occurrence}
PASSES = {passes}
DECOMPOSITION, LOWERINGS = {operators}
"""

_SWITCHABLE = '''
REQUIRED = ({required}
)
reached = False


def switchable(text, operator):
    """Without the required ones nothing compiles; an operator that is called as it is has no lowering to leave out."""
    return text not in REQUIRED and (
        operator is None or operator in lowering.lowerings and operator not in lowering.fallbacks
    )


'''

_IT_ALONE = """\
    off = (subsystem, text) == CULPRIT and next(times) == OCCURRENCE and OFF"""

_LATER_TOO = """\
    global reached
    here = (subsystem, text) == CULPRIT and next(times) == OCCURRENCE
    off = OFF if here else reached and switchable(text, operator)
    reached = reached or here"""

_LEAVE_OUT = '''
depth, times, undecomposed = 0, count(), set()


def leave_out(_backend, subsystem, told=str):
    """Inductor asks before each pass, decomposition and lowering whether to leave it out."""
    if subsystem not in PASSES and (depth or subsystem not in (DECOMPOSITION, LOWERINGS)):
        return False
    text = told()
    operator = V.get_current_node().target if subsystem == LOWERINGS else None
    if repr(operator) in undecomposed and operator not in lowering.lowerings:
        return True  # it was to be decomposed and has no lowering
{decided}
    if off and subsystem == DECOMPOSITION:
        undecomposed.add(text)
    return off


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
