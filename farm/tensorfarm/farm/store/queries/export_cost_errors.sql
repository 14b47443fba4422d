-- One row a metric, kind of device and quantile: |log(predicted / measured)| of the newest model of that target, each
-- cell's last prediction before the measurement.
with known as (
    select sweep_id, subject, arg_max(target, ts) as target
    from candidates
    where mode is not null
    group by sweep_id, subject
),
measured as (
    select sweep_id, subject, metric, arg_max(p50, ts) as seconds, max(ts) as measured_at
    from measurements
    where metric = 'step_seconds' and variant = 'candidate' and coalesce(warm, true)
    group by all
    union all
    select sweep_id, subject, 'compile_seconds', arg_max((payload ->> 'compile_seconds')::double, ts), max(ts)
    from events
    where type = 'CandidateCompiled'
    group by sweep_id, subject
),
predicted as (
    select
        sweep_id, subject, target, metric, arg_max(predicted, ts) as predicted, arg_max(seconds, ts) as seconds,
        arg_max(model_id, ts) as model_id, max(ts) as ts
    from predictions
    join known using (sweep_id, subject)
    join measured using (sweep_id, subject, metric)
    where ts < measured_at
    group by all
),
erred as (
    select
        split_part(target, '/', 1) as device_class, metric, abs(ln(predicted / seconds)) as error
    from predicted
    where predicted > 0 and seconds > 0
    qualify model_id = last_value(model_id) over (
        partition by target order by ts rows between unbounded preceding and unbounded following)
)
select metric, device_class, '0.5' as quantile, quantile_cont(error, 0.5) as error from erred group by all
union all
select metric, device_class, '0.9', quantile_cont(error, 0.9) from erred group by all
order by all
