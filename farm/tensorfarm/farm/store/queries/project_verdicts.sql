-- One row a finding. JSON has no infinities: doubles are read as text, where inf and nan are words.
with decided as (
    select *, from_json(payload, '{
            "candidate_id": "VARCHAR", "gate_run_id": "VARCHAR", "artifact_sha256": "VARCHAR",
            "gate_version": "VARCHAR", "attestation": "VARCHAR"}') as run,
        from_json(payload -> 'findings', '[{
            "check_name": "VARCHAR", "what": "VARCHAR", "device": "VARCHAR", "layout": "VARCHAR",
            "input_suite": "VARCHAR", "status": "VARCHAR", "message": "VARCHAR", "observed_over_limit": "VARCHAR",
            "digits": "VARCHAR", "worst_index": ["BIGINT"], "worst_expected": "VARCHAR", "worst_seen": "VARCHAR",
            "limit_abs": "VARCHAR", "n_elements": "BIGINT", "n_bad": "BIGINT", "seed": "BIGINT",
            "wall_ns": "BIGINT", "required": "BOOLEAN"}]') as findings
    from journal_rows
    where type = 'GateDecided'
),
numbered as (
    select *, unnest(findings) as said, (generate_subscripts(findings, 1) - 1)::integer as ordinal
    from decided
)
select
    run.gate_run_id, event_id, ts, sweep_id, subject, run.candidate_id, run.artifact_sha256, ordinal, said.check_name,
    said.what, said.device, said.layout, said.input_suite, said.status, said.message,
    said.observed_over_limit::double as observed_over_limit, said.digits::double as digits, said.worst_index,
    said.worst_expected::double as worst_expected, said.worst_seen::double as worst_seen,
    said.limit_abs::double as limit_abs, said.n_elements, said.n_bad, said.seed, run.gate_version, run.attestation,
    said.wall_ns, said.required
from numbered
