-- Cells on their way in the newest sweep of each name, by the stage that they wait for or are in; nodes that worked
-- for that stage, and jobs of it that were lost, in those sweeps. A sweep that was finished or interrupted has none.
with started as materialized (
    select
        sweep_id, ts, payload ->> 'name' as sweep, payload ->> 'target' as target,
        from_json((payload ->> 'config')::json -> 'programs', '[{
            "name": "VARCHAR", "pipelines": ["VARCHAR"]}]') as programs
    from events
    where type = 'SweepStarted' and sweep_id not in (select sweep_id from derived.experiments)
),
programs as (select sweep_id, sweep, target, unnest(programs) as program from started),
cells as (
    select sweep_id, program.name as program, program.name || '/' || item.pipeline as subject
    from programs, unnest(program.pipelines) as item(pipeline)
),
in_force as (select arg_max(sweep_id, (ts, sweep_id)) as sweep_id from started group by sweep, target),
running as (
    select sweep_id
    from events
    where sweep_id in (select sweep_id from in_force)
    group by sweep_id
    having count(*) filter (type = 'SweepFinished') = 0
        and max(ts) filter (type = 'SweepInterrupted') is distinct from max(ts)
),
happened as (
    select
        sweep_id, subject, arg_max(case type
            when 'CandidateSubmitted' then 'compile' when 'CandidateCompiled' then 'gate' when 'GateDecided' then 'gate'
            when 'BisectionStarted' then 'bisect' when 'ProbeDecided' then 'bisect'
            when 'BisectionFinished' then 'bisect' when 'CandidateEnded' then '' else 'bench' end, (ts, seq)) as stage
    from events
    where sweep_id in (select sweep_id from running) and type not in ('JobLost', 'PredictionMade', 'BudgetDeclared')
    group by sweep_id, subject
),
waiting as (
    select coalesce(cell.stage, if(program.stage is null, 'capture', 'compile')) as stage, count(*) as cells
    from cells
    left join happened as cell using (sweep_id, subject)
    left join happened as program on program.sweep_id = cells.sweep_id and program.subject = cells.program
    where cells.sweep_id in (select sweep_id from running)
    group by 1
),
worked as (
    select
        case
            when type = 'JobLost' then if(payload ->> 'stage' in ('probe', 'reproduce'), 'bisect',
                if(payload ->> 'stage' = 'compare', 'bench', payload ->> 'stage'))
            when type in ('ProgramCaptured', 'CaptureFailed') then 'capture'
            when type in ('CandidateCompiled', 'CompileFailed') then 'compile'
            when type = 'GateDecided' then 'gate' when type = 'ProbeDecided' then 'bisect' else 'bench'
        end as stage,
        count(distinct nullif(payload ->> 'node_id', '')) filter (type <> 'JobLost') as nodes,
        count(*) filter (type = 'JobLost') as lost_jobs
    from events
    where sweep_id in (select sweep_id from running) and type in (
        'ProgramCaptured', 'CaptureFailed', 'CandidateCompiled', 'CompileFailed', 'GateDecided', 'ProbeDecided',
        'Measured', 'MeasureFailed', 'Compared', 'JobLost')
    group by 1
)
select stage, coalesce(cells, 0) as cells, coalesce(nodes, 0) as nodes, coalesce(lost_jobs, 0) as lost_jobs
from (values ('capture'), ('compile'), ('gate'), ('bisect'), ('bench')) as stages(stage)
left join waiting using (stage)
left join worked using (stage)
order by stage
