"""Statistics of what was timed: paired ratios, verdicts, canary, baselines, change points."""
