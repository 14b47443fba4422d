"""Timing: an admitted artifact against eager, or against a baseline, each side in processes of its own."""
