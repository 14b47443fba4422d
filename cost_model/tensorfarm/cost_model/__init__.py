"""Predicts what an artifact costs: peaks, features, roofline, calibration, intervals, staleness, drift."""
