-- Two facts on a candidate: what was submitted, and how it ended. What a fact does not know is null.
with known as (
    select *, from_json(payload, '{
        "candidate_id": "VARCHAR", "semantic_hash": "VARCHAR", "program": "VARCHAR", "backend": "VARCHAR",
        "pipeline": "VARCHAR", "target": "VARCHAR", "toolchain_id": "VARCHAR", "dtype": "VARCHAR",
        "contract_id": "VARCHAR", "input_spec_id": "VARCHAR", "outcome": "VARCHAR", "outcome_kind": "VARCHAR",
        "mode": "VARCHAR", "message": "VARCHAR"}') as said
    from journal_rows
    where type in ('CandidateSubmitted', 'CandidateEnded')
)
select
    nullif(said.candidate_id, '') as candidate_id, event_id, ts, sweep_id, subject, said.semantic_hash, said.program,
    said.backend, said.pipeline, said.target, said.toolchain_id, said.dtype, said.contract_id, said.input_spec_id,
    said.outcome, said.outcome_kind, said.mode, said.message
from known
