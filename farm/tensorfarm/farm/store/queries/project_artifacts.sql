-- An artifact was built, or the cache took it. An artifact's key is its candidate's id.
with known as (
    select *, from_json(payload, '{
        "candidate_id": "VARCHAR", "semantic_hash": "VARCHAR", "artifact_sha256": "VARCHAR", "size_bytes": "BIGINT",
        "uri": "VARCHAR", "gate_run_id": "VARCHAR"}') as said
    from journal_rows
    where type in ('CandidateCompiled', 'ArtifactAdmitted')
)
select
    said.candidate_id as artifact_key, event_id, ts, sweep_id, subject, said.candidate_id, said.semantic_hash,
    said.artifact_sha256 as sha256, said.size_bytes, said.uri,
    if(type = 'CandidateCompiled', 'built', 'admitted') as state, said.gate_run_id
from known
