"""Each kind of subject, a right one and a wrong one, in a process of its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import gate_subjects
import onnx
import pytest
import torch
from gate_runners import Runners, artifact, shared
from gate_subjects import expected, x
from onnx import TensorProto, helper

from tensorfarm.contract.capture import capture
from tensorfarm.contract.digest import sha256_file
from tensorfarm.contract.program import Program
from tensorfarm.contract.tensors import write_tensors

HERE = Path(__file__).parent
SOURCE = HERE / "gate_subjects.py"


@pytest.fixture(scope="module")
def runners() -> Runners:
    return shared()


def named(name: str, kind: str = "callable", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "source": f"{SOURCE}:{name}", **more}


def test_a_function_in_a_file_is_called_as_it_is(runners: Runners) -> None:
    assert torch.equal(runners.ran(named("double"), (x(),)).output(), x() * 2)
    assert not torch.equal(runners.ran(named("triple"), (x(),)).output(), x() * 2)


def test_a_module_of_a_factory_has_its_tensors_by_name_and_its_structure_as_text(runners: Runners) -> None:
    ran = runners.ran(named("small", factory=True), (x(), 2.0), derivative="vjp")
    assert torch.equal(ran.output(), expected((x(), 2.0))[0])
    assert ran.tensors["example|0|gradient:linear.weight"].shape == (3, 4)
    assert ran.tensors["example|0|buffer:calls"].item() == 1
    assert ran.report is not None
    assert ran.report.calls["example"][0].structure == "builtins.dict['y', 'total'](*, *)"


def test_what_was_never_written_is_no_zero_in_the_second_trial(runners: Runners) -> None:
    filled = torch.full((4,), 0x7F, dtype=torch.uint8).view(torch.float32)
    ran = runners.ran(named("half_written"), (x(),), (x(),), trials=("example", "again", "third"))
    unwritten = {(name, call): ran.output(0, call, name)[1 << 15 :] for name in ("example", "again") for call in (0, 1)}
    told = [place for place, value in unwritten.items() if bool((value == filled).all())]
    assert told == [("again", 1)]


def test_an_import_string_is_found_through_the_python_path_that_comes_with_it(runners: Runners) -> None:
    subject = {"kind": "callable", "source": "gate_subjects:double", "python_path": [str(HERE)]}
    assert torch.equal(runners.ran(subject, (x(),)).output(), x() * 2)


@pytest.mark.parametrize(
    ("subject", "told"),
    [
        (named("absent"), "has no function 'absent'"),
        ({"kind": "callable", "source": "/nowhere.py:double"}, "/nowhere.py does not exist"),
        (named("no_module", factory=True), "returned int"),
        (named("unable", factory=True), "raised ValueError: no weights here"),
        ({"kind": "guess"}, "kind 'guess' is unknown"),
        (
            named("module_alone", "compiled", backend="eager", settings={"inductor": {"cpp.nonsense": 1}}),
            "cpp.nonsense",
        ),
        (named("module_alone", "compiled", backend="eager", settings={"triton": {}}), "no configuration triton"),
        ({"kind": "exported", "path": str(SOURCE)}, "not readable as an exported program"),
        ({"kind": "onnx", "path": str(SOURCE)}, "ONNX Runtime does not load"),
        ({"kind": "aoti", "path": str(SOURCE)}, "not readable as an AOTInductor package"),
    ],
)
def test_what_cannot_be_loaded_is_told_in_one_line(runners: Runners, subject: dict[str, Any], told: str) -> None:
    error = runners.ran(subject, (x(),)).error()
    assert told in error
    assert "\n" not in error


def test_weights_of_the_original_are_put_in_place_by_name(runners: Runners, tmp_path: Path) -> None:
    weights = {"linear.weight": torch.ones(3, 4), "linear.bias": torch.zeros(3)}
    write_tensors(tmp_path / "state", weights)
    ran = runners.ran(named("small", factory=True, state=str(tmp_path / "state")), (x().abs(), 1.0))
    assert torch.equal(ran.output(), x().abs().sum(-1, keepdim=True).expand(2, 3) + 0.5)
    write_tensors(tmp_path / "other", {"linear.weight": torch.ones(4, 4)})
    refused = runners.ran(named("small", factory=True, state=str(tmp_path / "other")), (x(), 1.0))
    assert "no tensor linear.weight that can hold the original's" in refused.error()


# torch.compile


def compiled(name: str = "small", **more: Any) -> dict[str, Any]:
    return named(name, "compiled", **{"backend": "eager", **more})


def test_a_compiled_module_is_called_trained_and_looked_at_like_the_original(runners: Runners) -> None:
    ran = runners.ran(compiled(backend="aot_eager"), (x(), 2.0), derivative="vjp")
    assert torch.equal(ran.output(), expected((x(), 2.0))[0])
    assert {"example|0|gradient:linear.weight", "example|0|buffer:calls"} <= ran.tensors.keys()
    assert (ran.evidence["graphs"], ran.evidence["eager"], ran.evidence["fell_back"]) == (1, False, [])
    assert ran.evidence["guards"] > 0


def test_a_backend_that_drops_an_operator_is_seen_to(runners: Runners) -> None:
    ran = runners.ran(compiled(backend=f"{SOURCE}:relu_is_dropped"), (x(), 2.0))
    assert not torch.equal(ran.output(), expected((x(), 2.0))[0])


def test_calls_of_one_trial_recompile_and_say_why(runners: Runners) -> None:
    calls = ((x(), 2.0), (x()[:1], 2.0), (x(), 3.0))
    ran = runners.ran(compiled(), *calls)
    for number, wanted in enumerate(expected(*calls)):
        assert torch.equal(ran.output(call=number), wanted)
    first, *_ = ran.evidence["recompilations"]
    assert f"{SOURCE}:" in first
    assert "size mismatch at index 0. expected 2, actual 1" in first


def test_each_trial_has_a_fresh_subject_that_is_compiled_again(runners: Runners) -> None:
    ran = runners.ran(compiled(), (x(), 2.0), trials=("example", "again"))
    assert ran.tensors["again|0|buffer:calls"].item() == 1
    assert (ran.evidence["graphs"], ran.evidence["recompilations"]) == (1, [])


def test_a_change_between_calls_reaches_the_module_and_not_only_the_compiled_code(runners: Runners) -> None:
    ran = runners.ran(compiled(), (x(), 2.0), (x(), 2.0), between="change_attribute")
    assert torch.equal(ran.output(call=1) + 0.25, ran.output(call=0))


def test_a_graph_break_is_told_with_its_line(runners: Runners) -> None:
    ran = runners.ran(compiled("breaking"), (x(),))
    line = 1 + next(n for n, text in enumerate(SOURCE.read_text().splitlines()) if "graph_break()" in text)
    (told,) = ran.evidence["graph_breaks"]
    assert told.startswith(f"{SOURCE}:{line}: ")


def test_running_as_eager_without_a_word_is_told(runners: Runners) -> None:
    assert runners.ran(compiled("never_traced"), (x(),)).evidence["eager"] is True
    few = compiled("repeated", settings={"dynamo": {"recompile_limit": 1}}, dynamic=False)
    ran = runners.ran(few, *((x(), times) for times in range(2, 6)))
    assert torch.equal(ran.output(call=3), x() * 5)
    assert any("limit" in why for why in ran.evidence["fell_back"])


@pytest.mark.slow
def test_inductor_compiles_in_a_folder_of_its_own_with_torchs_caches_of_graphs(
    runners: Runners, tmp_path: Path
) -> None:
    subject = compiled(backend="inductor", cache_dir=str(tmp_path / "cache"))
    ran = runners.ran(subject, (x(), 2.0), trials=("example", "again"), derivative="vjp")
    assert torch.allclose(ran.output(), expected((x(), 2.0))[0])
    assert list((tmp_path / "cache").rglob("*.so"))
    assert ran.evidence["caches"]["fxgraph_cache_hit"]
    assert ran.evidence["compiler_modules"]
    wrong = compiled(backend=f"{SOURCE}:relu_is_dropped_before_inductor")
    assert not torch.allclose(runners.ran(wrong, (x(), 2.0)).output(), expected((x(), 2.0))[0])


@pytest.mark.slow
def test_one_run_finds_no_graph_of_another_one(runners: Runners) -> None:
    for _ in range(2):
        caches = runners.ran(compiled(backend="inductor"), (x(), 2.0)).evidence["caches"]
        assert caches["fxgraph_cache_miss"]
        assert not [name for name, count in caches.items() if "hit" in name and count]


@pytest.mark.slow
@pytest.mark.parametrize("cached", [True, False])
def test_a_graph_that_the_cache_takes_for_another_one_answers_as_it_would_for_a_user(
    runners: Runners, cached: bool
) -> None:
    """The key of Inductor's cache leaves out how inputs share memory (torch 2.13)."""
    whole = torch.arange(6.0)
    apart, overlapping = (whole[:4].clone(), whole[:4].clone(), "of"), (whole[:4], whole[2:], "in")
    off = {"inductor": {"fx_graph_cache": False}, "functorch": {"enable_autograd_cache": False}}
    subject = compiled("doubles_and_adds", backend="inductor", settings={} if cached else off)
    ran = runners.ran(subject, apart, overlapping)
    assert torch.equal(ran.output(), torch.arange(4.0) * 3)
    wanted = gate_subjects.DoublesAndAdds()(*overlapping)
    assert torch.equal(ran.output(call=1), wanted) is not cached


def test_nothing_that_a_session_lays_on_disk_outlives_the_run(runners: Runners, tmp_path: Path) -> None:
    outside = set(runners.folder.iterdir())
    for subject in (compiled(), named("litters_and_dies")):
        ran = runners.ran(subject, (x(),))
        run = runners.folder / f"{runners.count}.subject"
        assert {path.name for path in set(runners.folder.iterdir()) - outside} == {run.name}
        outside.add(run)
    assert ran.death == {"kind": "signal", "message": "SIGABRT"}
    assert [path.name[:18] for path in (run / "main" / "scratch").iterdir()] == ["tensorfarm-litter-"]


# torch.export, and capture


@pytest.fixture(scope="module")
def program() -> Program:
    torch.manual_seed(0)
    return capture(f"{SOURCE}:small")


def test_a_captured_graph_is_judged_under_the_names_of_its_module(
    runners: Runners, program: Program, tmp_path: Path
) -> None:
    sha256 = program.save(tmp_path / "right")
    subject = {"kind": "captured", "path": str(tmp_path / "right"), "sha256": sha256}
    ran = runners.ran(subject, (x(), 2.0), derivative="vjp")
    assert torch.equal(ran.output(), expected((x(), 2.0))[0])
    assert {"example|0|gradient:linear.weight", "example|0|buffer:calls"} <= ran.tensors.keys()
    assert ran.report is not None
    assert ran.report.calls["example"][0].structure == "builtins.dict['y', 'total'](*, *)"
    graph = program.graph.copy()
    (name,) = [name for name, node in graph.nodes.items() if node.op == "aten.relu.default"]
    graph.nodes[name] = replace(graph.nodes[name], op="aten.neg.default")
    replace(program, graph=graph).save(tmp_path / "wrong")
    wrong = runners.ran({"kind": "captured", "path": str(tmp_path / "wrong")}, (x(), 2.0))
    assert not torch.equal(wrong.output(), expected((x(), 2.0))[0])


def test_a_graph_refuses_what_it_was_not_captured_for(runners: Runners, program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "program")
    subject = {"kind": "captured", "path": str(tmp_path / "program")}
    assert "was built for torch.float32 of shape [2, 4]" in runners.ran(subject, (x()[:1], 2.0)).error()
    assert "was built for 2.0" in runners.ran(subject, (x(), 3.0)).error()


def test_an_exported_program_is_called_as_a_module(runners: Runners, tmp_path: Path) -> None:
    for name, shift in (("right", 0.5), ("wrong", 0.25)):
        torch.manual_seed(0)
        torch.export.save(torch.export.export(gate_subjects.Small(shift), (x(), 2.0)), tmp_path / f"{name}.pt2")
    right = runners.ran({"kind": "exported", "path": str(tmp_path / "right.pt2")}, (x(), 2.0), derivative="vjp")
    assert torch.equal(right.output(), expected((x(), 2.0))[0])
    assert {"example|0|gradient:linear.weight", "example|0|buffer:calls"} <= right.tensors.keys()
    wrong = runners.ran({"kind": "exported", "path": str(tmp_path / "wrong.pt2")}, (x(), 2.0))
    assert not torch.equal(wrong.output(), expected((x(), 2.0))[0])
    other = runners.ran({"kind": "exported", "path": str(tmp_path / "right.pt2")}, (x()[:1], 2.0))
    assert "Guard failed" in other.error()


# ONNX Runtime


def onnx_file(place: Path, dtype: int = TensorProto.FLOAT, op: str = "Relu") -> str:
    """``relu(x) + x`` for a 2 by 4 matrix."""
    x, y = (helper.make_tensor_value_info(name, dtype, [2, 4]) for name in "xy")
    nodes = [helper.make_node(op, ["x"], ["r"]), helper.make_node("Add", ["r", "x"], ["y"])]
    graph = helper.make_graph(nodes if dtype == TensorProto.FLOAT else nodes[:1], "g", [x], [y])
    if dtype != TensorProto.FLOAT:
        graph.node[0].output[0] = "y"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, str(place))
    return str(place)


def test_an_onnx_file_is_run_by_onnx_runtime(runners: Runners, tmp_path: Path) -> None:
    right = runners.ran({"kind": "onnx", "path": onnx_file(tmp_path / "right.onnx")}, (x(),))
    assert torch.equal(right.output(), torch.relu(x()) + x())
    assert right.evidence["runtime"] == "onnxruntime"
    wrong = runners.ran({"kind": "onnx", "path": onnx_file(tmp_path / "wrong.onnx", op="Abs")}, (x(),))
    assert not torch.equal(wrong.output(), torch.relu(x()) + x())
    strided = runners.ran({"kind": "onnx", "path": str(tmp_path / "right.onnx")}, (x().t().contiguous().t(),))
    assert torch.equal(strided.output(), torch.relu(x()) + x())


def test_onnx_runtime_refuses_other_shapes_and_another_number_of_inputs(runners: Runners, tmp_path: Path) -> None:
    subject = {"kind": "onnx", "path": onnx_file(tmp_path / "file.onnx")}
    assert "Got invalid dimensions for input" in runners.ran(subject, (x()[:1],)).error()
    assert "the ONNX file takes x" in runners.ran(subject, (x(), x())).error()


def test_dtypes_that_numpy_lacks_pass_to_onnx_runtime_and_back(runners: Runners, tmp_path: Path) -> None:
    path = onnx_file(tmp_path / "file.onnx", TensorProto.BFLOAT16, "Identity")
    given = x().bfloat16()
    assert torch.equal(runners.ran({"kind": "onnx", "path": path}, (given,)).output(), given)


# Triton

_KERNELS = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(source, target, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(source + row * columns + column, mask=inside, other=OTHER)
    raised = tl.exp(value - tl.max(value, 0))
    tl.store(target + row * columns + column, raised / tl.sum(raised, 0), mask=inside)

def launch(x, *_weights):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=8)
    return (y,)
"""


def kernels(place: Path, other: str = 'float("-inf")') -> str:
    place.write_text(_KERNELS.replace("OTHER", other))
    return f"{place}:launch"


def test_triton_kernels_are_interpreted_on_a_cpu_though_triton_was_imported_before(
    runners: Runners, tmp_path: Path
) -> None:
    odd = x()[:, :3].contiguous()
    right = runners.ran(
        {"kind": "triton", "source": kernels(tmp_path / "right.py")}, (odd,), trials=("example", "again")
    )
    assert torch.allclose(right.output(), odd.softmax(-1))
    assert torch.equal(right.output(trial="again"), right.output())
    assert right.evidence == {"runtime": "triton", "interpreted": True}
    wrong = runners.ran({"kind": "triton", "source": kernels(tmp_path / "wrong.py", "0.0")}, (odd,))
    assert not torch.allclose(wrong.output(), odd.softmax(-1))


# Artifacts of other runtimes


class Soft(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1)


def soft() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    return Soft(), (x(),)


def test_an_artifact_may_hold_triton_kernels_or_an_onnx_file(runners: Runners, tmp_path: Path) -> None:
    program = capture(f"{Path(__file__)}:soft")
    kernels(tmp_path / "kernels.py")
    held = artifact(program, tmp_path / "triton", "triton", kernels_py=tmp_path / "kernels.py")
    ran = runners.ran(held, (x(),), trials=("example", "again"))
    assert torch.allclose(ran.output(trial="again"), x().softmax(-1))
    onnx_file(tmp_path / "model.onnx")
    held = artifact(program, tmp_path / "onnx", "onnxruntime", model_onnx=tmp_path / "model.onnx")
    assert torch.equal(runners.ran(held, (x(),)).output(), torch.relu(x()) + x())
    assert "was built for" in runners.ran(held, (x()[:1],)).error()


def test_a_graph_artifact_calls_its_tensors_by_the_names_of_the_module(
    runners: Runners, program: Program, tmp_path: Path
) -> None:
    held = artifact(program, tmp_path / "graph", "graph")
    assert held["sha256"] == sha256_file(tmp_path / "graph")
    ran = runners.ran(held, (x(), 2.0), trials=("example", "again"), derivative="vjp")
    assert {"again|0|gradient:linear.weight", "again|0|buffer:calls"} <= ran.tensors.keys()
    assert ran.tensors["again|0|buffer:calls"].item() == 1


# Death


@pytest.mark.parametrize(
    ("name", "death"),
    [
        ("segfault", {"kind": "signal", "message": "SIGSEGV"}),
        ("abort", {"kind": "signal", "message": "SIGABRT"}),
        ("leave", {"kind": "exit", "message": "exit code 3"}),
    ],
)
def test_a_subject_that_takes_its_process_down_leaves_its_signal_and_no_report(
    runners: Runners, name: str, death: dict[str, str]
) -> None:
    ran = runners.ran(named(name), (x(),))
    assert (ran.report, ran.death) == (None, death)


def test_a_subject_that_allocates_without_end_is_told_so_where_memory_is_limited(runners: Runners) -> None:
    ran = runners.ran(named("hoard"), (x(),), memory_bytes=2 << 30)
    assert "can't allocate memory" in ran.error()
