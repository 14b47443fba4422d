-- What candidate $candidate_id was submitted as, the last time.
select from_json(payload, '{
    "program": "VARCHAR", "semantic_hash": "VARCHAR", "input_spec_id": "VARCHAR", "mode": "VARCHAR",
    "pipeline": "VARCHAR", "target": "VARCHAR", "toolchain_id": "VARCHAR", "contract_id": "VARCHAR",
    "contract_hash": "VARCHAR", "dtype": "VARCHAR"}') as submitted, payload ->> 'pass_digests' as pass_digests
from events
where type = 'CandidateSubmitted' and payload ->> 'candidate_id' = $candidate_id
order by ts desc
limit 1
