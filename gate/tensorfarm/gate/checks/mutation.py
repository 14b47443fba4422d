"""F17, mutation and aliasing: what the original leaves alone keeps every byte; what it writes to holds what it writes.

Whole storages are compared, gaps of strided views included. An output may share memory only with what the original's
output shares it with: a caller that writes to one would otherwise corrupt the other. Sharing that is lost corrupts
nothing, and is not a fault: honest compilers return a copy where a switched-off dropout returns its input itself. What
a call gave keeps its bytes when the next one comes. Lists and dictionaries among the arguments hold afterwards what
the original leaves in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from tensorfarm.contract.outcome import Status
from tensorfarm.gate.agreement import agreement, mismatch
from tensorfarm.gate.checks.metadata import alike
from tensorfarm.gate.compared import is_floating
from tensorfarm.gate.copies import snapshot
from tensorfarm.gate.evidence import Evidence
from tensorfarm.gate.expectation import Expectation
from tensorfarm.gate.finding import Finding, drawn, failed, inapplicable, not_run, passed
from tensorfarm.gate.inputs import example
from tensorfarm.gate.observation import Observation, spoken
from tensorfarm.gate.setting import Level, Setting
from tensorfarm.gate.trial import MAIN, Depth, Trial

NAME, FAMILY, LEVEL, COST = "mutation", "F17", Level.QUICK, 13
_TENSOR = "<a tensor>"


def trials(setting: Setting) -> list[Trial]:
    return [example.trial(setting)]


def check(evidence: Evidence) -> list[Finding]:
    """For every call of every trial: one finding for each tensor input and buffer, and one for what shares memory."""
    found = list[Finding]()
    for name, trial in evidence.trials.items():
        for number, wanted, given in evidence.pairs(name):
            if wanted.eager.report.error or given.report.error:
                continue
            said = [
                *_states(evidence, trial, number, wanted, given),
                *_sharing(evidence, wanted, given),
                *_left_alone(evidence, wanted, given),
                *_containers(evidence, trial, wanted, given),
            ]
            found += [_placed(finding, trial, number) for finding in said]
    return found or [inapplicable(NAME, "mutation: no call to look at")]


def canary(evidence: Evidence) -> Evidence | None:
    """One byte of one storage turned: of an input, else of a buffer. Where there is neither, an output that shares."""
    for number, wanted, given in evidence.pairs(example.NAME):
        if given.report.error:
            continue
        unknown = wanted.changed if wanted.oracle_error else frozenset[str]()
        for key, value in given.tensors.items():
            if key.startswith(("input:", "buffer:")) and value.numel() and key not in unknown:
                changed = {**given.tensors, **snapshot({key: value})}
                _bytes(changed[key])[-1] ^= 1
                return evidence.with_seen(example.NAME, number, replace(given, tensors=changed))
        outputs = sorted(f"output:{name}" for name in given.named("output"))
        if len(outputs) > 1:
            report = replace(given.report, aliases=((outputs[0], outputs[1]),))
            return evidence.with_seen(example.NAME, number, replace(given, report=report))
    return None


def _placed(finding: Finding, trial: Trial, number: int) -> Finding:
    """Doubt about a made-up input keeps nothing from being admitted: the program's owner did not choose it."""
    doubtful = finding.status in (Status.UNDECIDABLE, Status.NOT_RUN)
    lenient = replace(finding, required=False) if doubtful and trial.suite != example.NAME else finding
    placed = lenient.at(trial, MAIN)
    return placed if len(trial.calls) == 1 else replace(placed, what=f"{placed.what}, call {number + 1}")


def _states(
    evidence: Evidence, trial: Trial, number: int, wanted: Expectation, given: Observation
) -> Iterator[Finding]:
    for key, eager in wanted.eager.tensors.items():
        kind, _, name = key.partition(":")
        if kind not in ("input", "buffer"):
            continue
        what, after = f"{kind} {name}", given.tensors.get(key)
        if after is None:
            if kind == "input":
                yield failed(NAME, what, "the subject did not say what became of it")
            elif key in wanted.changed and evidence.setting.facts.secretive:
                yield _unseen(evidence, what)
            elif key in wanted.changed:
                yield failed(NAME, what, "the original writes to it, and the subject has none")
        elif key in wanted.changed:
            yield from _written(evidence, trial, what, key, wanted, after)
            before = trial.calls[number].inputs.get(name) if kind == "input" else None
            if before is not None and not _same_gaps(before, eager, after):
                yield failed(NAME, what, "memory around it was written to, and the original does not write there")
        elif not _same_bytes(eager, after, whole=kind == "input" and not _beside_written(key, wanted)):
            yield failed(NAME, what, "it was written to, and the original does not write to it")
        else:
            yield passed(NAME, what, after.numel())


def _unseen(evidence: Evidence, what: str) -> Finding:
    """What is written shows in later answers alone; where nobody asked for any, it is a doubt."""
    asked = any(len(trial.calls) > 1 for trial in evidence.trials.values())
    fact = f"{what}: the original writes to it, and the subject's cannot be looked at"
    if asked:
        return Finding(NAME, what, Status.NOT_RUN, f"{fact}; its later answers tell", required=False)
    return not_run(NAME, what, fact, 'ask for later answers: level "standard"')


def _written(
    evidence: Evidence, trial: Trial, what: str, key: str, wanted: Expectation, after: torch.Tensor
) -> Iterator[Finding]:
    contract, expected = evidence.setting.contract, wanted.expected(key)
    if wanted.random:
        yield replace(drawn(NAME, what), required=False)
    elif wanted.oracle_error and expected is not None:
        # What it holds there is what it held when the original stopped.
        yield Finding(NAME, what, Status.NOT_RUN, f"{what}: the original raises in float64: {wanted.oracle_error}")
    elif expected is not None and trial.depth < Depth.BUDGET and is_floating(expected):
        # Without a spread there is no limit for a value that rounds: the trials that have one decide.
        other = mismatch(NAME, what, after, expected)
        yield other or replace(inapplicable(NAME, f"{what}: the oracle has no spread on these inputs"), what=what)
    elif expected is not None:
        yield agreement(NAME, what, after, expected, contract.outputs, contract.digits_undecidable_below)


def _same_bytes(eager: torch.Tensor, after: torch.Tensor, *, whole: bool) -> bool:
    """An input's storage is the judge's own, and is compared in whole; how a buffer lies in memory is the subject's."""
    if (eager.shape, eager.dtype) != (after.shape, after.dtype):
        return False
    if whole:
        return eager.stride() == after.stride() and torch.equal(_bytes(eager), _bytes(after))
    return torch.equal(_bytes(_dense(eager)), _bytes(_dense(after)))


def _beside_written(key: str, wanted: Expectation) -> bool:
    """Its storage is also that of an input that the original writes to, whose values may be rounded otherwise."""
    return any(key in pair and wanted.changed & set(pair) for pair in wanted.eager.report.aliases)


def _same_gaps(before: torch.Tensor, eager: torch.Tensor, after: torch.Tensor) -> bool:
    """Bytes of the storage that are not elements of the tensor, where the original leaves them alone."""
    whole, then, now = _bytes(before), _bytes(eager), _bytes(after)
    if not whole.numel() == then.numel() == now.numel():
        return True  # the original gave it another storage: what it holds has been compared
    size = before.element_size()
    element = torch.zeros(whole.numel() // size, dtype=torch.bool)
    element.as_strided(before.shape, before.stride(), before.storage_offset()).fill_(True)
    gap = ~element.repeat_interleave(size) & (whole[: element.numel() * size] == then[: element.numel() * size])
    return torch.equal(then[: gap.numel()][gap], now[: gap.numel()][gap])


def _sharing(evidence: Evidence, wanted: Expectation, given: Observation) -> Iterator[Finding]:
    if evidence.setting.contract.aliasing == "ignore":
        return
    allowed = set(wanted.eager.report.aliases)
    found = [pair for pair in given.report.aliases if pair not in allowed and _of_output(pair)]
    for pair in found:
        left, right = sorted(pair, reverse=True)  # an output before an input
        yield failed(NAME, spoken(left), f"it shares memory with {spoken(right)}, and the original's does not")
    if not found:
        yield passed(NAME, "shared memory", len(given.named("output")))


def _left_alone(evidence: Evidence, wanted: Expectation, given: Observation) -> Iterator[Finding]:
    """Outputs and gradients that a later call wrote to, where the original's keep what they held; parameters, and
    flags of inputs, that the original leaves alone."""
    if evidence.setting.contract.aliasing != "ignore":
        for key in sorted(set(given.report.overwritten) - set(wanted.eager.report.overwritten)):
            yield failed(NAME, spoken(key), "a later call wrote to its memory, and the original's does not")
    for key, mark in given.report.touched.items():
        if key not in wanted.eager.report.touched:
            yield failed(NAME, spoken(key), f"its {mark} changed in the call, and the original leaves it alone")


def _containers(evidence: Evidence, trial: Trial, wanted: Expectation, given: Observation) -> Iterator[Finding]:
    """What stands in the arguments' lists and dictionaries after the call and did not before."""
    expected, seen = ({**item.report.left, **item.named("left")} for item in (wanted.eager, given))
    for name in sorted(expected.keys() | seen.keys()):
        kept, found = (_told(item.get(name)) if name in item else "left as it was" for item in (expected, seen))
        if kept == _TENSOR == found:
            yield from _written(evidence, trial, name, f"left:{name}", wanted, given.tensors[f"left:{name}"])
        elif not alike(kept, found):
            yield failed(NAME, name, f"after the call the original has it {kept!r}, the subject {found!r}")


def _told(item: object) -> object:
    return _TENSOR if isinstance(item, torch.Tensor) else item


def _of_output(pair: tuple[str, str]) -> bool:
    return any(key.startswith("output:") for key in pair)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().contiguous().clone()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    storage = tensor.detach().untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
