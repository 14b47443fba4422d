"""The room of the bisection: searches that choose probes, and scripts that show what was found. Nothing runs here."""
