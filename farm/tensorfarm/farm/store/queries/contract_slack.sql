-- How near the findings that passed under one contract came to their limits: the 99.9th percentile by check.
with judged as (
    select distinct payload ->> 'candidate_id' as candidate_id
    from events
    where type = 'CandidateSubmitted' and payload ->> 'contract_hash' = $contract_hash
)
select check_name, count(*) as n, quantile_disc(observed_over_limit, 0.999) as observed_over_limit
from verdicts
where status = 'pass' and candidate_id in (from judged)
group by check_name
order by check_name
