-- Of $workload, or of every workload where that is empty: the newest baseline of each kind, what it computes, and its
-- newest step time over eager's. A program that captures to something else gives ``computes`` another value.
with accepted as (
    select
        payload ->> 'workload' as workload, payload ->> 'baseline' as kind, max(ts) as since,
        arg_max(payload ->> 'candidate_id', ts) as candidate_id,
        arg_max(payload ->> 'artifact_sha256', ts) as artifact_sha256, arg_max(payload ->> 'by', ts) as accepted_by,
        arg_max(payload ->> 'reason', ts) as reason
    from events
    where type = 'BaselineAccepted' and ($workload = '' or payload ->> 'workload' = $workload)
    group by 1, 2
),
identities as (
    select candidate_id, arg_max(semantic_hash || ' ' || input_spec_id, ts) as computes
    from candidates
    where semantic_hash is not null and candidate_id in (select candidate_id from accepted)
    group by candidate_id
),
speeds as (
    select
        artifact_sha256, arg_max(p50, ts) filter (variant = 'eager') as eager_seconds,
        arg_max(p50, ts) filter (variant = 'candidate') as seconds
    from measurements
    where metric = 'step_seconds' and artifact_sha256 in (select artifact_sha256 from accepted)
    group by artifact_sha256
)
select
    workload, kind, candidate_id, artifact_sha256, accepted_by, reason, since, coalesce(computes, '') as computes,
    coalesce(seconds / nullif(eager_seconds, 0), 'nan'::double) as ratio_to_eager
from accepted
left join identities using (candidate_id)
left join speeds using (artifact_sha256)
order by workload, kind desc
