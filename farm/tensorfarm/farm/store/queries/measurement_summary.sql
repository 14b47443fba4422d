-- All measurements of each candidate, by metric, device and variant.
select
    candidate_id, metric, device, variant, count(*) as series, min(p10) as best_p10, median(p50) as median_p50,
    quantile_cont(p90, 0.9) as p90_of_p90, max(ts) as newest
from measurements
group by candidate_id, metric, device, variant
order by candidate_id, metric, device, variant
