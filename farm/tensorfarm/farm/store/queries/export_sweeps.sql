-- One row a sweep's name and kind of device, about the newest sweep of that name.
-- ``expected_cells`` are those that have not ended yet or were last admitted; ``measured_cells`` those of them that
-- were measured when they last ended. ``progress_at`` is when anything last happened, null where the sweep
-- has nothing left to do.
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
        sweep_id, sweep, split_part(target, '/', 1) as device_class,
        program.name || '/' || item.pipeline as subject,
        program.name || '/' || item.pipeline || ' ' || program.mode || ' ' || target as workload
    from programs, unnest(program.pipelines) as item(pipeline)
),
in_force as (select arg_max(sweep_id, (ts, sweep_id)) as sweep_id from started group by sweep, target),
ended as (
    select
        workload, arg_max(outcome, candidates.ts) as outcome,
        arg_max(sweep_id || ' ' || subject, candidates.ts) as place
    from candidates
    join cells using (sweep_id, subject)
    where outcome is not null
    group by workload
),
measured as (
    select distinct sweep_id || ' ' || subject as place
    from events
    where type = 'Measured' or (type = 'CacheAnswered' and (payload ->> 'measured')::boolean)
),
covered as (
    select
        sweep, device_class, count(*) as expected_cells,
        count(*) filter (place in (select place from measured)) as measured_cells
    from cells
    left join ended using (workload)
    where sweep_id in (select sweep_id from in_force)
        and coalesce(outcome, 'admitted') in ('admitted', 'performance_regression')
    group by sweep, device_class
),
told as (
    select
        sweep, device_class, max(events.ts) filter (sweep_id in (select sweep_id from in_force)) as last_event,
        max(events.ts) filter (
            type = 'SweepInterrupted' and sweep_id in (select sweep_id from in_force)) as interrupted,
        count(*) filter (type = 'SweepFinished' and sweep_id in (select sweep_id from in_force)) as finished,
        max(events.ts) filter (type = 'Measured') as measured_at
    from events
    join (select sweep_id, sweep, split_part(target, '/', 1) as device_class from started) using (sweep_id)
    group by sweep, device_class
),
fresh as (
    select sweep, device_class, arg_max(fresh_for_seconds, budgets.ts) as period_seconds
    from budgets
    join (select sweep_id, sweep, split_part(target, '/', 1) as device_class from started) using (sweep_id)
    where metric = 'step_seconds' and fresh_for_seconds > 0
    group by sweep, device_class
)
select
    sweep, device_class, coalesce(expected_cells, 0) as expected_cells, coalesce(measured_cells, 0) as measured_cells,
    epoch(measured_at) as measured_at, period_seconds,
    case when finished = 0 and interrupted is distinct from last_event then epoch(last_event) end as progress_at
from told
left join covered using (sweep, device_class)
left join fresh using (sweep, device_class)
order by sweep, device_class
