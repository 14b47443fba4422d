-- Steps measured on $target with the features of what ran, one row a program, mode and backend: the median over all of
-- its measurements. Eager is known by what was captured, a candidate by what it was lowered to.
with submitted as (
    select distinct
        payload ->> 'candidate_id' as candidate_id, payload ->> 'semantic_hash' as semantic_hash,
        payload ->> 'mode' as mode, payload ->> 'backend' as backend
    from events
    where type = 'CandidateSubmitted' and (payload ->> 'target') = $target
),
captured as (
    select
        payload ->> 'semantic_hash' as semantic_hash, payload -> 'features' -> 'captured' ->> 'mode' as mode,
        arg_max(payload -> 'features' ->> 'captured', ts) as features
    from events
    where type = 'ProgramCaptured' and (payload -> 'features' -> 'captured') is not null
    group by all
),
lowered as (
    select
        payload ->> 'candidate_id' as candidate_id, arg_max(payload -> 'features' ->> 'lowered', ts) as features
    from events
    where type = 'CandidateCompiled' and (payload -> 'features' -> 'lowered') is not null
    group by all
),
steps as (
    select candidate_id, variant, p50
    from measurements
    where metric = 'step_seconds' and p50 > 0
)
select
    submitted.semantic_hash, submitted.mode, 'eager' as backend, median(steps.p50) as seconds,
    any_value(captured.features) as features
from steps
join submitted using (candidate_id)
join captured on captured.semantic_hash = submitted.semantic_hash and captured.mode = submitted.mode
where steps.variant = 'eager'
group by all
union all
select
    submitted.semantic_hash, submitted.mode, submitted.backend, median(steps.p50),
    any_value(coalesce(lowered.features, captured.features))
from steps
join submitted using (candidate_id)
left join lowered using (candidate_id)
left join captured on captured.semantic_hash = submitted.semantic_hash and captured.mode = submitted.mode
where steps.variant = 'candidate' and coalesce(lowered.features, captured.features) is not null
group by all
order by 1, 2, 3
