-- One row a declared limit. It holds from when it was said until a newer one of the same scope and metric.
with told as (
    select *, from_json(payload, '{
        "scope": "VARCHAR", "metric": "VARCHAR", "limit_value": "VARCHAR", "fresh_for_seconds": "BIGINT"}') as said
    from journal_rows
    where type = 'BudgetDeclared'
)
select
    event_id as budget_id, event_id, ts, sweep_id, subject, said.scope, said.metric,
    said.limit_value::double as limit_value, said.fresh_for_seconds, ts as valid_from, null::timestamptz as valid_to
from told
