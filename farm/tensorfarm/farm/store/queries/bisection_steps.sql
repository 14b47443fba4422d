-- The probes of sweep $sweep_id's bisection, in order.
select round, step, probe, outcome, message, wall_ns / 1e9 as seconds, node_id
from bisect_steps
where sweep_id = $sweep_id
order by step, ts
