"""Backends by name. A backend's module is imported when a candidate asks for it: fx need not wait for Inductor.

Each module offers ``lower(task: Task) -> Lowered``.
"""

from collections.abc import Mapping

BACKENDS: Mapping[str, str] = {
    "fx": "tensorfarm.compiler.backends.fx",
    "inductor": "tensorfarm.compiler.backends.inductor",
}
