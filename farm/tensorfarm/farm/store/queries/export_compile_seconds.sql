-- One row a workload: median seconds of its last five compilations, finished or killed, and the budget of the newest.
with known as (
    select
        sweep_id, subject, arg_max(backend, ts) as backend, split_part(arg_max(target, ts), '/', 1) as device_class,
        subject || ' ' || arg_max(mode, ts) || ' ' || arg_max(target, ts) as workload
    from candidates
    where mode is not null and sweep_id not in (select sweep_id from derived.experiments)
    group by sweep_id, subject
),
compiled as (
    select workload, backend, device_class, sweep_id, ts, (payload ->> 'compile_seconds')::double as seconds
    from events
    join known using (sweep_id, subject)
    where type in ('CandidateCompiled', 'CompileFailed')
    qualify row_number() over (partition by workload order by ts desc) <= 5
),
allowed as (
    select sweep_id, arg_max(limit_value, ts) as budget_seconds
    from budgets
    where metric = 'compile_seconds'
    group by sweep_id
)
select
    workload, backend, device_class, 'p50' as stat, median(seconds) as seconds,
    arg_max(budget_seconds, ts) as budget_seconds
from compiled
left join allowed using (sweep_id)
group by all
order by all
