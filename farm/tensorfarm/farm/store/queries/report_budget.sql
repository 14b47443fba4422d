-- What each cell of sweep $sweep_id might spend, was predicted to spend, and why it was rejected where it was.
-- What it did spend is in ``report_sweep``. The newest of what was said counts.
with limits as (
    select
        arg_max(limit_value, ts) filter (metric = 'compile_seconds') as limit_seconds,
        arg_max(limit_value, ts) filter (metric = 'calls') as declared_calls
    from budgets
    where sweep_id = $sweep_id
),
predicted as (
    select subject, arg_max(predicted, ts) as predicted_compile_seconds
    from predictions
    where sweep_id = $sweep_id and metric = 'compile_seconds'
    group by subject
),
rejected as (
    select
        subject, arg_max((payload ->> 'break_even_calls')::double, ts) as rejected_break_even_calls,
        arg_max((payload ->> 'expected_calls')::double, ts) as rejected_expected_calls
    from events
    where sweep_id = $sweep_id and type = 'TaskRejected'
    group by subject
)
select
    cells.subject, limit_seconds, declared_calls, predicted_compile_seconds, rejected_break_even_calls,
    rejected_expected_calls
from (select distinct subject from candidates where sweep_id = $sweep_id) as cells
cross join limits
left join predicted using (subject)
left join rejected using (subject)
order by cells.subject
