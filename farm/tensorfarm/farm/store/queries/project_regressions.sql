-- One row a change of state: nominated, then confirmed or dismissed; a confirmed one is open until it is fixed.
with told as (
    select *, from_json(payload, '{
        "regression_id": "VARCHAR", "workload": "VARCHAR", "candidate_id": "VARCHAR", "artifact_sha256": "VARCHAR",
        "baseline": "VARCHAR", "baseline_artifact": "VARCHAR", "metric": "VARCHAR", "device": "VARCHAR",
        "ratio": "VARCHAR", "ratio_lower": "VARCHAR", "ratio_upper": "VARCHAR", "smallest_detectable": "VARCHAR",
        "verdict": "VARCHAR", "message": "VARCHAR", "culprit": "VARCHAR"}') as said
    from journal_rows
    where type in ('RegressionNominated', 'RegressionConfirmed', 'RegressionDismissed', 'RegressionFixed')
)
select
    said.regression_id, event_id, ts, sweep_id, subject, said.candidate_id, said.baseline, said.baseline_artifact,
    said.metric, said.device, said.ratio::double as ratio, said.ratio_lower::double as ratio_lower,
    said.ratio_upper::double as ratio_upper, said.smallest_detectable::double as smallest_detectable, said.verdict,
    lower(substr(type, length('Regression') + 1)) as state, said.culprit, said.workload, said.artifact_sha256,
    said.message
from told
