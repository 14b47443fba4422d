-- Every sweep, newest first. ``state`` is finished, interrupted or unfinished (its driver died, or still runs).
-- ``experiment`` is true of a run of "farm bisect".
with told as (
    select
        sweep_id, min(ts) filter (type = 'SweepStarted') as started,
        arg_max(payload ->> 'name', ts) filter (type = 'SweepStarted') as name,
        arg_max(payload ->> 'config_sha256', ts) filter (type = 'SweepStarted') as config_sha256,
        max(ts) filter (type = 'SweepFinished') as ended,
        arg_max((payload ->> 'exit_code')::integer, ts) filter (type = 'SweepFinished') as exit_code,
        max(ts) filter (type = 'SweepInterrupted') as interrupted, max(ts) as last_event,
        count(distinct subject) filter (type = 'CandidateEnded') as cells_ended
    from events
    group by sweep_id
)
select
    sweep_id, name, config_sha256, started, ended, exit_code, cells_ended, last_event,
    case
        when ended is not null then 'finished' when interrupted = last_event then 'interrupted' else 'unfinished'
    end as state,
    sweep_id in (select sweep_id from derived.experiments) as experiment
from told
where started is not null
order by started desc, sweep_id
