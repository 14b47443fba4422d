"""How a call's values nest, as text: ``builtins.dict['loss', 'logits'](*, *)``, where ``*`` is one value.

Callers unpack what a module returns by key and position, so nesting is meaning. torch's own serialised form changes
between versions; this one depends on the containers alone. Invariant: unequal nestings give unequal texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, cast

from torch.utils import _pytree as pytree

from tensorfarm.contract.graph import IllegalGraph

_LIMIT = "tuples, lists, dicts, and classes registered with torch.utils._pytree under a name"
_NEXT_STEP = "use a tuple, a list or a dict there"
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def structure_text(spec: pytree.TreeSpec | None) -> str:
    """The nesting that ``spec`` describes, empty for none. Raises IllegalGraph where a container has no stable text."""
    if spec is None:
        return ""
    if spec.is_leaf():
        return "*"
    context = "" if spec.context is None else _context_text(spec.context)
    return f"{_name(spec.type)}{context}({', '.join(structure_text(child) for child in spec.children())})"


def serialised(spec: pytree.TreeSpec | None, source: str) -> str:
    """torch's own text of the inputs' nesting, from which a judge packs them again.

    Raises IllegalGraph where that text does not give the same nesting back.
    """
    if spec is None:
        return ""
    try:
        text = pytree.treespec_dumps(spec)
        same = pytree.treespec_loads(text) == spec
    except (NotImplementedError, TypeError, ValueError, KeyError):
        # What torch raises for a container nobody registered, and for keys that JSON cannot hold.
        same, text = False, ""
    if not same:
        fact = f"{source} takes an input that cannot be packed again from a file: {structure_text(spec)}"
        raise IllegalGraph(fact, limit=_LIMIT, next_step=_NEXT_STEP)
    return text


def _context_text(context: Any) -> str:
    if isinstance(context, _PLAIN):
        return repr(context)
    if isinstance(context, Enum):
        return f"{_qualified(type(context))}.{context.name}"
    if isinstance(context, Mapping):
        items = cast("Mapping[object, object]", context).items()
        return f"{{{', '.join(f'{_context_text(key)}: {_context_text(value)}' for key, value in items)}}}"
    if isinstance(context, (list, tuple)):
        return f"[{', '.join(_context_text(item) for item in cast('Sequence[object]', context))}]"
    if hasattr(context, "__qualname__"):
        fields: tuple[str, ...] = getattr(context, "_fields", ())
        return f"[{', '.join((_qualified(context), *fields))}]"
    raise IllegalGraph(
        f"an input or output is kept in a container with a {type(context).__name__}", limit=_LIMIT, next_step=_NEXT_STEP
    )


def _name(kind: Any) -> str:
    """The name it is registered under, which is the same wherever the class is found; its own name for want of one."""
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(kind)
    registered = known is not None and known.serialized_type_name != pytree.NO_SERIALIZED_TYPE_NAME_FOUND
    return known.serialized_type_name if known and registered else _qualified(kind)


def _qualified(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
