-- Compilations on $target with the features of what was built, one row a candidate: the median of its compile seconds.
with submitted as (
    select distinct
        payload ->> 'candidate_id' as candidate_id, payload ->> 'semantic_hash' as semantic_hash,
        payload ->> 'backend' as backend
    from events
    where type = 'CandidateSubmitted' and (payload ->> 'target') = $target
)
select
    submitted.semantic_hash, submitted.backend, submitted.candidate_id,
    median((payload ->> 'compile_seconds')::double) as seconds,
    arg_max(payload -> 'features' ->> 'lowered', ts) as features
from events
join submitted on submitted.candidate_id = (payload ->> 'candidate_id')
where type = 'CandidateCompiled' and (payload -> 'features' -> 'lowered') is not null
group by all
order by 1, 2, 3
