-- Candidates whose ids begin with $prefix: each with the cell that it was last submitted for and its newest artifact,
-- null where nothing was built.
with submitted as (
    select candidate_id, arg_max(sweep_id, ts) as sweep_id, arg_max(subject, ts) as subject, max(ts) as newest
    from candidates
    where mode is not null and starts_with(candidate_id, $prefix)
    group by candidate_id
),
built as (
    select candidate_id, arg_max(sha256, (ts, sha256)) as artifact_sha256
    from artifacts
    where sha256 is not null and starts_with(candidate_id, $prefix)
    group by candidate_id
)
select candidate_id, sweep_id, subject, artifact_sha256
from submitted
left join built using (candidate_id)
order by newest desc, candidate_id
