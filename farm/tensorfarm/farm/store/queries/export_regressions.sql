-- One row a workload, metric and baseline that ever had a regression: how many are open (confirmed and not yet fixed;
-- a nomination to measure one again, or its dismissal, changes nothing) and how many are under suspicion.
with newest as (
    select
        regression_id, arg_max(workload, ts) as workload, arg_max(subject, ts) as subject,
        arg_max(device, ts) as device_class, arg_max(metric, ts) as metric, arg_max(baseline, ts) as baseline,
        arg_max(state, (ts, state <> 'nominated')) as state,
        arg_max(state, ts) filter (state in ('confirmed', 'fixed')) as proven
    from regressions
    group by regression_id
)
select
    workload, regexp_extract(subject, '/([A-Za-z0-9_]+)[^/]*$', 1) as backend, device_class, metric, baseline,
    count(*) filter (proven = 'confirmed') as open, count(*) filter (state = 'nominated') as nominated
from newest
group by all
order by all
