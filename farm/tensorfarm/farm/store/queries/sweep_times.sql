-- Where the time of sweep $sweep_id went: busy seconds of its jobs by stage, and the drivers' wall seconds.
-- Wall time is known only of a sweep that finished; without it, time between its first and last event.
select
    sum((payload ->> 'seconds')::double) filter (type in ('ProgramCaptured', 'CaptureFailed')) as capture_seconds,
    sum((payload ->> 'compile_seconds')::double) filter (type in ('CandidateCompiled', 'CompileFailed'))
        as compile_seconds,
    sum((payload ->> 'seconds')::double) filter (type = 'GateDecided') as gate_seconds,
    sum((payload ->> 'seconds')::double) filter (type in ('Measured', 'MeasureFailed')) as bench_seconds,
    coalesce(
        arg_max((payload ->> 'seconds')::double, ts) filter (type = 'SweepFinished'),
        epoch(max(ts)) - epoch(min(ts))) as wall_seconds
from events
where sweep_id = $sweep_id
