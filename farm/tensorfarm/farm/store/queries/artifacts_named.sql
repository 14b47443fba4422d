-- Artifacts whose sha256 begins with $prefix, newest first, each with the cell that it was last built for.
select sha256 as artifact_sha256, candidate_id, arg_max(subject, ts) as subject
from artifacts
where sha256 is not null and starts_with(sha256, $prefix)
group by sha256, candidate_id
order by max(ts) desc, sha256
