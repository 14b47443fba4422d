-- One row a decision. A manifest is part of the artifact's bytes, so it is named by the artifact.
with compiled as (
    select *, payload ->> 'candidate_id' as candidate_id, payload ->> 'artifact_sha256' as artifact_sha256,
        from_json(payload -> 'manifest', '[{
            "ordinal": "INTEGER", "kind": "VARCHAR", "name": "VARCHAR", "site": "VARCHAR", "decision": "VARCHAR",
            "reason": "VARCHAR", "numerics": "VARCHAR", "ir_hash_before": "VARCHAR", "ir_hash_after": "VARCHAR",
            "wall_ns": "BIGINT", "attributes": "MAP(VARCHAR, VARCHAR)"}]') as entries
    from journal_rows
    where type = 'CandidateCompiled'
),
numbered as (
    select *, unnest(entries) as said, generate_subscripts(entries, 1) - 1 as place
    from compiled
)
select
    artifact_sha256 as manifest_id, event_id, ts, sweep_id, subject, candidate_id,
    coalesce(said.ordinal, place)::integer as ordinal, said.kind, said.name, said.site, said.decision, said.reason,
    said.numerics, said.ir_hash_before, said.ir_hash_after, said.wall_ns, said.attributes
from numbered
