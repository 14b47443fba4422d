-- The normalised sweep file of sweep $sweep_id, as JSON text.
select payload ->> 'config' as config from events where sweep_id = $sweep_id and type = 'SweepStarted' limit 1
