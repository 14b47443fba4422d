"""Import this in a warm parent: what Inductor asks of the machine once, asked before any child is forked.

Which vector instructions g++ can use here, and which g++ it is, are memoised per process. A child that had to ask again
would build six probe programs into its candidate's compile cache, even where it only loads.
"""

from __future__ import annotations

from torch._inductor import cpp_builder, cpu_vec_isa

cpu_vec_isa.pick_vec_isa()
cpp_builder.get_compiler_version_info(cpp_builder.get_cpp_compiler())
