-- Of $workload, or of every workload where that is empty: regressions that were confirmed and not fixed since.
with newest as (
    select regression_id, unnest(arg_max({
        'state': state, 'workload': workload, 'baseline': baseline, 'baseline_artifact': baseline_artifact,
        'candidate_id': candidate_id, 'artifact_sha256': artifact_sha256, 'subject': subject, 'device': device,
        'ratio': ratio, 'ratio_lower': ratio_lower, 'ratio_upper': ratio_upper,
        'smallest_detectable': smallest_detectable}, ts))
    from regressions
    where state in ('confirmed', 'fixed') and ($workload = '' or workload = $workload)
    group by regression_id
)
select * exclude (state)
from newest
where state = 'confirmed'
order by workload, baseline desc
