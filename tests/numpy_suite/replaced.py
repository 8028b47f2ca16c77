"""numpy with einsum replaced by einbound's, for a copy of numpy's own tests.

A stand-in module and not a patch of numpy itself: einbound may call numpy's einsum.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy

import einbound


class _Replaced(ModuleType):
    einsum = staticmethod(einbound.einsum)

    def __getattr__(self, name: str) -> Any:
        return getattr(numpy, name)


np = _Replaced("numpy")
