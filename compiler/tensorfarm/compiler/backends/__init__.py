"""Backends by name. A backend's module is imported when a candidate asks for it: fx need not wait for Inductor.

Each module offers ``lower(task: Task) -> Lowered``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BackendSpec:
    """``options`` lists the values each option may have; ``takes_passes`` says whether passes may stand before it.

    ``users_code`` are options whose value names something of the user's: ``module.Name``.
    """

    module: str
    takes_passes: bool
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    users_code: tuple[str, ...] = ()


BACKENDS: Mapping[str, BackendSpec] = {
    "fx": BackendSpec("tensorfarm.compiler.backends.fx", takes_passes=True),
    "inductor": BackendSpec(
        "tensorfarm.compiler.backends.inductor",
        takes_passes=False,
        options={"mode": ("default",)},
        users_code=("post_grad",),
    ),
}
