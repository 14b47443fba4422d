"""``python -m tensorfarm.farm``: the ``farm`` command without its script."""

from tensorfarm.farm.cli import main

main()
