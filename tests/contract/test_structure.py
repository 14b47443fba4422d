"""How inputs and outputs nest is identity; how weights lie in memory is part of what an artifact was built for."""

import collections
import enum
import warnings
from pathlib import Path

import pytest
import torch
from tests.contract.random_graphs import spec
from torch.utils import _pytree as pytree

from tensorfarm.contract.canonical import first_difference
from tensorfarm.contract.capture import capture, captured
from tensorfarm.contract.executable import executable
from tensorfarm.contract.graph import Graph, IllegalGraph, Output, OutputKind, Ref, Weight, WeightKind
from tensorfarm.contract.identity import input_spec_id, mint_semantic_hash
from tensorfarm.contract.program import Program
from tensorfarm.contract.structure import serialised, structure_text

X = torch.ones(2, 3)
Pair = collections.namedtuple("Pair", "left right")


class Packed(torch.nn.Module):
    """Two values, returned in the container that it was built with."""

    def __init__(self, pack: object) -> None:
        super().__init__()
        self.pack = pack

    def forward(self, x: torch.Tensor) -> object:
        return self.pack(x + 1, x * 2)


def _own(module: torch.nn.Module, *args: object, **kwargs: object) -> Program:
    return captured("own", torch.export.export(module, args, kwargs, strict=False))


PACKS = {
    "a tuple": lambda a, b: (a, b),
    "a list": lambda a, b: [a, b],
    "a nested tuple": lambda a, b: ((a,), b),
    "a dict": lambda a, b: {"loss": a, "logits": b},
    "a dict whose keys are swapped": lambda a, b: {"logits": a, "loss": b},
    "an ordered dict": lambda a, b: collections.OrderedDict(loss=a, logits=b),
    "a dict of text that looks like two keys": lambda a, b: {"loss', 'logits": a, "": b},
    "a named tuple": Pair,
}


def test_every_other_nesting_of_the_same_outputs_is_another_identity() -> None:
    programs = {name: _own(Packed(pack), X) for name, pack in PACKS.items()}
    assert len({program.semantic_hash for program in programs.values()}) == len(PACKS)
    bare = {mint_semantic_hash(program.graph) for program in programs.values()}
    assert len(bare) == 1
    one, other = (programs[name].canonical for name in ("a dict", "a dict whose keys are swapped"))
    assert first_difference(one, other).endswith(
        "approved \"returns builtins.dict['loss', 'logits'](*, *)\","
        " captured \"returns builtins.dict['logits', 'loss'](*, *)\""
    )


class Summed(torch.nn.Module):
    def forward(self, pair: list[torch.Tensor]) -> torch.Tensor:
        return pair[0] + pair[1]


def test_every_other_nesting_of_the_same_inputs_is_another_identity() -> None:
    programs = [_own(Summed(), [X, X]), _own(Summed(), (X, X)), _own(Summed(), pair=[X, X])]
    assert len({program.semantic_hash for program in programs}) == 3
    assert "\ntakes builtins.tuple(builtins.tuple(builtins.list(*, *)), builtins.dict[]())\n" in programs[0].canonical


@pytest.mark.parametrize("name", [name for name in PACKS if name != "a named tuple"])
def test_a_nesting_survives_export_files_program_files_and_a_second_export(name: str, tmp_path: Path) -> None:
    exported = torch.export.export(Packed(PACKS[name]), (X,), strict=False)
    program = captured("own", exported)
    torch.export.save(exported, tmp_path / "own.pt2")
    loaded = capture(str(tmp_path / "own.pt2"))
    again = captured("again", torch.export.export(exported.module(), (X,), strict=False))
    loaded.save(tmp_path / "own.program")
    back = Program.load(tmp_path / "own.program")
    assert [other.canonical for other in (loaded, again, back)] == [program.canonical] * 3
    assert mint_semantic_hash(back.graph, back.takes, back.returns) == program.semantic_hash


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize("value", [{b"raw": X}, {(1, 2): X}, Pair(X, X), [{"deep": Pair(X, X)}]])
def test_inputs_that_no_judge_could_pack_again_are_refused(value: object) -> None:
    with pytest.raises(IllegalGraph, match=r"; use a tuple, a list or a dict there$") as refused:
        serialised(pytree.tree_structure(value), "own")
    assert "\n" not in str(refused.value)


def test_types_and_numbers_in_containers_have_a_text_without_addresses() -> None:
    counted = collections.defaultdict(list, {1: X, "1": X, Colour.RED: X})
    text = structure_text(pytree.tree_structure([counted, collections.deque([X], maxlen=3)]))
    keys = f"[1, '1', {__name__}.Colour.RED]"
    assert text == f"builtins.list(collections.defaultdict[[builtins.list], {keys}](*, *, *), collections.deque3(*))"


def test_the_layout_of_a_weight_is_in_the_candidate_s_identity_and_not_in_the_program_s() -> None:
    plain, turned = (torch.nn.Conv2d(3, 4, 2) for _ in range(2))
    turned.load_state_dict(plain.state_dict())
    turned.to(memory_format=torch.channels_last)
    one, other = (_own(module, torch.ones(1, 3, 5, 5)) for module in (plain, turned))
    assert one.semantic_hash == other.semantic_hash
    assert one.input_spec_id != other.input_spec_id


def test_which_of_two_weights_lies_how_counts_and_their_names_do_not() -> None:
    def graph(first: str, second: str, *, turned: str) -> Graph:
        strides = {name: (1, 2) if name == turned else (4, 1) for name in (first, second)}
        weights = {
            name: Weight(name, WeightKind.BUFFER, name, type(spec())(torch.float32, (2, 4), stride), "0" * 64)
            for name, stride in sorted(strides.items())
        }
        return Graph((), weights, {}, tuple(Output(OutputKind.USER, Ref(name)) for name in (first, second)))

    assert input_spec_id(graph("a", "b", turned="a")) == input_spec_id(graph("z", "y", turned="z"))
    assert input_spec_id(graph("a", "b", turned="a")) != input_spec_id(graph("a", "b", turned="b"))


class NamedLikeAnOperator(torch.nn.Module):
    def forward(self, sum: torch.Tensor, device: torch.Tensor) -> torch.Tensor:
        return sum.sum(0) + sum.sum(1).mean() * device + torch.arange(3)


def test_an_input_called_like_an_operator_or_like_what_generated_code_uses_keeps_its_value() -> None:
    inputs = (torch.randn(2, 3), torch.full((3,), 7.0))
    program = _own(NamedLikeAnOperator(), *inputs)
    assert torch.equal(executable(program.graph, program.weights)(*inputs)[0], NamedLikeAnOperator()(*inputs))


class NamedLikeBuiltins(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))

    def forward(self, input: torch.Tensor, abs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = input * self.weight - abs
        return scale * self.weight


def test_an_input_called_like_a_builtin_is_captured_with_its_stopped_gradients() -> None:
    module, inputs = NamedLikeBuiltins(), (X, X * 5)
    program = _own(module, *inputs)
    assert [item.name for item in program.graph.inputs] == ["input", "abs"]
    ours = executable(program.graph, program.weights)
    assert torch.equal(ours(*inputs)[0], module(*inputs))
    ours(*inputs)[0].sum().backward()
    module(*inputs).sum().backward()
    (parameter,) = ours.parameters()
    assert torch.equal(parameter.grad, module.weight.grad)


class NamedLikeEachOther(torch.nn.Module):
    def forward(self, input: torch.Tensor, input_1: torch.Tensor) -> torch.Tensor:
        return input - input_1


def test_two_inputs_that_torch_itself_mixes_up_are_refused() -> None:
    exported = torch.export.export(NamedLikeEachOther(), (X, X * 5), strict=False)
    assert torch.equal(exported.module()(X, X * 5), X - X)
    with pytest.raises(IllegalGraph, match=r"takes input and input_1.*; give input a name that is no Python builtin"):
        captured("own", exported)


def test_capturing_is_silent() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        capture("tensorfarm.farm.zoo.operators:suite")
        capture("tensorfarm.farm.zoo.language:gpt2")
    assert [str(item.message) for item in said if "LeafSpec" in str(item.message)] == []
