-- One row a workload, metric and kind of baseline: what the newest paired measurement against it found.
-- One that did not come about has no ratio and says nothing.
with known as (
    select
        sweep_id, subject, arg_max(backend, ts) as backend, split_part(arg_max(target, ts), '/', 1) as device_class,
        subject || ' ' || arg_max(mode, ts) || ' ' || arg_max(target, ts) as workload
    from candidates
    where mode is not null
    group by sweep_id, subject
),
compared as (
    select
        workload, backend, device_class, payload ->> 'metric' as metric, payload ->> 'baseline' as baseline, ts,
        (payload ->> 'ratio_lower')::double as ratio_lower
    from events
    join known using (sweep_id, subject)
    where type = 'Compared' and isfinite((payload ->> 'ratio')::double)
)
select workload, backend, device_class, metric, baseline, arg_max(ratio_lower, ts) as ratio_lower
from compared
group by all
order by all
