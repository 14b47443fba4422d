-- One row per cell of sweep $sweep_id, each column by its newest fact. A cell without an outcome has not ended.
-- What the cache answered was neither compiled nor judged in this sweep: ``cached``, and its seconds are null.
-- ``bisection_…`` and ``reproducer`` (below the store's root) are of the cell's newest bisection that has ended.
with cells as (
    select
        subject, min(ts) as first_seen, arg_max(candidate_id, ts) as candidate_id, arg_max(program, ts) as program,
        arg_max(backend, ts) as backend, arg_max(pipeline, ts) as pipeline, arg_max(mode, ts) as mode,
        arg_max(semantic_hash, ts) as semantic_hash, arg_max(outcome, ts) as outcome,
        arg_max(outcome_kind, ts) as outcome_kind, arg_max(message, ts) as message
    from candidates
    where sweep_id = $sweep_id
    group by subject
),
stages as (
    select
        subject,
        arg_max((payload ->> 'compile_seconds')::double, ts)
            filter (type in ('CandidateCompiled', 'CompileFailed')) as compile_seconds,
        arg_max((payload ->> 'seconds')::double, ts) filter (type = 'GateDecided') as gate_seconds,
        arg_max((payload ->> 'seconds')::double, ts) filter (type in ('Measured', 'MeasureFailed')) as bench_seconds,
        arg_max(payload ->> 'gate_run_id', ts) filter (type in ('GateDecided', 'CacheAnswered')) as gate_run_id,
        arg_max(payload ->> 'artifact_sha256', ts)
            filter (type in ('CandidateCompiled', 'CacheAnswered')) as artifact_sha256,
        coalesce(arg_max(type, ts) filter (type in ('CandidateCompiled', 'CacheAnswered')), '') = 'CacheAnswered'
            as cached
    from events
    where sweep_id = $sweep_id
    group by subject
),
bisected as (
    select
        subject, arg_max(payload ->> 'status', ts) as bisection_status,
        arg_max(payload ->> 'pass_name', ts) as bisection_pass,
        from_json(arg_max(payload -> 'nodes', ts), '["VARCHAR"]') as bisection_nodes,
        arg_max(payload ->> 'message', ts) as bisection_message, arg_max(payload ->> 'reproducer', ts) as reproducer
    from events
    where sweep_id = $sweep_id and type = 'BisectionFinished'
    group by subject
),
worst as (
    select
        gate_run_id, max(observed_over_limit) filter (check_name = 'forward' and status in ('pass', 'fail')) as forward_over_limit,
        max(observed_over_limit) filter (check_name = 'gradient' and status in ('pass', 'fail')) as gradient_over_limit
    from verdicts
    where gate_run_id in (select gate_run_id from stages)
    group by gate_run_id
),
speed as (
    select
        artifact_sha256, arg_max(p50, ts) filter (variant = 'eager') as eager_p50_seconds,
        arg_max(p50, ts) filter (variant = 'candidate') as candidate_p50_seconds
    from measurements
    where metric = 'step_seconds' and coalesce(warm, true) and artifact_sha256 in (select artifact_sha256 from stages)
    group by artifact_sha256
)
select
    cells.subject, program, backend, pipeline, mode, outcome, outcome_kind, message, cached, forward_over_limit,
    gradient_over_limit, compile_seconds, gate_seconds, bench_seconds, eager_p50_seconds, candidate_p50_seconds,
    eager_p50_seconds / nullif(candidate_p50_seconds, 0) as speedup, candidate_id, semantic_hash, artifact_sha256,
    gate_run_id, bisection_status, bisection_pass, bisection_nodes, bisection_message, reproducer
from cells
left join stages using (subject)
left join bisected using (subject)
left join worst using (gate_run_id)
left join speed using (artifact_sha256)
order by program, backend, pipeline, cells.subject
