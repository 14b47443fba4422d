"""The room of the cost model: peaks, features, roofline, calibration, intervals, staleness, drift. Empty as yet."""
