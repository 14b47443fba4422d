"""One family of questions a file. A check returns findings: a value, never a raise."""
