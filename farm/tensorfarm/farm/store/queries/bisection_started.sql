-- When a bisection began.
select ts from events where type = 'BisectionStarted' and payload ->> 'bisection_id' = $bisection_id
