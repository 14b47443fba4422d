-- How many workloads have an answer that is stale, by those reasons of "farm report staleness" that a store can tell by
-- itself: built with another toolchain than the newest sweep on the target, or of a program that is another one by now.
with answered as (
    select
        subject || ' ' || mode || ' ' || target as workload, arg_max(toolchain_id, ts) as toolchain_id,
        arg_max(semantic_hash, ts) as semantic_hash, arg_max(program, ts) as program, arg_max(target, ts) as target
    from candidates
    where mode is not null and sweep_id not in (select sweep_id from derived.experiments)
    group by workload
),
toolchains as (
    select payload ->> 'target' as target, arg_max(payload ->> 'toolchain_id', ts) as toolchain_id
    from events
    where type = 'SweepStarted' and sweep_id not in (select sweep_id from derived.experiments)
    group by target
),
programs as (
    select subject as program, arg_max(payload ->> 'semantic_hash', ts) as semantic_hash
    from events
    where type = 'ProgramCaptured' and sweep_id not in (select sweep_id from derived.experiments)
    group by subject
)
select
    reason, count(*) filter (case reason
        when 'toolchain_changed' then toolchains.toolchain_id <> answered.toolchain_id
        else programs.semantic_hash <> answered.semantic_hash end) as workloads
from (values ('toolchain_changed'), ('program_changed')) as reasons(reason)
left join answered on true
left join toolchains using (target)
left join programs using (program)
group by reason
order by reason
