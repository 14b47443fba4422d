"""Steps run in order, and a tolerated death is handed on."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tensorfarm.farm.engine.job import (
    Job,
    JobResult,
    Step,
    StepOutcome,
    decode_job,
    decode_result,
    encode_job,
    encode_result,
    run_steps,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
REQUESTS = st.dictionaries(st.text(), JSON, max_size=3)
STEPS = st.builds(
    Step,
    role=st.text(),
    function=st.text(),
    request=REQUESTS,
    seconds=st.floats(0, 1e6),
    memory_bytes=st.integers(0, 1 << 50),
    threads=st.integers(1, 64),
    tolerated=st.booleans(),
)
JOBS = st.builds(
    Job, job_id=st.text(), pool=st.text(), steps=st.lists(STEPS, max_size=3).map(tuple), exclusive=st.booleans()
)
OUTCOMES = st.builds(
    StepOutcome,
    status=st.sampled_from(["completed", "raised", "died"]),
    value=REQUESTS,
    kind=st.text(),
    message=st.text(),
    refusal=REQUESTS,
    traceback=st.text(),
    seconds=st.floats(0, 1e6),
    peak_bytes=st.integers(0, 1 << 50),
)
RESULTS = st.builds(
    JobResult,
    job_id=st.text(),
    outcomes=st.lists(OUTCOMES, max_size=3).map(tuple),
    node_id=st.text(),
    lost=st.text(),
    seconds=st.floats(0, 1e6),
)
DIED = StepOutcome("died", kind="signal", message="died of SIGSEGV")


def step(function: str, tolerated: bool = False, **request: Any) -> Step:
    return Step("role", function, request, 1.0, 1, threads=3, tolerated=tolerated)


def run(outcomes: dict[str, StepOutcome], *steps: Step) -> tuple[list[Step], tuple[StepOutcome, ...]]:
    seen: list[Step] = []

    def runner(called: Step) -> StepOutcome:
        seen.append(called)
        return outcomes.get(called.function, StepOutcome("completed"))

    return seen, run_steps(Job("job", "pool", steps), runner)


@given(JOBS)
def test_a_job_survives_the_wire(job: Job) -> None:
    assert decode_job(encode_job(job)) == job


@given(RESULTS)
def test_a_result_survives_the_wire(result: JobResult) -> None:
    assert decode_result(encode_result(result)) == result


def test_steps_run_in_order_and_are_told_their_threads() -> None:
    seen, outcomes = run({}, step("a", x=1), step("b"))
    assert [(called.function, called.request) for called in seen] == [
        ("a", {"x": 1, "threads": 3}),
        ("b", {"threads": 3, "before": {"a": {}}}),
    ]
    assert [outcome.completed for outcome in outcomes] == [True, True]


def test_a_step_that_dies_ends_its_job() -> None:
    seen, outcomes = run({"a": DIED}, step("a"), step("b"))
    assert [called.function for called in seen] == ["a"]
    assert outcomes == (DIED,)


def test_a_tolerated_death_is_handed_to_the_steps_after_it() -> None:
    seen, outcomes = run({"subject": DIED}, step("prepare"), step("subject", tolerated=True), step("decide"))
    assert "deaths" not in seen[1].request
    death = seen[2].request["deaths"]["subject"]
    assert (death["status"], death["kind"], death["message"]) == ("died", "signal", "died of SIGSEGV")
    assert len(outcomes) == 3


def test_a_step_is_told_what_the_completed_steps_before_it_returned() -> None:
    prepared = StepOutcome("completed", {"oracle_sha256": "f00"})
    steps = step("prepare"), step("subject", tolerated=True), step("decide", before="a request's own")
    seen, _ = run({"prepare": prepared, "subject": DIED}, *steps)
    assert "before" not in seen[0].request
    assert seen[2].request["before"] == {"prepare": {"oracle_sha256": "f00"}}
