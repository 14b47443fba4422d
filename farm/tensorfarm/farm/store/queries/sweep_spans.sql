-- Jobs of sweep $sweep_id as spans of time, in epoch seconds: which stage, from when to when. The row whose stage is
-- ``sweep`` is the last driver's whole run, or what lies between the first and the last event of one that has not ended.
with told as (
    select
        type, epoch(ts) as until,
        coalesce((payload ->> 'compile_seconds')::double, (payload ->> 'seconds')::double, 0) as lasted
    from events
    where sweep_id = $sweep_id
)
select
    case
        when type in ('ProgramCaptured', 'CaptureFailed') then 'capture'
        when type in ('CandidateCompiled', 'CompileFailed') then 'compile'
        when type = 'GateDecided' then 'gate'
        when type = 'ProbeDecided' then 'probe'
        when type = 'Compared' then 'compare'
        else 'bench'
    end as stage,
    until - lasted as since, until
from told
where type in (
    'ProgramCaptured', 'CaptureFailed', 'CandidateCompiled', 'CompileFailed', 'GateDecided', 'ProbeDecided', 'Measured',
    'MeasureFailed', 'Compared')
union all
select
    'sweep', coalesce(arg_max(until - lasted, until) filter (type = 'SweepFinished'), min(until)), max(until)
from told
