"""Columns of every table, by name and Arrow type. Columns may be added at the end; none may change its meaning.

A table is a list of append-only facts: the current state of a thing is its newest fact. ``sweep_id`` and ``subject``
say which cell a fact is about, since one candidate may answer several cells.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

# pyarrow carries no types of its own.
ArrowTable: TypeAlias = Any
ArrowSchema: TypeAlias = Any

TIMESTAMP = pa.timestamp("us", tz="UTC")

_TYPES: Mapping[str, Any] = {
    "varchar": pa.string(),
    "timestamptz": TIMESTAMP,
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "bigint[]": pa.list_(pa.int64()),
    "double[]": pa.list_(pa.float64()),
    "map(varchar,varchar)": pa.map_(pa.string(), pa.string()),
}
_SQL_TYPES: Mapping[Any, str] = {arrow: sql for sql, arrow in _TYPES.items()}
_FACT = "event_id ts:timestamptz sweep_id subject"


def _schema(columns: str) -> ArrowSchema:
    """Schema of ``name:type`` words; a word without a type is varchar."""
    pairs = (word.partition(":") for word in columns.split())
    return pa.schema([(name, _TYPES[kind or "varchar"]) for name, _, kind in pairs])


def definition(name: str) -> str:
    """The table's columns with their DuckDB types, as ``create table`` wants them."""
    return ", ".join(f"{column.name} {_SQL_TYPES[column.type]}" for column in SCHEMAS[name])


SCHEMAS: Mapping[str, ArrowSchema] = {
    "events": _schema(
        "event_id ts:timestamptz writer seq:bigint type version:int sweep_id attempt:int subject cause_id payload"
    ),
    "candidates": _schema(
        f"candidate_id {_FACT} semantic_hash program backend pipeline target toolchain_id dtype contract_id"
        " input_spec_id outcome outcome_kind mode message"
    ),
    "artifacts": _schema(
        f"artifact_key {_FACT} candidate_id semantic_hash sha256 size_bytes:bigint uri state gate_run_id"
    ),
    "manifests": _schema(
        f"manifest_id {_FACT} candidate_id ordinal:int kind name site decision reason numerics ir_hash_before"
        " ir_hash_after wall_ns:bigint attributes:map(varchar,varchar)"
    ),
    "verdicts": _schema(
        f"gate_run_id {_FACT} candidate_id artifact_sha256 ordinal:int check_name what device layout input_suite status"
        " message observed_over_limit:double digits:double worst_index:bigint[] worst_expected:double"
        " worst_seen:double limit_abs:double n_elements:bigint n_bad:bigint seed:bigint gate_version attestation"
        " wall_ns:bigint required:boolean"
    ),
    "measurements": _schema(
        f"measurement_id {_FACT} candidate_id artifact_sha256 ordinal:int metric unit variant device node_id"
        " environment_id pair_id:bigint position:int warm:boolean samples:double[] p10:double p50:double p90:double"
        " pressure:double thread_seconds:double"
    ),
    "predictions": _schema(
        f"prediction_id {_FACT} candidate_id metric checkpoint predicted:double lower:double upper:double model_id"
        " peaks_id features_hash out_of_distribution:boolean"
    ),
    "budgets": _schema(
        f"budget_id {_FACT} scope metric limit_value:double fresh_for_seconds:bigint valid_from:timestamptz"
        " valid_to:timestamptz"
    ),
    "bisect_steps": _schema(
        f"bisection_id step:int {_FACT} axis probe outcome votes_good:int votes_bad:int posterior:double node_id"
        " wall_ns:bigint candidate_id round:int message"
    ),
    "regressions": _schema(
        f"regression_id {_FACT} candidate_id baseline baseline_artifact metric device ratio:double ratio_lower:double"
        " ratio_upper:double smallest_detectable:double verdict state culprit workload artifact_sha256 message"
    ),
}

# What a column says of facts that were recorded before it was added; any other column says nothing of them.
READ_AS: Mapping[tuple[str, str], str] = {("verdicts", "required"): "true"}

# Sealed in this order and pinned in the reverse: whatever a derived table holds, the pinned events know of.
PROJECTED = (
    "events",
    "candidates",
    "artifacts",
    "manifests",
    "verdicts",
    "measurements",
    "predictions",
    "budgets",
    "bisect_steps",
    "regressions",
)

# What a projection (queries/project_<table>.sql) reads: journal rows, or the part of them that a table has not passed.
JOURNAL_ROWS = SCHEMAS["events"]
