"""The room of the bisection: search, sites, localisation, reduction, reproducers; pure. Empty as yet."""
