"""The text of a Python script, and errors that point into it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import NoReturn

from einbound.errors import EquationsError
from einbound.expr.equation_fault import fault


@dataclass(frozen=True, slots=True)
class Script:
    """A script that is read and never run.

    Attributes:
        text: All of it.
    """

    text: str

    def statements(self) -> list[ast.stmt]:
        """Its statements.

        Raises:
            EquationsError: It is no Python.
        """
        try:
            return ast.parse(self.text).body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise EquationsError(f"the source is no Python: {error}") from None

    def refuse(self, node: ast.AST, message: str) -> NoReturn:
        """An error that points at a piece of the script."""
        start = self._offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))
        stop = self._offset(getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0))
        found = self.text[start:stop].split("\n")[0]
        raise fault(f"found {found!r}; {message}", self.text, (start, stop))

    def _offset(self, line: int, column: int) -> int:
        # Columns count bytes of UTF-8, and lines end as str.splitlines has them not.
        lines = self.text.split("\n")
        start = sum(len(each) + 1 for each in lines[: line - 1])
        return start + len(lines[line - 1].encode()[:column].decode())
