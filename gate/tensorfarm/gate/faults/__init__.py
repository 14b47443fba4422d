"""Faults to plant in programs that are right, so that the gate can be shown to find them; and variants that are right.

Each file holds kinds of one family as a tuple ``FAULTS``, or honest ones as ``HONEST``; ``catalogue`` finds them all.
"""
