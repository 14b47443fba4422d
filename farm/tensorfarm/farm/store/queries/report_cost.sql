-- One row a prediction, with what was measured of the same candidate: the first measurement after it or, where there is
-- none, the last one before it. Such a prediction is ``late``: it was made when the answer was there.
with seen as (
    select candidate_id, ts as measured_at, p50 as measured_seconds, metric
    from measurements
    where metric = 'step_seconds' and variant = 'candidate' and coalesce(warm, true)
    union all
    select payload ->> 'candidate_id', ts, (payload ->> 'compile_seconds')::double, 'compile_seconds'
    from events
    where type = 'CandidateCompiled'
)
select
    told.sweep_id, told.subject, told.candidate_id, told.metric, told.checkpoint, told.predicted, told.lower, told.upper,
    seen.measured_seconds, told.ts as predicted_at, seen.measured_at,
    coalesce(seen.measured_at <= told.ts, false) as late, told.model_id, told.peaks_id, told.out_of_distribution
from predictions as told
left join seen on seen.candidate_id = told.candidate_id and seen.metric = told.metric
qualify row_number() over (
    partition by told.prediction_id order by late, abs(epoch_us(seen.measured_at) - epoch_us(told.ts))) = 1
order by told.ts, told.subject, told.metric, told.checkpoint
