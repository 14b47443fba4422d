"""Import this in a warm parent: what Inductor asks of the machine once, asked before any child is forked.

A child that had to ask again would build probe programs into its candidate's compile cache, even where it only loads.
"""

from tensorfarm.contract.inductor_runtime import warm_toolchain

warm_toolchain()
