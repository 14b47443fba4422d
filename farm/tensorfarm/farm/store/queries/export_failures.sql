-- One row a workload and class of failure that it ever ended with. ``open`` is 1 where that is what was last found out
-- and the newest sweep of a name still has the cell, else 0: a series ends at zero, it does not vanish. An outcome that
-- says nothing of the artifact (rejected as a task, infrastructure, undecided) closes nothing and is no failure; a
-- regression is one of an admitted artifact and has gauges of its own.
with started as materialized (
    select
        sweep_id, ts, payload ->> 'name' as sweep, payload ->> 'target' as target,
        from_json((payload ->> 'config')::json -> 'programs', '[{
            "name": "VARCHAR", "mode": "VARCHAR", "pipelines": ["VARCHAR"]}]') as programs
    from events
    where type = 'SweepStarted' and sweep_id not in (select sweep_id from derived.experiments)
),
programs as (select sweep_id, sweep, target, unnest(programs) as program from started),
cells as (
    select
        sweep_id, split_part(target, '/', 1) as device_class, program.name || '/' || item.pipeline as subject,
        regexp_extract(item.pipeline, '^[A-Za-z0-9_]+') as backend,
        program.name || '/' || item.pipeline || ' ' || program.mode || ' ' || target as workload
    from programs, unnest(program.pipelines) as item(pipeline)
),
in_force as (select arg_max(sweep_id, (ts, sweep_id)) as sweep_id from started group by sweep, target),
ended as (
    select workload, cells.backend, device_class, candidates.ts, outcome
    from candidates
    join cells using (sweep_id, subject)
    where outcome not in ('task_rejection', 'infrastructure_exhausted', 'undecided')
),
newest as (select workload, arg_max(outcome, ts) as outcome from ended group by workload)
select
    workload, backend, device_class, ended.outcome as failure_class,
    bool_or(newest.outcome = ended.outcome
        and workload in (select workload from cells where sweep_id in (select sweep_id from in_force)))::integer as open
from ended
join newest using (workload)
where ended.outcome not in ('admitted', 'performance_regression')
group by all
order by all
