"""Where candidate code runs: pools, supervisors, forked children, toolchains. The only room that imports Ray."""
