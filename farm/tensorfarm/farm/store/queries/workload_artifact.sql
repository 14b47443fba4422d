-- What $artifact_sha256 of $candidate_id computes, on which device it was measured, and its newest step time over eager's.
with identity as (
    select arg_max(semantic_hash || ' ' || input_spec_id, ts) as computes
    from candidates
    where candidate_id = $candidate_id and semantic_hash is not null
),
speed as (
    select
        arg_max(p50, ts) filter (variant = 'eager') as eager_seconds,
        arg_max(p50, ts) filter (variant = 'candidate') as seconds, arg_max(device, ts) as device
    from measurements
    where metric = 'step_seconds' and artifact_sha256 = $artifact_sha256
)
select
    coalesce(computes, '') as computes, coalesce(device, '') as device,
    coalesce(seconds / nullif(eager_seconds, 0), 'nan'::double) as ratio_to_eager
from identity, speed
