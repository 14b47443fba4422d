-- Artifacts that $prefix may name, by their own sha256 or by their candidate's id; a candidate means its newest artifact.
-- Newest first, each with the cell that it was last built for.
with built as (
    select sha256, candidate_id, arg_max(sweep_id, ts) as sweep_id, arg_max(subject, ts) as subject, max(ts) as newest
    from artifacts
    where sha256 is not null
    group by sha256, candidate_id
),
by_candidate as (
    select *
    from built
    where starts_with(candidate_id, $prefix)
    qualify row_number() over (partition by candidate_id order by newest desc, sha256) = 1
)
select * from built where starts_with(sha256, $prefix)
union
select * from by_candidate
order by newest desc, sha256
