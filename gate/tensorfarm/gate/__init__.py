"""Proves an artifact against its contract: inputs, oracle, budgets, runners, checks, verdicts. No compiler code."""
