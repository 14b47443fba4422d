-- What one table has yet to take of the kept journal rows.
select kept.*
from kept_rows as kept
left join passed using (writer)
where kept.seq > coalesce(passed.through, 0)
