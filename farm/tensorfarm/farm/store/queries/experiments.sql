-- Sweeps that are a person's experiment, not what is watched: "farm bisect", whose one cell is never measured. Every query
-- reads this as the view ``derived.experiments``.
select distinct sweep_id
from events
where type = 'SweepStarted' and ((payload ->> 'config')::json ->> 'pairs')::integer = 0
