-- One row a probe. Each was tried once: its vote is its outcome, and nothing weighs it.
with told as (
    select *, from_json(payload, '{
        "bisection_id": "VARCHAR", "candidate_id": "VARCHAR", "step": "INTEGER", "round": "INTEGER", "axis": "VARCHAR",
        "probe": "VARCHAR", "outcome": "VARCHAR", "message": "VARCHAR", "seconds": "VARCHAR", "node_id": "VARCHAR"
        }') as said
    from journal_rows
    where type = 'ProbeDecided'
)
select
    said.bisection_id, said.step, event_id, ts, sweep_id, subject, said.axis, said.probe, said.outcome,
    (said.outcome = 'good')::integer as votes_good, (said.outcome = 'bad')::integer as votes_bad,
    null::double as posterior, said.node_id, (said.seconds::double * 1e9)::bigint as wall_ns, said.candidate_id,
    said.round, said.message
from told
