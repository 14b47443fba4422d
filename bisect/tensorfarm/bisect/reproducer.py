"""Reproducers: standalone scripts that show one fault with torch alone, and that it is gone with the culprit off.

A script computes the failing element of the program in float64, then as compiled, and compares the two by the limit
that the gate used: exit code 1 where they differ, 0 where they agree, 2 for any argument but ``--off``. Its
tensors are in a ``.pt`` file beside it: they are the program's own, and as text even small ones would bury the code.
Invariant: rendering is pure, so equal findings give equal scripts.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from tensorfarm.bisect.failure import Failure, ValueKind
from tensorfarm.bisect.inductor_code import InductorSite, compiled_by_inductor
from tensorfarm.bisect.torch_code import (
    cut_function,
    identifier,
    tensors_of,
    whole_function,
    with_differences_marked,
)
from tensorfarm.contract.graph import Argument, Graph, OutputKind

SCRIPT = "reproducer.py"


@dataclass(frozen=True)
class Story:
    """What the script says of itself. ``nodes`` are those that the culprit touched; ``verdict`` is the gate's line.

    ``later_off`` says that every site after the culprit is off in both runs: where a later one breaks it as well.
    """

    program: str
    pipeline: str
    pass_name: str
    site: str
    nodes: tuple[str, ...]
    verdict: str
    torch_version: str
    later_off: bool


@dataclass(frozen=True)
class Lowerings:
    """The program, and what our own passes made of it with the culprit on and with it off."""

    captured: Graph
    compiled: Graph
    culprit_off: Graph

    def tensors(self, failure: Failure, roots: Sequence[int]) -> list[str]:
        """The inputs and weights that the script needs."""
        graphs = (self.captured, self.compiled, self.culprit_off)
        return list(dict.fromkeys(name for graph in graphs for name in tensors_of(graph, asked(graph, failure, roots))))


def asked(graph: Graph, failure: Failure, roots: Sequence[int]) -> list[Argument]:
    """The values to compute: the failing one, or, for a gradient, the outputs at ``roots`` that it comes from."""
    positions = roots if failure.kind is ValueKind.GRADIENT else [failure.position]
    return [graph.outputs[position].value for position in positions]


def script_of_passes(story: Story, failure: Failure, roots: Sequence[int], lowerings: Lowerings) -> str:
    """The script for a site of our own passes: three functions, cut down to what the failing value depends on."""

    def function(name: str, about: str, graph: Graph) -> list[str]:
        return cut_function(name, about, graph, asked(graph, failure, roots))

    captured = function("captured", "The program as it was captured.", lowerings.captured)
    compiled = function("compiled", "What the passes make of it.", lowerings.compiled)
    off = function("culprit_off", "What they make of it with the culprit off.", lowerings.culprit_off)
    return _joined(
        _doc(story, failure, "The functions are cut down to what that value depends on."),
        _IMPORTS.format(standard="import sys", torch=""),
        captured,
        with_differences_marked(compiled, off, "not in culprit_off"),
        with_differences_marked(off, compiled, "not in compiled"),
        _failing(failure, 0),
        _EXACT,
        _main(failure, "culprit_off if OFF else compiled"),
    )


def script_of_inductor(
    story: Story, failure: Failure, roots: Sequence[int], captured: Graph, site: InductorSite
) -> str:
    """The script for a site of Inductor: the whole program, since a part of it would have other sites."""
    place = [at for at, output in enumerate(captured.outputs) if output.kind is OutputKind.USER]
    position = place.index(failure.position) if failure.kind is ValueKind.OUTPUT else 0
    written = captured.outputs[failure.position].target if failure.kind is ValueKind.WRITTEN else ""
    by_target = {weight.target: weight.name for weight in captured.weights.values()}
    return _joined(
        _doc(story, failure, "It is compiled anew: torch takes half a minute or so, and needs a C++ compiler."),
        _IMPORTS.format(standard="import sys\nfrom itertools import count", torch=_INDUCTOR_IMPORTS),
        whole_function("captured", "The program as it was captured.", captured),
        compiled_by_inductor(site, story.later_off),
        _failing(failure, position, [place.index(root) for root in roots], by_target.get(written, written)),
        _EXACT,
        _main(failure, "compiled"),
    )


def _joined(*parts: str | list[str]) -> str:
    texts = [part if isinstance(part, str) else "\n".join(part) for part in parts]
    return "\n\n\n".join(text.strip("\n") for text in texts) + "\n"


def _doc(story: Story, failure: Failure, note: str) -> str:
    said = [
        f"{story.pass_name} breaks {story.program}: {failure.element} is outside its limit.",
        f"Found by bisecting {story.pipeline}: site {story.site}"
        + (f", which touches {', '.join(story.nodes)}" if story.nodes else "")
        + f". Seen with torch {story.torch_version}. The gate said: {story.verdict}",
        f"python {SCRIPT}          with that site: exits with 1 while the fault is there\n"
        f"python {SCRIPT} --off    with that site switched off: exits with 0",
        ("A later site breaks it as well, so all later ones are off in both. " if story.later_off else "")
        + f"Needs torch, and its tensors in the .pt file of the same name beside it. {note}",
    ]
    plain = [text.replace("\\", "/").replace('"', "'") for text in said]
    wrapped = [textwrap.fill(plain[0], _WIDTH), textwrap.fill(plain[1], _WIDTH)]
    usage = textwrap.indent(plain[2], "    ")
    return '"""' + "\n\n".join([*wrapped, usage, textwrap.fill(plain[3], _WIDTH)]) + '\n"""'


def _failing(failure: Failure, position: int, roots: Sequence[int] = (), written: str = "") -> str:
    if failure.kind is ValueKind.GRADIENT:
        chosen = f"[outputs[at] for at in {list(roots)}]" if roots else "outputs"
        return _GRADIENT.format(what=failure.what, name=identifier(failure.name), chosen=chosen)
    if written:
        return _WRITTEN.format(what=failure.what, name=identifier(written))
    return _OUTPUT.format(what=failure.what, position=position)


def _main(failure: Failure, function: str) -> str:
    return _MAIN.format(index=failure.index, limit=repr(failure.limit), what=failure.element, function=function)


_WIDTH = 110

_IMPORTS = """\
{standard}
from pathlib import Path

import torch
{torch}from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten
OFF = "--off" in sys.argv
"""

_INDUCTOR_IMPORTS = """\
import torch._functorch.config as functorch
import torch._inductor.config as inductor
from torch._inductor import lowering
from torch._inductor.compiler_bisector import CompilerBisector
from torch._inductor.fx_passes import joint_graph, post_grad, pre_grad
from torch._inductor.virtualized import V
from torch.fx.passes.graph_transform_observer import GraphTransformObserver
"""

_OUTPUT = '''
def failing(function, tensors, cotangents):
    """The value that fails: {what}."""
    return function(**tensors)[{position}]
'''

_WRITTEN = '''
def failing(function, tensors, cotangents):
    """The value that fails: {what}, which the program writes to."""
    function(**tensors)
    return tensors["{name}"]
'''

_GRADIENT = '''
def failing(function, tensors, cotangents):
    """The value that fails: {what}, for the cotangents that the gate drew."""
    outputs = function(**tensors)
    return torch.autograd.grad({chosen}, tensors["{name}"], cotangents)[0]
'''

_EXACT = '''
def wide(value):
    """A floating dtype as float64, a complex one as complex128; anything else as it is."""
    if isinstance(value, torch.dtype) and (value.is_floating_point or value.is_complex):
        return torch.complex128 if value.is_complex else torch.float64
    return value


class InFloat64(TorchDispatchMode):
    """Whatever dtype an operator is asked for becomes the wide one."""

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        return operator(*tree_map(wide, args), **tree_map(wide, kwargs or {}))


def copied(tensor):
    """A leaf of its own, in the wide dtype."""
    return tensor.detach().clone().to(wide(tensor.dtype)).requires_grad_(tensor.requires_grad)


def exact(tensors, cotangents):
    """The failing value of the program in float64."""
    tensors, cotangents = tree_map(copied, (tensors, cotangents))
    torch.set_default_dtype(torch.float64)
    with InFloat64():
        value = failing(captured, tensors, cotangents)
    torch.set_default_dtype(torch.float32)
    return value
'''

_MAIN = '''
INDEX, LIMIT = {index}, {limit}


def element(value):
    """The failing element; that of a complex value is a real or an imaginary part."""
    value = value.detach().resolve_conj()
    return float((torch.view_as_real(value) if value.is_complex() else value)[INDEX])


def main():
    if sys.argv[1:] not in ([], ["--off"]):
        print(f"usage: python {{sys.argv[0]}} [--off]", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    data = torch.load(Path(__file__).with_suffix(".pt"), weights_only=True)
    expected = element(exact(**data))
    seen = element(failing({function}, **data))
    agrees = abs(seen - expected) <= LIMIT or seen == expected or (seen != seen and expected != expected)
    compared = f"expected {{expected:.9g}}, seen {{seen:.9g}}, limit {{LIMIT:.3g}}"
    print(f"{what}: {{compared}}:", "agrees" if agrees else "fails")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
'''
