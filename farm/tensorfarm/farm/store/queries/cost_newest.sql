-- The newest event of type $type about target $target: its payload, and when it was.
select payload, ts
from events
where type = $type and subject = $target
order by ts desc, event_id
limit 1
