-- The artifact with which cell $subject of sweep $sweep_id was answered, compiled there or taken from the cache; the last.
select payload ->> 'artifact_sha256' as sha256, payload ->> 'candidate_id' as candidate_id
from events
where sweep_id = $sweep_id and subject = $subject and type in ('CandidateCompiled', 'CacheAnswered')
order by ts desc
limit 1
