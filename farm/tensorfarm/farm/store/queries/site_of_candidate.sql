-- The switchable decision with this number in the newest manifest of a candidate: name, place, what it touched, and
-- what Inductor said when it asked for it.
select
    name, site, attributes['nodes'] as nodes, attributes['index'] as place,
    attributes['subsystem'] as subsystem, attributes['told'] as told, attributes['occurrence'] as occurrence
from manifests
where candidate_id = $candidate_id and kind = 'site' and attributes['ordinal'] = $ordinal
qualify row_number() over (order by ts desc, ordinal) = 1
