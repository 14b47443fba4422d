"""Proves an artifact against its contract: oracle, budgets, runners, checks, verdicts. No compiler code."""
