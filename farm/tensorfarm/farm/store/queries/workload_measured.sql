-- Artifacts that were measured, newest first, of candidate $candidate, or of every one in sweep $sweep_id: one of the two
-- is empty. ``subject`` is the cell that was measured or answered.
select distinct on (submitted.subject, submitted.candidate_id)
    submitted.candidate_id, submitted.subject, submitted.program || '/' || submitted.pipeline || ' ' || submitted.mode
    || ' ' || submitted.target as workload, measured.artifact_sha256, measured.device
from candidates as submitted
join measurements as measured using (candidate_id)
where submitted.mode is not null and measured.metric = 'step_seconds' and measured.variant = 'candidate'
    and (submitted.sweep_id = $sweep_id or submitted.candidate_id = $candidate)
order by submitted.subject, submitted.candidate_id, measured.ts desc
