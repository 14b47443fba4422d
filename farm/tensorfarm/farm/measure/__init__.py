"""Timing: an admitted artifact against eager, in interleaved groups of one child."""
