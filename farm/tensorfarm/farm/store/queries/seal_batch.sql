-- Journal rows, each event once. An event that the lake knows from another journal or place is a repeat of it.
select rows.*
from journal_rows as rows
left join known_events as known on known.event_id = rows.event_id
where known.event_id is null or (known.writer = rows.writer and known.seq = rows.seq)
qualify row_number() over (partition by rows.event_id order by rows.ts, rows.writer, rows.seq) = 1
order by rows.ts, rows.writer, rows.seq
