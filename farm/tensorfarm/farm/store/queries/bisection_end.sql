-- How the one cell of sweep $sweep_id ended, and its bisection, as the payloads of their newest events.
select
    arg_max(payload, ts) filter (type = 'CandidateEnded') as ended,
    arg_max(payload, ts) filter (type = 'CandidateCompiled') as compiled,
    arg_max(payload, ts) filter (type = 'BisectionFinished') as finished
from events
where sweep_id = $sweep_id
