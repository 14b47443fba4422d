-- How often a candidate was measured against a baseline in pairs, by what that said.
select payload ->> 'verdict' as verdict, count(*) as comparisons
from events
where type = 'Compared'
group by 1
order by 1
