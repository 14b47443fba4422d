-- One row a backend and kind of device that was ever bisected: how many bisections are on their way in the newest sweep
-- of a name (nobody waits for one of a sweep that was interrupted), and when any of its probes was last decided.
with started as materialized (
    select sweep_id, ts, payload ->> 'name' as sweep, payload ->> 'target' as target
    from events
    where type = 'SweepStarted' and sweep_id not in (select sweep_id from derived.experiments)
),
stopped as (
    select sweep_id
    from events
    group by sweep_id
    having max(ts) filter (type = 'SweepInterrupted') = max(ts) or count(*) filter (type = 'SweepFinished') > 0
),
in_force as (select arg_max(sweep_id, (ts, sweep_id)) as sweep_id from started group by sweep, target),
told as (
    select
        sweep_id, payload ->> 'bisection_id' as bisection_id, max(payload ->> 'backend') as backend,
        max(ts) as progress, bool_or(type = 'BisectionFinished') as finished
    from events
    where type in ('BisectionStarted', 'ProbeDecided', 'BisectionFinished')
    group by all
),
placed as (
    select
        backend, split_part(target, '/', 1) as device_class, progress,
        not finished and sweep_id in (select sweep_id from in_force) and sweep_id not in (select sweep_id from stopped)
            as active
    from told
    join started using (sweep_id)
    where backend is not null
)
select
    backend, device_class, count(*) filter (active) as active,
    epoch(coalesce(min(progress) filter (active), max(progress))) as progress_at
from placed
group by backend, device_class
order by backend, device_class
