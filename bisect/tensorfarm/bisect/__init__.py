"""Names the culprit: search, sites, localisation, reduction, reproducers. Pure: it chooses probes, others run them."""
