-- One row a series of samples, kept in run order. ``variant`` is what ran: the candidate, and beside it eager or the
-- baseline (metric paired_step_seconds).
with measured as (
    select *, from_json(payload, '{
            "candidate_id": "VARCHAR", "artifact_sha256": "VARCHAR", "node_id": "VARCHAR"}') as run,
        from_json(payload -> 'measurements', '[{
            "metric": "VARCHAR", "unit": "VARCHAR", "variant": "VARCHAR", "device": "VARCHAR",
            "environment_id": "VARCHAR", "pair_id": "BIGINT", "position": "INTEGER", "warm": "BOOLEAN",
            "samples": ["VARCHAR"], "p10": "VARCHAR", "p50": "VARCHAR", "p90": "VARCHAR", "pressure": "VARCHAR",
            "thread_seconds": "VARCHAR"}]') as rows
    from journal_rows
    where type in ('Measured', 'Compared')
),
numbered as (
    select *, unnest(rows) as said, (generate_subscripts(rows, 1) - 1)::integer as ordinal
    from measured
)
select
    event_id || ':' || ordinal as measurement_id, event_id, ts, sweep_id, subject, run.candidate_id,
    run.artifact_sha256, ordinal, said.metric, said.unit, said.variant, said.device,
    run.node_id, said.environment_id, said.pair_id, said.position, said.warm, said.samples::double[] as samples,
    said.p10::double as p10, said.p50::double as p50, said.p90::double as p90, said.pressure::double as pressure,
    said.thread_seconds::double as thread_seconds
from numbered
