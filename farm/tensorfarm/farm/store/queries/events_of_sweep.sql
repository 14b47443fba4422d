-- A sweep's events as they were recorded, in the order in which they are folded.
select event_id, epoch_us(ts) as ts_us, type, version, sweep_id, attempt, subject, cause_id, payload
from events
where sweep_id = $sweep_id
order by ts, writer, seq
