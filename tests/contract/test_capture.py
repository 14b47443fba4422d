"""Capture: the same program keeps its identity by every road, and what cannot be captured is refused in one line."""

import copy
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.contract.random_graphs import renamed, reordered
from torch.export import Dim

from tensorfarm.contract.canonical import canonical_text
from tensorfarm.contract.capture import built, capture, captured, split_inputs
from tensorfarm.contract.executable import executable
from tensorfarm.contract.graph import IllegalGraph, OutputKind
from tensorfarm.contract.identity import input_spec_id
from tensorfarm.contract.program import Program
from tensorfarm.contract.refusal import Refusal

BERT, OPERATORS = "tensorfarm.farm.zoo.language:bert", "tensorfarm.farm.zoo.operators:suite"
HASHES = """
import sys
from tensorfarm.contract.capture import capture
print(*[capture(source).semantic_hash for source in sys.argv[1:]])
"""


@pytest.fixture(scope="module", params=[BERT, OPERATORS])
def source(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def program(source: str) -> Program:
    return capture(source)


@pytest.fixture(scope="module")
def exported(source: str) -> torch.export.ExportedProgram:
    return _export(*built(source))


def _export(module: torch.nn.Module, args: tuple, kwargs: dict | None = None) -> torch.export.ExportedProgram:
    return torch.export.export(module, args, kwargs or {}, strict=False)


def _own(module: torch.nn.Module, *args: object, name: str = "own") -> Program:
    return captured(name, _export(module, args))


def test_another_process_captures_the_same_identities() -> None:
    child = subprocess.run(
        [sys.executable, "-c", HASHES, BERT, OPERATORS], capture_output=True, text=True, timeout=200, check=True
    )
    assert child.stdout.split() == [capture(BERT).semantic_hash, capture(OPERATORS).semantic_hash]


def test_a_saved_and_loaded_export_has_the_factory_s_identity(
    program: Program, exported: torch.export.ExportedProgram, tmp_path: Path
) -> None:
    place = tmp_path / "model.pt2"
    torch.export.save(exported, place)
    loaded = capture(str(place))
    assert loaded.canonical == program.canonical
    assert loaded.input_spec_id == program.input_spec_id
    assert loaded.exported == place.read_bytes()


def test_a_deep_copy_and_an_exported_module_have_the_same_identity(
    source: str, program: Program, exported: torch.export.ExportedProgram
) -> None:
    module, args, kwargs = built(source)
    assert captured("copy", _export(copy.deepcopy(module), args, kwargs)).canonical == program.canonical
    again = captured("again", _export(exported.module(), args, kwargs))
    assert (again.canonical, again.input_spec_id) == (program.canonical, program.input_spec_id)


def test_a_real_graph_renamed_and_reordered_keeps_its_identity(program: Program) -> None:
    chance = random.Random(1)
    other = reordered(renamed(program.graph, chance), chance)
    assert canonical_text(other, program.takes, program.returns) == program.canonical
    assert input_spec_id(other) == program.input_spec_id


def test_a_captured_graph_computes_what_the_module_does(source: str, program: Program) -> None:
    module, args, kwargs = built(source)
    expected = torch.utils._pytree.tree_leaves(module(*args, **kwargs))
    got = executable(program.graph, program.weights)(*program.inputs.values())
    assert [torch.equal(one, other) for one, other in zip(got, expected, strict=True)] == [True] * len(expected)


class TwoLayers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def test_one_bit_of_a_real_weight_changes_the_identity() -> None:
    module, x = TwoLayers(), torch.ones(2, 4)
    before = _own(module, x).semantic_hash
    module.second.weight.data.view(torch.int32)[1, 2] ^= 1
    assert _own(module, x).semantic_hash != before


def test_tied_weights_are_one_value_and_equal_ones_are_two() -> None:
    tied, equal = TwoLayers(), TwoLayers()
    tied.second.weight = tied.first.weight
    equal.load_state_dict(tied.state_dict())
    one, two = _own(tied, torch.ones(2, 4)), _own(equal, torch.ones(2, 4))
    assert (len(one.graph.weights), len(two.graph.weights)) == (3, 4)
    assert one.semantic_hash != two.semantic_hash


class TwoNames(torch.nn.Module):
    """Two buffers; ``shared`` says whether they are two names of the same memory."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        base = torch.arange(3.0)
        self.register_buffer("first", base)
        self.register_buffer("second", base.view(3) if shared else base.clone())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.first + self.second


def test_two_buffers_over_the_same_memory_are_one_value() -> None:
    one, two = (_own(TwoNames(shared), torch.ones(3)) for shared in (True, False))
    assert (len(one.graph.weights), len(two.graph.weights)) == (1, 2)
    assert one.semantic_hash != two.semantic_hash


def test_a_frozen_parameter_has_another_identity() -> None:
    module, x = TwoLayers(), torch.ones(2, 4)
    before = _own(module, x).semantic_hash
    module.first.bias.requires_grad_(False)
    assert _own(module, x).semantic_hash != before


class Counting(torch.nn.Module):
    """Writes to its input, to a buffer it reads, and to one that it never reads."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        self.last.copy_(x)
        x.mul_(2)
        return x + self.count


def test_what_is_written_back_is_an_output() -> None:
    program = _own(Counting(), torch.ones(3))
    kinds = {(output.kind, output.target) for output in program.graph.outputs}
    assert {kind for kind, _ in kinds} == set(OutputKind)
    assert {(OutputKind.MUTATES_BUFFER, "count"), (OutputKind.MUTATES_BUFFER, "last")} <= kinds
    module, x = executable(program.graph, program.weights), torch.full((3,), 5.0)
    (result,) = module(x)
    assert result.tolist() == [11.0] * 3
    assert x.tolist() == [10.0] * 3
    buffers = {program.graph.weights[name].target: value.tolist() for name, value in module.named_buffers()}
    assert buffers == {"count": 1.0, "last": [5.0] * 3}


class StoppedGradient(torch.nn.Module):
    """One parameter, used with and without gradients, through a write, a tuple and a region turned on again."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = x * self.weight
            scale.add_(1)
            with torch.enable_grad():
                kept = self.weight.sin()
            low, high = (scale * 3).split(1)
        return scale * self.weight + kept * low + high * self.weight.detach()


def test_gradients_stop_where_the_user_stopped_them() -> None:
    module, x = StoppedGradient(), torch.tensor([5.0, 7.0])
    exported = _export(module, (x,))
    before = exported.graph_module.code
    program = captured("own", exported)
    assert exported.graph_module.code == before
    ours = executable(program.graph, program.weights)
    assert torch.equal(ours(x)[0], module(x))
    ours(x)[0].sum().backward()
    module(x).sum().backward()
    (parameter,) = ours.parameters()
    assert torch.equal(parameter.grad, module.weight.grad)


def test_leaving_out_a_stopped_gradient_is_another_identity() -> None:
    class Flowing(StoppedGradient):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.weight * self.weight

    class Stopping(StoppedGradient):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                scale = x * self.weight
            return scale * self.weight

    x = torch.tensor([5.0, 7.0])
    assert _own(Flowing(), x).semantic_hash != _own(Stopping(), x).semantic_hash


class Casting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
        return y * 2


def test_the_casts_of_an_autocast_region_are_in_the_graph() -> None:
    module, x = Casting(), torch.ones(2, 3)
    program = _own(module, x)
    (result,) = executable(program.graph, program.weights)(x)
    assert result.dtype is torch.bfloat16
    assert torch.equal(result, module(x))


class Branching(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1


class Conditional(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))


FACTORIES = """
import collections, sys, torch
def branching(): return Branching(), (torch.ones(3),)
class Branching(torch.nn.Module):
    def forward(self, x): return x + 1 if x.sum() > 0 else x - 1
def junk(): return 42
def leaving(): sys.exit("no licence here")
def interrupted(): raise KeyboardInterrupt
@torch.library.custom_op("user_models_for_capture::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor: return x * 2
@twice.register_fake
def _(x): return torch.empty_like(x)
class Custom(torch.nn.Module):
    def forward(self, x): return twice(x) + 1
def custom(): return Custom(), (torch.ones(3),)
Pair = collections.namedtuple("Pair", "left right")
class TakesPair(torch.nn.Module):
    def forward(self, pair): return pair.left + pair.right
def takes_pair(): return TakesPair(), (Pair(torch.ones(3), torch.ones(3)),)
def bare_module(): return torch.nn.Linear(2, 2)
def raising(): raise OSError("the weights file is gone\\nsecond line")
not_callable = 3
"""


@pytest.fixture(scope="module")
def _user_package(tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("user")
    (folder / "user_models_for_capture.py").write_text(FACTORIES)
    (folder / "user_models_broken.py").write_text("raise RuntimeError('no licence')")
    (folder / "user_models_leaving.py").write_text("import sys; sys.exit('not on this machine')")
    sys.path.insert(0, str(folder))
    yield
    sys.path.remove(str(folder))


@pytest.mark.usefixtures("_user_package")
@pytest.mark.parametrize(
    ("source", "kind", "says"),
    [
        ("user_models_for_capture:branching", IllegalGraph, "without data-dependent control flow"),
        ("user_models_for_capture:custom", IllegalGraph, "the custom operator user_models_for_capture.twice.default"),
        ("user_models_for_capture:takes_pair", IllegalGraph, "Pair, left, right](*, *)"),
        ("user_models_for_capture:leaving", Refusal, "raised SystemExit: no licence here"),
        ("user_models_for_capture:interrupted", Refusal, "raised KeyboardInterrupt"),
        ("user_models_leaving:model", Refusal, "SystemExit: not on this machine"),
        ("user_models_for_capture:junk", Refusal, "returned int"),
        ("user_models_for_capture:bare_module", Refusal, "returned Linear"),
        ("user_models_for_capture:raising", Refusal, "raised OSError: the weights file is gone"),
        ("user_models_for_capture:not_callable", Refusal, "has no function 'not_callable'; it offers bare_module"),
        ("user_models_for_capture:absent", Refusal, "has no function 'absent'"),
        ("user_models_broken:model", Refusal, "RuntimeError: no licence"),
        ("no_such_package.models:factory", Refusal, "no module named 'no_such_package'"),
        ("just_a_word", Refusal, "names no factory"),
        (":name", Refusal, "names no factory"),
        ("absent.pt2", Refusal, "does not exist"),
    ],
)
def test_what_cannot_be_captured_is_refused_in_one_line(source: str, kind: type[Refusal], says: str) -> None:
    with pytest.raises(kind) as refused:
        capture(source)
    assert type(refused.value) is kind
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.exit_code == (10 if kind is IllegalGraph else 2)


def test_a_truncated_or_foreign_export_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "model.pt2"
    torch.export.save(_export(TwoLayers(), (torch.ones(2, 4),)), place)
    whole = place.read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"not an export"):
        place.write_bytes(content)
        with pytest.raises(Refusal, match=r"model.pt2 is not readable as an exported program") as refused:
            capture(str(place))
        assert "\n" not in str(refused.value)


def test_a_symbolic_size_is_refused_with_its_node() -> None:
    program = torch.export.export(TwoLayers(), (torch.ones(2, 4),), dynamic_shapes={"x": {0: Dim("batch")}})
    with pytest.raises(IllegalGraph, match=r"node x at .* has a symbolic size"):
        captured("dynamic", program)


def test_control_flow_is_refused_with_its_node_and_line() -> None:
    with pytest.raises(IllegalGraph, match=r"node cond \(cond\) at test_capture.py:\d+ in forward is control flow"):
        _own(Conditional(), torch.ones(3))


def test_example_inputs_are_positions_or_names() -> None:
    x = torch.ones(1)
    assert split_inputs((x, 2)) == ((x, 2), {})
    assert split_inputs([x]) == ((x,), {})
    assert split_inputs({"x": x}) == ((), {"x": x})
    assert split_inputs(x) == ((x,), {})
