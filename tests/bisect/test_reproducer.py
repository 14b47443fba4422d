"""Reproducers of planted faults: the script fails in a fresh process, passes with the culprit off, and is short."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorfarm.bisect.failure import Failure, ValueKind
from tensorfarm.bisect.inductor_code import InductorSite, Question, compiled_by_inductor
from tensorfarm.bisect.torch_code import cut_function, whole_function
from tensorfarm.contract.capture import captured
from tensorfarm.contract.graph import Graph, Input, Node, Output, OutputKind, Ref, TargetDevice, TensorSpec
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal
from tensorfarm.farm.app.reproducing import write_reproducer

WRONG_PASSES = '''
from dataclasses import dataclass
from typing import ClassVar
from tensorfarm.compiler.rewrite_pass import take_over
from tensorfarm.compiler.site import Site
from tensorfarm.contract.graph import Ref
from tensorfarm.contract.manifest import Numerics

@dataclass(frozen=True)
class DropScale:
    """Drops every multiplication by a number: wrong at each."""
    name: ClassVar[str] = "drop-scale"
    numerics: ClassVar[Numerics] = Numerics.EXACT

    def sites(self, graph):
        for node in graph.nodes.values():
            if node.op == "aten.mul.Tensor" and isinstance(node.args[1], float):
                yield Site((node.name, node.args[0].name))

    def rewrite(self, graph, site):
        take_over(graph, *site.nodes)
'''


class Scales(torch.nn.Module):
    """Output 0 has one scale, output 1 two; output 2 counts. The buffer keeps a scaled mean."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 16).reshape(4, 4))
        self.seen = torch.nn.Buffer(torch.zeros(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        self.seen.copy_(x.mean(0).tanh())
        hidden = torch.nn.functional.gelu(x @ self.weight)
        return hidden * 0.5, (x.cos() * 3.0).sin() * 2.0, (x > 0).sum(0)


@pytest.fixture(scope="module")
def program() -> Program:
    x = torch.linspace(-2, 2, 12).reshape(3, 4)
    return captured("scales", torch.export.export(Scales(), (x,), strict=False))


@pytest.fixture
def written(program: Program, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """The reproducer job, for a site of ``dce`` and ``drop-scale``, and a finding."""
    (tmp_path / "planted_scales.py").write_text(WRONG_PASSES)

    def write(ordinal: int, **finding: Any) -> dict[str, Any]:
        path = tmp_path / "scales.program"
        row = {"check_name": "forward", "worst_index": [1, 2], "limit_abs": 1e-6, "n_bad": 1, "seed": 3, **finding}
        return write_reproducer(
            {
                "program": str(path),
                "program_sha256": program.save(path),
                "mode": "training",
                "pipeline": "fx:cse,planted_scales:DropScale",
                "python_path": [str(tmp_path)],
                "ordinal": ordinal,
                "pass_name": "drop-scale",
                "site": "0123456789abcdef",
                "nodes": ["mul"],
                "finding": {"message": 'off by a lot: "\\ """', **row},
                "folder": str(tmp_path / "reproducer"),
                "threads": 1,
            }
        )

    return write


def test_a_wrong_site_is_shown_by_a_script_that_passes_with_it_off(written: Callable[..., dict[str, Any]]) -> None:
    made = written(0, what="output 0")
    assert made["reproduced"], made
    text = Path(made["reproducer"]).read_text()
    # Nothing of the other outputs is left, and what differs is marked.
    assert "cos" not in text
    assert text.count("aten.gelu") == 3
    assert text.count("# not in compiled") == 1
    assert "site 0123456789abcdef, which touches mul" in text
    assert "A later site" not in text
    misused = subprocess.run([sys.executable, made["reproducer"], "--of"], capture_output=True, text=True)
    assert (misused.returncode, misused.stderr) == (2, f"usage: python {made['reproducer']} [--off]\n")


def test_where_a_later_site_breaks_it_too_the_later_ones_are_off_in_both(
    written: Callable[..., dict[str, Any]],
) -> None:
    made = written(1, what="output 1")
    assert made["reproduced"], made
    assert "A later site breaks it as well" in Path(made["reproducer"]).read_text()


def test_a_wrong_gradient_is_shown_for_the_gates_cotangents(written: Callable[..., dict[str, Any]]) -> None:
    made = written(0, check_name="gradient", what="gradient weight", worst_index=[3, 3])
    assert made["reproduced"], made


def test_a_site_that_is_innocent_is_said_not_to_reproduce_and_its_script_is_kept(
    written: Callable[..., dict[str, Any]],
) -> None:
    made = written(0, what="buffer seen", worst_index=[2], check_name="mutation")
    assert not made["reproduced"]
    assert made["message"].startswith("reproducer.py exited with 0 (expected 1): buffer seen[2]: expected ")
    assert Path(made["reproducer"]).is_file()


def test_a_failure_without_an_element_has_no_script(written: Callable[..., dict[str, Any]]) -> None:
    made = written(0, check_name="loading", what="artifact", n_bad=0, message="the subject died: SIGSEGV")
    assert (made["reproducer"], made["reproduced"]) == ("", False)
    assert "SIGSEGV" in made["message"]


def test_findings_name_outputs_buffers_and_gradients(program: Program) -> None:
    def failure(what: str) -> tuple[ValueKind, int, str]:
        row = {"check_name": "any", "what": what, "worst_index": [], "limit_abs": "inf", "n_bad": 1, "seed": 0}
        found = Failure.of({**row, "message": ""}, program.graph)
        return found.kind, found.position, found.name

    # The buffer's write comes first among the graph's outputs.
    assert failure("output 0") == (ValueKind.OUTPUT, 1, "")
    assert failure("buffer seen") == (ValueKind.WRITTEN, 0, "")
    assert failure("gradient weight") == (ValueKind.GRADIENT, -1, "p_weight")
    for stranger in ("output 9", "buffer weight", "input x", "artifact"):
        with pytest.raises(Refusal):
            failure(stranger)


def test_arguments_of_every_kind_are_spelled_as_python() -> None:
    spec = TensorSpec(torch.float32, (2,), (1,))
    nodes = [
        Node("split", "aten.split.Tensor", (Ref("torch"), 1), results=(spec, spec), many=True),
        Node("part", "getitem", (Ref("split"), 0), results=(spec,)),
        Node(
            "full", "aten.full.default", ((2,), float("-inf")), (("device", TargetDevice()), ("dtype", torch.float32))
        ),
        Node("clamp", "aten.clamp.default", (Ref("part"), Ref("low"), None), results=(spec,)),
        Node("dead", "aten.neg.default", (Ref("part"),), results=(spec,)),
    ]
    inputs = (Input("torch", spec), Input("low", None, 0.5))
    outputs = (Output(OutputKind.USER, Ref("clamp")), Output(OutputKind.USER, (Ref("full"), complex(0, float("nan")))))
    graph = Graph(inputs, {}, {node.name: node for node in nodes}, outputs)
    lines = cut_function("f", "About.", graph, [output.value for output in outputs])
    assert lines == [
        "def f(",
        "    torch_, **_",
        "):",
        '    """About."""',
        "    split = aten.split.Tensor(torch_, 1)",
        "    part = split[0]",
        '    full = aten.full.default([2], float("-inf"), device="cpu", dtype=torch.float32)',
        "    clamp = aten.clamp.default(part, 0.5, None)",
        '    return (clamp, [full, complex(0.0, float("nan"))],)',
    ]


def test_a_whole_function_computes_and_writes_as_the_program_does(program: Program) -> None:
    source = "\n".join(whole_function("program", "About.", program.graph))
    names: dict[str, Any] = {"torch": torch, "aten": torch.ops.aten}
    exec(source, names)
    tensors = {name: tensor.clone() for name, tensor in (*program.inputs.items(), *program.weights.items())}
    module = Scales()
    for seen, expected in zip(names["program"](**tensors), module(*program.inputs.values()), strict=True):
        assert torch.equal(seen, expected)
    assert torch.equal(tensors["b_seen"], module.seen)


GELU = "<OpOverload(op='aten.gelu', overload='default')>"
ROLL = "<OpOverload(op='aten.roll', overload='default')>"
ASKING = """
import json, sys
sys.argv.append("--off")
from itertools import count
import torch
import torch._functorch.config as functorch
import torch._inductor.config as inductor
from torch._inductor import lowering
from torch._inductor.compiler_bisector import CompilerBisector
from torch._inductor.fx_passes import joint_graph, post_grad, pre_grad
from torch._inductor.virtualized import V
from torch.fx.passes.graph_transform_observer import GraphTransformObserver
OFF = True
{script}
graph = torch.fx.Graph()
x = graph.placeholder("x")
operators = {{"sin": torch.ops.aten.sin.default, "gelu": torch.ops.aten.gelu.default}}
operators["has no lowering"] = min(lowering.fallbacks, key=str)
nodes = {{name: graph.call_function(operator, (x,)) for name, operator in operators.items()}}

def ask(subsystem, told):
    with V.set_current_node(nodes.get(told)):
        return CompilerBisector.disable_subsystem("inductor", subsystem, lambda: told)

observed = GraphTransformObserver(torch.fx.GraphModule({{}}, graph), "observed", "joint_graph_passes")
for subsystem, told in json.loads(sys.argv[1]):
    if subsystem == "within a pass":
        observed.apply_gm_pass(lambda _: ask("decomposition", told))
    else:
        print(int(ask(subsystem, told)))
"""
# What is asked, and the answers to the script of the second decomposition of gelu: of it alone, and of all later ones.
ASKED = [
    ("decomposition", GELU, 0, 0),
    ("within a pass", GELU, None, None),
    ("post_grad_passes", GELU, 0, 0),
    ("decomposition", GELU, 1, 1),
    ("decomposition", GELU, 0, 1),
    ("decomposition", ROLL, 0, 0),
    ("post_grad_passes", "view_to_reshape", 0, 1),
    ("post_grad_passes", "stable_sort", 0, 0),
    ("cudagraphs", "", 0, 0),
    ("lowerings", "sin", 0, 1),
    ("lowerings", "has no lowering", 0, 0),
    ("lowerings", "gelu", 1, 1),
]


@pytest.mark.parametrize("later_off", [False, True])
def test_exactly_the_question_about_the_culprit_is_answered_with_yes(later_off: bool) -> None:
    passes = ("pre_grad_passes", "joint_graph_passes", "post_grad_passes")
    required = ("aten.roll.default", "stable_sort")
    question = Question("decomposition", GELU, 1)
    site = InductorSite(question, passes, ("decomposition", "lowerings"), required, "", training=True)
    script = compiled_by_inductor(site, later_off)
    asked = json.dumps([(subsystem, told) for subsystem, told, _, _ in ASKED])
    command = [sys.executable, "-W", "ignore", "-c", ASKING.format(script=script), asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = [(subsystem, told, row[later_off]) for subsystem, told, *row in ASKED if subsystem != "within a pass"]
    seen = [int(line) for line in done.stdout.split()]
    assert [(*row[:2], answer) for row, answer in zip(expected, seen, strict=True)] == expected


WRONG_POST_GRAD = """
import torch

def subtract_instead(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor):
        node.target = torch.ops.aten.sub.Tensor
"""
COMPILE = """
import json, sys
from tensorfarm.compiler.compile import compile_candidate
print(json.dumps(compile_candidate(json.loads(sys.argv[1]))["manifest"]))
"""


class Sum(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.weight).sin() + x.cos()


@pytest.mark.slow
def test_a_wrong_post_grad_pass_is_shown_by_compiling_anew_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORFARM_BUILD_ROOT", str(tmp_path / "build"))
    (tmp_path / "planted_post_grad.py").write_text(WRONG_POST_GRAD)
    program = captured("sum", torch.export.export(Sum(), (torch.linspace(-2, 2, 4),), strict=False))
    request = {
        "program": str(tmp_path / "sum.program"),
        "program_sha256": program.save(tmp_path / "sum.program"),
        "candidate_id": "c0ffee" * 8,
        "semantic_hash": program.semantic_hash,
        "mode": "training",
        "pipeline": "inductor{post_grad=planted_post_grad.subtract_instead}",
        "target": "cpu/any",
        "toolchain": {},
        "built": str(tmp_path / "built"),
        "python_path": [str(tmp_path)],
        "threads": 1,
    }
    command = [sys.executable, "-W", "ignore", "-c", COMPILE, json.dumps(request)]
    manifest = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    culprit = next(
        row
        for row in manifest
        if row["name"] == "post_grad_custom_post_pass" and row["decision"] == "applied" and row["attributes"]["nodes"]
    )
    finding = {
        "check_name": "forward",
        "what": "output 0",
        "worst_index": [1],
        "limit_abs": 1e-6,
        "n_bad": 4,
        "seed": 0,
    }
    made = write_reproducer(
        {
            **request,
            "ordinal": int(culprit["attributes"]["ordinal"]),
            "asked": {name: culprit["attributes"][name] for name in ("subsystem", "told", "occurrence")},
            "pass_name": culprit["name"],
            "site": culprit["site"],
            "nodes": culprit["attributes"]["nodes"].split(","),
            "finding": {**finding, "message": "output 0[1] is off"},
            "folder": str(tmp_path / "reproducer"),
        }
    )
    assert made["reproduced"], made
    assert (tmp_path / "reproducer" / "planted_post_grad.py").is_file()
