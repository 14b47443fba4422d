-- Candidates whose ids begin with $candidate; only those of sweep $sweep_id where that is not empty.
select distinct candidate_id
from candidates
where mode is not null and ($sweep_id = '' or sweep_id = $sweep_id) and starts_with(candidate_id, $candidate)
