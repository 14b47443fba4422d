"""Inputs that a subject is tried on: functions of a setting, the same for the same seed."""
