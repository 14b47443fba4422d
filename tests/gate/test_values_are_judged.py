"""Planted faults of value: each is found by the check that is about it, at the element where it is."""

from dataclasses import replace
from pathlib import Path

import pytest
from gate_workshop import Workshop, failing, node_called, program, with_node

from tensorfarm.contract.graph import Ref


def test_a_wrong_value_names_output_element_and_budget(workshop: Workshop) -> None:
    verdict = workshop.judged(program("mlp"), mode="inference", before="gate_vandals:scale_by_a_thousandth_more")
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
    verdict = workshop.judged(
        program("mlp"), mode="inference", before="gate_vandals:scale_by_a_hundred_thousandth_more"
    )
    assert failing(verdict) == {("forward", "output 0")}


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
        ("mlp", "one_nan", {("forward", "output 0"), ("special_values", "output 0")}),
        ("mlp", "drop_an_output", {("metadata", "outputs"), ("integers", "output 2")}),
        ("mlp", "other_strides", {("metadata", "output 0")}),
        ("mlp", "off_by_one_index", {("integers", "output 2")}),
        ("attention", "double_precision", {("metadata", "output 0"), ("forward", "output 0")}),
        ("attention", "broadcast_row", {("metadata", "output 0"), ("forward", "output 0")}),
        ("attention", "write_to_an_input", {("mutation", "input x")}),
        ("special", "hide_the_nans", {("forward", "output 0"), ("special_values", "output 0")}),
        (
            "special",
            "flip_an_infinity",
            {(check, f"output {position}") for check in ("forward", "special_values") for position in (0, 1)},
        ),
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


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("empty", "not one element could be compared; give example inputs"),
        ("literal", "the original returns no tensor (3), so there is no value to compare"),
    ],
)
def test_nothing_compared_is_no_verdict_and_nobodys_fault(workshop: Workshop, source: str, why: str) -> None:
    verdict = workshop.judged(program(source), mode="inference")
    assert (verdict["outcome"], verdict["outcome_kind"]) == ("undecided", "not_run")
    assert why in verdict["message"]


def test_integers_alone_decide(workshop: Workshop) -> None:
    assert workshop.judged(program("indices"), mode="inference")["outcome"] == "admitted"
    wrong = workshop.judged(program("indices"), mode="inference", before="gate_vandals:off_by_one_index")
    assert failing(wrong) == {("integers", "output 0")}


def test_what_is_written_decides_where_nothing_is_returned(workshop: Workshop) -> None:
    assert workshop.judged(program("writes_only"), mode="inference")["outcome"] == "admitted"
    wrong = workshop.judged(program("writes_only"), mode="inference", before="gate_vandals:forget_the_buffers")
    assert failing(wrong) == {("mutation", "buffer total")}


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_returned_state_is_what_it_was_when_it_was_returned(workshop: Workshop, mode: str) -> None:
    verdict = workshop.judged(program("returns_state"), mode=mode)
    assert (verdict["outcome"], verdict["message"]) == ("admitted", "")
    wrong = workshop.judged(program("returns_state"), mode="inference", before="gate_vandals:scale_last_output")
    assert failing(wrong) == {("forward", "output 2")}


def test_zeros_are_decided(workshop: Workshop) -> None:
    assert workshop.judged(program("dead"))["outcome"] == "admitted"
    verdict = workshop.judged(program("dead"), mode="inference", before="gate_vandals:one_nan")
    assert failing(verdict) == {("forward", "output 0"), ("special_values", "output 0")}


@pytest.mark.parametrize("source", ["spectrum", "complex_state"])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_complex_values_and_gradients_have_a_budget_of_their_own(workshop: Workshop, source: str, mode: str) -> None:
    verdict = workshop.judged(program(source), mode=mode)
    assert (verdict["outcome"], verdict["message"]) == ("admitted", "")
    before = "gate_vandals:scale_by_a_thousandth_more"
    assert ("forward", "output 0") in failing(workshop.judged(program(source), mode=mode, before=before))


@pytest.mark.parametrize("source", ["inverse", "solve", "qr", "bilinear", "remainder", "digamma"])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_operators_that_the_noise_knows_little_of_raise_no_false_alarm(
    workshop: Workshop, source: str, mode: str
) -> None:
    verdict = workshop.judged(program(source), mode=mode)
    assert (verdict["outcome"], verdict["message"]) == ("admitted", "")
    before = "gate_vandals:scale_by_a_thousandth_more"
    assert ("forward", "output 0") in failing(workshop.judged(program(source), mode=mode, before=before))


def test_a_program_that_loses_every_digit_is_undecided(workshop: Workshop) -> None:
    verdict = workshop.judged(program("cancelling"), mode="inference")
    assert (verdict["status"], verdict["outcome"], verdict["outcome_kind"]) == (
        "undecidable",
        "undecided",
        "undecidable",
    )
    assert "; try other example inputs, or lower digits_undecidable_below in the contract" in verdict["message"]


def test_random_values_are_decided_by_the_originals_own_stream(workshop: Workshop) -> None:
    for source in ("dropout", "random_everything"):
        verdict = workshop.judged(program(source), mode="inference")
        assert verdict["outcome"] == "admitted"
        compared = {row["check_name"] for row in verdict["findings"] if row["n_elements"] and row["status"] == "pass"}
        assert {"rng", "forward"} <= compared
        wrong = workshop.judged(program(source), mode="inference", before="gate_vandals:scale_by_a_thousandth_more")
        assert {check for check, _ in failing(wrong)} == {"rng", "forward"}


def test_training_without_anything_to_train_is_undecided(workshop: Workshop) -> None:
    verdict = workshop.judged(program("special"), mode="training")
    assert verdict["outcome"] == "undecided"
    assert 'judge it with "mode: inference"' in verdict["message"]


def test_a_probe_asks_the_failing_family_alone_and_is_held_to_the_same_oracle(
    workshop: Workshop, tmp_path: Path
) -> None:
    mlp = program("mlp")
    subtraction = node_called(mlp.graph, "aten.sub.Tensor")
    swapped = workshop.artifact(mlp, with_node(mlp.graph, subtraction.name, args=subtraction.args[::-1]))
    cache = {"oracle_cache": str(tmp_path / "oracle")}
    whole = workshop.verdict(workshop.case(mlp, swapped, "inference", **cache))
    probe = workshop.verdict(workshop.case(mlp, swapped, "inference", only=["forward"], **cache))
    assert failing(probe) == failing(whole) == {("forward", "output 1")}
    said = {row["check_name"] for row in probe["findings"]} - {row["check_name"] for row in whole["findings"]}
    assert not said
    assert not {"metadata", "exact_integers", "integers"} & {row["check_name"] for row in probe["findings"]}
    assert len(list((tmp_path / "oracle").iterdir())) == 2
    crash = workshop.verdict(workshop.case(mlp, swapped, "inference", only=["loading"], **cache))
    assert {row["check_name"] for row in crash["findings"]} == {row["check_name"] for row in whole["findings"]}
