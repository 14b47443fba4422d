-- Artifacts that the cache serves, by what the gate says of those very bytes; those it once served, as revoked.
with newest as (
    select candidate_id, sha256, arg_max(state, ts) as state, arg_max(gate_run_id, ts) as gate_run_id
    from artifacts
    where state <> 'built'
    group by candidate_id, sha256
),
passed as (
    select distinct payload ->> 'gate_run_id' as gate_run_id, payload ->> 'artifact_sha256' as sha256
    from events
    where type = 'GateDecided' and payload ->> 'status' = 'pass'
),
judged as (
    select
        case when state = 'revoked' then 'revoked' when passed.sha256 is null then 'missing' else 'passed' end as gate
    from newest
    left join passed using (gate_run_id, sha256)
)
select gate, count(judged.gate) as entries
from (values ('passed'), ('missing'), ('revoked')) as gates(gate)
left join judged using (gate)
group by gate
order by gate
