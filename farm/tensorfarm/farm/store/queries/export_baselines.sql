-- One row a workload, metric and kind of baseline: when it was accepted, and whether it was built with the toolchain
-- of the newest sweep on its target.
with accepted as (
    select
        payload ->> 'workload' as workload, payload ->> 'metric' as metric, payload ->> 'baseline' as baseline,
        arg_max(payload ->> 'candidate_id', ts) as candidate_id, arg_max(subject, ts) as subject, max(ts) as accepted_at
    from events
    where type = 'BaselineAccepted'
    group by all
),
known as (
    select candidate_id, arg_max(target, ts) as target, arg_max(toolchain_id, ts) as toolchain_id
    from candidates
    where mode is not null
    group by candidate_id
),
today as (
    select payload ->> 'target' as target, arg_max(payload ->> 'toolchain_id', ts) as toolchain_id
    from events
    where type = 'SweepStarted' and sweep_id not in (select sweep_id from derived.experiments)
    group by target
)
select
    workload, regexp_extract(subject, '/([A-Za-z0-9_]+)[^/]*$', 1) as backend,
    split_part(known.target, '/', 1) as device_class, metric, baseline, epoch(accepted_at) as accepted_at,
    (known.toolchain_id = today.toolchain_id)::integer as toolchain_match
from accepted
left join known using (candidate_id)
left join today on today.target = known.target
order by all
