"""What Inductor says when it asks about a site is recorded with it: whoever compiles anew finds the site by that."""

from collections import defaultdict

from inductor_workshop import Compiled

from tensorfarm.contract.manifest import EntryKind


def test_each_site_is_known_by_a_question_that_is_about_no_other(trained: Compiled) -> None:
    occurrences = defaultdict[tuple[str, str], list[int]](list)
    for entry in trained.artifact.manifest.entries:
        if entry.kind is EntryKind.SITE:
            told = entry.attributes
            occurrences[told["subsystem"], told["told"]].append(int(told["occurrence"]))
    assert all(sorted(counted) == list(range(len(counted))) for counted in occurrences.values())
    # The same pass runs on the forward and on the backward; a lowering is told by its node, a decomposition as torch
    # writes the operator.
    assert occurrences["post_grad_passes", "stable_sort"] == [0, 1]
    assert occurrences["decomposition", "<OpOverload(op='aten.gelu', overload='default')>"] == [0]
    assert occurrences["lowerings", "addmm"] == [0]
