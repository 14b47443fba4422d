-- One row a prediction. JSON has no infinities: doubles are read as text, where inf and nan are words.
with told as (
    select *, from_json(payload, '{
        "candidate_id": "VARCHAR", "metric": "VARCHAR", "checkpoint": "VARCHAR", "predicted": "VARCHAR",
        "lower": "VARCHAR", "upper": "VARCHAR", "model_id": "VARCHAR", "peaks_id": "VARCHAR",
        "features_hash": "VARCHAR", "out_of_distribution": "BOOLEAN"}') as said
    from journal_rows
    where type = 'PredictionMade'
)
select
    event_id as prediction_id, event_id, ts, sweep_id, subject, said.candidate_id, said.metric, said.checkpoint,
    said.predicted::double as predicted, said.lower::double as lower, said.upper::double as upper, said.model_id,
    said.peaks_id, said.features_hash, said.out_of_distribution
from told
