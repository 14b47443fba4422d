-- One row a workload (program, pipeline, mode and target): its newest candidate as it was recorded and, beside it, what
-- the store knows of the same things by now. A machine is a host: nodes are named anew with every cluster.
with submitted as (
    select *, subject || ' ' || said.mode || ' ' || said.target as workload
    from (
        select ts, sweep_id, subject, from_json(payload, '{
            "candidate_id": "VARCHAR", "program": "VARCHAR", "semantic_hash": "VARCHAR", "mode": "VARCHAR",
            "pipeline": "VARCHAR", "target": "VARCHAR", "toolchain_id": "VARCHAR", "contract_id": "VARCHAR",
            "contract_hash": "VARCHAR", "pass_digests": "JSON"}') as said
        from events
        where type = 'CandidateSubmitted' and sweep_id not in (select sweep_id from derived.experiments)
    )
),
answers as (
    select workload, subject, sweep_id, ts as submitted_at, unnest(said)
    from submitted
    qualify row_number() over (partition by workload order by ts desc, sweep_id desc) = 1
),
cached as (
    select candidate_id, arg_max(sha256, ts) as artifact_sha256, arg_max(state, ts) as state,
        arg_max(gate_run_id, ts) as gate_run_id
    from artifacts
    where state <> 'built'
    group by candidate_id
),
gates as (select gate_run_id, arg_max(gate_version, ts) as gate_version from verdicts group by gate_run_id),
measured as (
    select artifact_sha256, max(ts) as measured_at, split_part(arg_max(node_id, ts), '/', 1) as machine
    from measurements
    where metric = 'step_seconds' and variant = 'candidate'
    group by artifact_sha256
),
baselines as (
    select
        payload ->> 'workload' as workload, max(ts) as baseline_at,
        arg_max(payload ->> 'artifact_sha256', ts) as baseline_sha256
    from events
    where type = 'BaselineAccepted' and payload ->> 'baseline' = 'last_accepted'
    group by 1
),
sizes as (
    select sha256, arg_max(size_bytes, ts) as size_bytes
    from artifacts
    where size_bytes is not null
    group by sha256
),
models as (select subject as target, max(ts) as model_at from events where type = 'CostModelCalibrated' group by subject),
peaks as (
    select subject as target, split_part(arg_max(payload ->> 'node_id', ts), '/', 1) as machine
    from events
    where type = 'PeaksMeasured'
    group by subject
),
programs as (
    select subject as program, arg_max(payload ->> 'semantic_hash', ts) as semantic_hash
    from events
    where type = 'ProgramCaptured' and sweep_id not in (select sweep_id from derived.experiments)
    group by subject
),
contracts as (select said.contract_id, arg_max(said.contract_hash, ts) as contract_hash from submitted group by 1),
passes as (select said.pipeline, arg_max(said.pass_digests, ts) as pass_digests from submitted group by 1)
select
    workload, subject, sweep_id, target, answers.candidate_id, artifact_sha256, submitted_at,
    coalesce(cached.state, '') = 'admitted' as admitted, measured_at, baseline_at, model_at,
    size.size_bytes as artifact_bytes, baseline_sha256, baseline_size.size_bytes as baseline_bytes,
    answers.semantic_hash, answers.contract_hash, answers.toolchain_id, gate_version, measured.machine,
    answers.pass_digests::varchar as pass_digests, programs.semantic_hash as semantic_hash_now,
    contracts.contract_hash as contract_hash_now, peaks.machine as machine_now,
    passes.pass_digests::varchar as pass_digests_now
from answers
left join cached using (candidate_id)
left join gates using (gate_run_id)
left join measured using (artifact_sha256)
left join baselines using (workload)
left join sizes as size on size.sha256 = artifact_sha256
left join sizes as baseline_size on baseline_size.sha256 = baseline_sha256
left join models using (target)
left join peaks using (target)
left join programs using (program)
left join contracts using (contract_id)
left join passes using (pipeline)
order by workload
