-- For each of $candidate_ids that the cache can answer: its newest artifact whose latest state is admitted.
-- ``findings`` and ``measurements`` are JSON lists, word for word as the gate and the bench recorded them.
with states as (
    select candidate_id, sha256, arg_max({
        'state': state, 'ts': ts, 'uri': uri, 'size_bytes': size_bytes, 'semantic_hash': semantic_hash,
        'gate_run_id': gate_run_id, 'sweep_id': sweep_id}, ts) as newest
    from artifacts
    where list_contains($candidate_ids, candidate_id) and state <> 'built'
    group by candidate_id, sha256
),
served as (
    select candidate_id, sha256, unnest(newest)
    from states
    where newest.state = 'admitted'
    qualify row_number() over (partition by candidate_id order by newest.ts desc, sha256) = 1
),
judged as (
    select
        payload ->> 'gate_run_id' as gate_run_id, arg_max(payload ->> 'gate_version', ts) as gate_version,
        arg_max(payload ->> 'findings', ts) as findings
    from events
    where type = 'GateDecided' and sweep_id in (select sweep_id from served)
    group by 1
),
measured as (
    select
        payload ->> 'candidate_id' as candidate_id, payload ->> 'artifact_sha256' as sha256,
        arg_max(payload ->> 'measurements', ts) as measurements
    from events
    where type = 'Measured' and list_contains($candidate_ids, payload ->> 'candidate_id')
    group by 1, 2
)
select
    candidate_id, sha256 as artifact_sha256, uri, size_bytes, semantic_hash, gate_run_id, gate_version, sweep_id,
    ts as admitted_at, coalesce(findings, '[]') as findings, coalesce(measurements, '[]') as measurements
from served
left join judged using (gate_run_id)
left join measured using (candidate_id, sha256)
order by candidate_id
