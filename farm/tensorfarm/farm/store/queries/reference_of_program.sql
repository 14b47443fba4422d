-- What one step of a program takes in eager mode on a target, and what judging it took: the newest of each, in seconds.
with known as (
    select candidate_id from candidates
    where semantic_hash = $semantic_hash and mode = $mode and target = $target
),
steps as (
    select arg_max(p50, ts) as eager_seconds
    from measurements
    where variant = 'eager' and metric = 'step_seconds' and candidate_id in (select candidate_id from known)
),
gates as (
    select arg_max((payload ->> 'seconds')::double, ts) as gate_seconds
    from events
    where type = 'GateDecided' and payload ->> 'candidate_id' in (select candidate_id from known)
)
select eager_seconds, coalesce(gate_seconds, 0) as gate_seconds
from steps, gates
where eager_seconds is not null
