-- An artifact was built, the cache took it, or it was revoked: it did not answer without a compiler.
-- An artifact's key is its candidate's id.
with known as (
    select *, from_json(payload, '{
        "candidate_id": "VARCHAR", "semantic_hash": "VARCHAR", "artifact_sha256": "VARCHAR", "size_bytes": "BIGINT",
        "uri": "VARCHAR", "gate_run_id": "VARCHAR"}') as said
    from journal_rows
    where type in ('CandidateCompiled', 'ArtifactAdmitted')
        or (type = 'MeasureFailed' and payload ->> 'kind' = 'recompile')
)
select
    said.candidate_id as artifact_key, event_id, ts, sweep_id, subject, said.candidate_id, said.semantic_hash,
    said.artifact_sha256 as sha256, said.size_bytes, said.uri,
    case type when 'CandidateCompiled' then 'built' when 'ArtifactAdmitted' then 'admitted' else 'revoked' end as state, said.gate_run_id
from known
