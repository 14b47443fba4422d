-- An event is its own row.
select event_id, ts, writer, seq, type, version, sweep_id, attempt, subject, cause_id, payload
from journal_rows
