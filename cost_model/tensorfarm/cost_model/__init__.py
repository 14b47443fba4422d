"""The room of the cost model: peaks, features, roofline, calibration, intervals, budgets, staleness, drift."""
