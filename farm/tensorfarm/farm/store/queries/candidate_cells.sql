-- The newest cell of each candidate whose id begins with $prefix.
select candidate_id, sweep_id, subject
from candidates
where starts_with(candidate_id, $prefix) and pipeline is not null
qualify row_number() over (partition by candidate_id order by ts desc) = 1
order by candidate_id
