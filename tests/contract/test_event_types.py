"""Events and outcomes: what can have happened, how it is stored, and how a sweep's exit code follows."""

import json
import math
from dataclasses import MISSING, fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorfarm.contract.events import TYPES, CandidateEnded, Event, Measured, Recorded, decoded, recorded
from tensorfarm.contract.outcome import Outcome, sweep_exit_code

SEVEREST_FIRST = (
    Outcome.SEMANTIC_DRIFT,
    Outcome.CONFORMANCE_FAILURE,
    Outcome.COMPILE_FAILURE,
    Outcome.STRUCTURAL_REJECTION,
    Outcome.PERFORMANCE_REGRESSION,
    Outcome.INFRASTRUCTURE_EXHAUSTED,
    Outcome.UNDECIDED,
    Outcome.TASK_REJECTION,
    Outcome.ADMITTED,
)
ROWS = st.lists(st.dictionaries(st.text(max_size=5), st.text() | st.integers() | st.booleans(), max_size=3), max_size=2)
BY_ANNOTATION = {
    "str": st.text(max_size=8),
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(),
    "bool": st.booleans(),
    "Mapping[str, Any]": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    "Mapping[str, float]": st.dictionaries(st.text(max_size=5), st.floats(-1e9, 1e9), max_size=2),
    "tuple[int, ...]": st.lists(st.integers(0, 99), max_size=2).map(tuple),
    "tuple[str, ...]": st.lists(st.text(max_size=5), max_size=2).map(tuple),
    "Mapping[str, str]": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    "tuple[Mapping[str, Any], ...]": ROWS.map(tuple),
}


def _events(kind: type[Event]) -> st.SearchStrategy[Event]:
    return st.builds(kind, **{item.name: BY_ANNOTATION[str(item.type)] for item in fields(kind)})


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_event_comes_back_from_its_record(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(_events(kind))
    record = recorded(event, ts_us=1, attempt=2, cause_id="c")
    back = decoded(record)
    # NaN is not equal to itself: records are compared, which hold it as text, and the types of the fields.
    assert recorded(back, ts_us=1, attempt=2, cause_id="c") == record
    assert [type(value) for value in vars(back).values()] == [type(value) for value in vars(event).values()]
    assert (record.type, record.version, record.attempt) == (kind.__name__, kind.version, 2)
    json.loads(record.payload, parse_constant=pytest.fail)


def ended(**changes: str) -> CandidateEnded:
    return replace(CandidateEnded("sweep", "cell", "id", "bert", "fx", "fx:dce", "admitted", "", ""), **changes)


def test_the_same_happening_twice_is_one_event() -> None:
    first = recorded(ended(), ts_us=1)
    assert recorded(ended(outcome="undecided"), ts_us=2, cause_id="other").event_id == first.event_id


def test_another_sweep_subject_attempt_ordinal_or_type_is_another_event() -> None:
    others = [
        recorded(ended(), ts_us=1),
        recorded(ended(sweep_id="other"), ts_us=1),
        recorded(ended(subject="other"), ts_us=1),
        recorded(ended(), ts_us=1, attempt=1),
        recorded(ended(), ts_us=1, ordinal=1),
        recorded(Measured("sweep", "cell", "id", "sha", 1.0), ts_us=1),
    ]
    assert len({record.event_id for record in others}) == len(others)


def test_what_is_not_finite_travels_as_text_that_float_reads() -> None:
    rows = ({"worst": math.inf, "where": [-math.inf, 1.5]}, {"worst": math.nan})
    record = recorded(Measured("s", "c", "id", "sha", math.inf, rows), ts_us=1)
    back = decoded(record)
    assert isinstance(back, Measured)
    assert back.seconds == math.inf
    assert back.measurements == ({"worst": "inf", "where": ["-inf", 1.5]}, {"worst": "nan"})
    assert math.isnan(float(back.measurements[1]["worst"]))


def test_a_field_from_a_later_writer_is_ignored_and_a_missing_default_filled_in() -> None:
    record = recorded(Measured("s", "c", "id", "sha", 1.0, (), "node"), ts_us=1)
    payload = json.loads(record.payload) | {"colour": "red"}
    del payload["node_id"]
    assert decoded(replace(record, payload=json.dumps(payload))) == Measured("s", "c", "id", "sha", 1.0)


def test_an_unknown_event_type_is_an_error() -> None:
    with pytest.raises(KeyError):
        decoded(Recorded("i", 1, "Imagined", 1, "s", 0, "c", "", "{}"))


def test_every_event_is_about_a_sweep_and_a_subject_and_has_a_version() -> None:
    for name, kind in TYPES.items():
        required = [item.name for item in fields(kind) if item.default is MISSING and item.default_factory is MISSING]
        assert required[:2] == ["sweep_id", "subject"], name
        assert kind.version >= 1
        assert kind.__doc__, name


def test_no_two_outcomes_share_an_exit_code() -> None:
    codes = {outcome: outcome.exit_code for outcome in Outcome}
    assert len(set(codes.values())) == len(Outcome) == 9
    assert set(codes.values()) == {0, 10, 11, 12, 13, 14, 15, 16, 17}
    assert codes[Outcome.ADMITTED] == 0


@settings(deadline=None)
@given(st.lists(st.sampled_from(Outcome)))
def test_a_sweep_exits_with_its_most_severe_outcome(outcomes: list[Outcome]) -> None:
    worst = next((outcome for outcome in SEVEREST_FIRST if outcome in outcomes), Outcome.ADMITTED)
    assert sweep_exit_code(outcomes) == worst.exit_code
