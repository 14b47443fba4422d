"""Planted faults of value: each is found by the check that is about it, at the element where it is."""

from dataclasses import replace

import pytest
from gate_workshop import Workshop, failing, node_called, program, with_node

from tensorfarm.contract.graph import Ref


def test_a_wrong_scalar_constant_names_output_element_and_budget(workshop: Workshop) -> None:
    mlp = program("mlp")
    scaled = node_called(mlp.graph, "aten.mul.Tensor")
    verdict = workshop.judged(mlp, with_node(mlp.graph, scaled.name, args=(scaled.args[0], 0.1251)), mode="inference")
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "forward")
    assert failing(verdict) == {("forward", "output 0")}
    row = next(row for row in verdict["findings"] if row["status"] == "fail")
    place = ", ".join(map(str, row["worst_index"]))
    assert verdict["message"].startswith(f"forward: output 0[{place}]: expected {row['worst_expected']:.9g}, seen ")
    assert row["n_bad"] > 20
    assert row["observed_over_limit"] == pytest.approx(
        abs(row["worst_seen"] - row["worst_expected"]) / row["limit_abs"], rel=1e-6
    )


def test_a_fault_of_ten_roundoffs_in_a_product_is_within_reach(workshop: Workshop) -> None:
    """The limit is a few roundoffs wide: what no fixed tolerance of a thousandth would see is found."""
    mlp = program("mlp")
    scaled = node_called(mlp.graph, "aten.mul.Tensor")
    changed = with_node(mlp.graph, scaled.name, args=(scaled.args[0], 0.125 * (1 + 1e-5)))
    assert failing(workshop.judged(mlp, changed, mode="inference")) == {("forward", "output 0")}


def test_swapped_operands_are_found(workshop: Workshop) -> None:
    mlp = program("mlp")
    subtraction = node_called(mlp.graph, "aten.sub.Tensor")
    verdict = workshop.judged(
        mlp, with_node(mlp.graph, subtraction.name, args=subtraction.args[::-1]), mode="inference"
    )
    assert failing(verdict) == {("forward", "output 1")}


def test_a_gradient_that_stops_on_one_path_is_found_where_the_forward_pass_is_right(workshop: Workshop) -> None:
    mlp = program("mlp")
    repeated = node_called(mlp.graph, "aten.repeat.default")
    subtraction = node_called(mlp.graph, "aten.sub.Tensor")
    stopped = replace(
        repeated, name="stopped", op="aten.detach.default", args=(Ref(repeated.name),), kwargs=(),
        origins=(repeated.name, subtraction.name),
    )  # fmt: skip
    graph = with_node(mlp.graph, subtraction.name, args=(subtraction.args[0], Ref("stopped")))
    graph.insert(stopped, before=subtraction.name)
    verdict = workshop.judged(mlp, graph)
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("conformance_failure", "gradient")
    assert failing(verdict) == {("gradient", "gradient x")}


@pytest.mark.parametrize(
    ("source", "fault", "found"),
    [
        ("mlp", "one_nan", {("forward", "output 0")}),
        ("mlp", "drop_an_output", {("metadata", "outputs"), ("integers", "output 2")}),
        ("mlp", "other_strides", {("metadata", "output 0")}),
        ("mlp", "off_by_one_index", {("integers", "output 2")}),
        ("attention", "double_precision", {("metadata", "output 0"), ("forward", "output 0")}),
        ("attention", "broadcast_row", {("metadata", "output 0"), ("forward", "output 0")}),
        ("attention", "write_to_an_input", {("mutation", "input x")}),
        ("special", "hide_the_nans", {("forward", "output 0")}),
        ("special", "flip_an_infinity", {("forward", "output 0"), ("forward", "output 1")}),
        ("counts", "write_to_an_input", {("mutation", "input seen")}),
    ],
)
def test_a_fault_at_run_time_is_found_by_its_own_check(
    workshop: Workshop, source: str, fault: str, found: set[tuple[str, str]]
) -> None:
    verdict = workshop.judged(program(source), mode="inference", before=f"gate_vandals:{fault}")
    assert verdict["outcome"] == "conformance_failure"
    assert failing(verdict) == found


def test_buffers_that_were_not_written_to_are_found(workshop: Workshop) -> None:
    verdict = workshop.judged(program("batch_norm"), before="gate_vandals:forget_the_buffers")
    assert {what for _, what in failing(verdict)} == {
        "buffer norm.running_mean",
        "buffer norm.running_var",
        "buffer norm.num_batches_tracked",
    }


def test_an_output_without_its_graph_fails_metadata_and_gradients(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), before="gate_vandals:detached_output")
    assert ("metadata", "output 0") in failing(verdict)
    assert ("gradient", "gradient down.weight") in failing(verdict)


def test_nothing_compared_is_a_failure(workshop: Workshop) -> None:
    verdict = workshop.judged(program("empty"), mode="inference")
    assert verdict["outcome"] == "conformance_failure"
    assert verdict["message"] == "forward: outputs: not one element of any output could be compared"


def test_a_program_that_loses_every_digit_is_undecided(workshop: Workshop) -> None:
    verdict = workshop.judged(program("cancelling"), mode="inference")
    assert (verdict["status"], verdict["outcome"], verdict["outcome_kind"]) == (
        "undecidable",
        "undecided",
        "undecidable",
    )


def test_random_values_are_not_compared_and_so_undecided(workshop: Workshop) -> None:
    verdict = workshop.judged(program("dropout"), mode="inference")
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("undecided", "not_run")


def test_training_without_anything_to_train_is_undecided(workshop: Workshop) -> None:
    verdict = workshop.judged(program("special"), mode="training")
    assert verdict["outcome"] == "undecided"
    assert 'sweep it with "mode: inference"' in verdict["message"]
