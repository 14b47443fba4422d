-- What predictions can be made from: how often peaks were measured, and the target of the newest model (null for none).
select
    count(*) filter (type = 'PeaksMeasured') as peaks, arg_max(subject, ts) filter (type = 'CostModelCalibrated') as model_target
from events
