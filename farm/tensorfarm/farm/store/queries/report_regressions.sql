-- One row a regression, told by the newest fact of its state, and when it came into each. A confirmed one is open until
-- it is fixed: to suspect it again, or to dismiss that, changes nothing. Open ones first, then suspected ones (nominated),
-- newest first; both are unsettled.
with states as (
    select
        regression_id, arg_max(state, (ts, state <> 'nominated')) as last_state,
        coalesce(arg_max(state, ts) filter (state in ('confirmed', 'fixed')), '') as proven,
        max(ts) as changed_at, max(ts) filter (state = 'nominated') as nominated_at,
        max(ts) filter (state = 'confirmed') as confirmed_at,
        max(ts) filter (state in ('dismissed', 'fixed')) as closed_at
    from regressions
    group by regression_id
),
now_in as (
    select *, if(proven = 'confirmed', proven, last_state) as now_state
    from states
)
select
    told.regression_id, told.state, told.workload, told.subject, told.sweep_id, told.baseline, told.metric, told.device,
    told.ratio, told.ratio_lower, told.ratio_upper, told.smallest_detectable, told.verdict, told.candidate_id,
    told.artifact_sha256, told.baseline_artifact, told.message, nominated_at, confirmed_at, closed_at, changed_at,
    told.state in ('confirmed', 'nominated') as unsettled
from now_in
join regressions as told on told.regression_id = now_in.regression_id and told.state = now_in.now_state
qualify row_number() over (partition by told.regression_id order by told.ts desc, told.event_id) = 1
order by
    case told.state when 'confirmed' then 0 when 'nominated' then 1 else 2 end, changed_at desc, told.regression_id
