"""What everyone agrees on: program, identity, numerics, artifact, manifest, outcome and events.

Imports none of the other rooms. Judges, compilers and the farm meet only through what is written here.
"""
