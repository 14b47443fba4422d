-- What predictions can be made from: how often peaks were measured and a model was calibrated, and how many cells ended.
select
    count(*) filter (type = 'PeaksMeasured') as peaks, count(*) filter (type = 'CostModelCalibrated') as models,
    count(*) filter (type = 'CandidateEnded') as cells
from events
