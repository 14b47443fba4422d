-- One row a metric and device: by what share the last ten paired measurements could be wrong (their median), the share
-- by which a workload may be slower before that matters, and the same as a ratio. What has no ratio was not measured.
with compared as (
    select
        payload ->> 'metric' as metric, payload ->> 'device' as device_class,
        (payload ->> 'smallest_detectable')::double - 1 as noise, (payload ->> 'threshold')::double as threshold, ts
    from events
    where type = 'Compared' and isfinite((payload ->> 'ratio')::double)
    qualify row_number() over (partition by metric, device_class order by ts desc) <= 10
)
select
    metric, device_class, median(noise) filter (isfinite(noise)) as halfwidth,
    1 + arg_max(threshold, ts) as threshold, arg_max(threshold, ts) as halfwidth_limit
from compared
group by all
order by all
