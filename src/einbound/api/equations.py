"""`Equations`: systems of equations from text and other forms, and back to text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from einbound.errors import EquationsError, SpaceError
from einbound.expr.einsum_script import read_script
from einbound.expr.equation_lines import read_system
from einbound.expr.equation_print import printed
from einbound.expr.equation_rules import checked
from einbound.expr.equation_shapes import shapes_of
from einbound.expr.equation_terms import read_terms
from einbound.expr.equations import Access, System
from einbound.expr.pdaggerq import read_pdaggerq
from einbound.forest.build import planted
from einbound.forest.export import exported
from einbound.space.document import read, written

_SCHEMA = "einbound.equations"


@dataclass(frozen=True, slots=True, repr=False)
class Equations:
    """A system of equations: targets, and the sums of products that make them.

    Immutable and hashable; `str` is text that parses to an equal system.

    Attributes:
        system: The equations as records.

    Raises:
        EquationsError: The system breaks a rule.

    Example:
        >>> import einbound as eb
        >>> pair = eb.Equations.parse("R[i,j] = P(i,j) A[i,k] B[k,j]")
        >>> print(pair)
        R[i,j] = A[i,k] B[k,j] - A[j,k] B[k,i]
        >>> eb.Equations.parse(str(pair)) == pair
        True
    """

    system: System

    def __post_init__(self) -> None:
        checked(self.system)

    @classmethod
    def parse(
        cls,
        text: str | Mapping[str, Any],
        sizes: Mapping[str, Any] | None = None,
        spaces: Mapping[str, Any] | None = None,
        tiles: Mapping[str, Any] | None = None,
    ) -> Equations:
        """The equations that a text, or a mapping as for `from_terms`, denotes.

        Args:
            text: Equations and declarations, as docs/equations.md has them.
            sizes: Extents by the name of a space, or by an index that is in no space.
            spaces: The indices of each space, such as {"occ": "i j k"}.
            tiles: By space or index, the width of tiles or their boundaries.

        Raises:
            EquationsError: The text breaks the grammar or a rule; the error points at the place.
            TypeError: Something is of another type.

        Example:
            >>> import einbound as eb
            >>> eb.Equations.parse("E = 1/4 V[ijab] T[abij]", sizes={"i": 2, "j": 2}).tensors
            ('V', 'T')
        """
        if isinstance(text, Mapping):
            return cls.from_terms(text, sizes=sizes, spaces=spaces, tiles=tiles)
        if not isinstance(text, str):
            raise TypeError(
                f"equations are {text!r} of type {type(text).__name__}; expected text, or a "
                "mapping of targets to lists of (number, einsum text, names)"
            )
        return cls(read_system(text, sizes=sizes, spaces=spaces, tiles=tiles))

    @classmethod
    def from_terms(
        cls,
        terms: Mapping[str, Any],
        *,
        sizes: Mapping[str, Any] | None = None,
        spaces: Mapping[str, Any] | None = None,
        tiles: Mapping[str, Any] | None = None,
        targets: Iterable[str] = (),
        volatile: Iterable[str] = (),
        streamed: Iterable[str] = (),
        computed: Iterable[str] = (),
    ) -> Equations:
        """The equations of a mapping from targets to lists of (number, einsum text, names).

        Args:
            terms: An entry may read earlier ones. Numbers are ints, floats, Fractions or complex.
            sizes: As for `parse`; so are `spaces` and `tiles`.
            spaces: The indices of each space.
            tiles: Tiles of spaces.
            targets: What is returned besides what no entry reads.
            volatile: Tensors that change with every evaluation.
            streamed: Tensors that are read block by block.
            computed: Tensors that are computed on demand.

        Raises:
            EquationsError: An einsum text makes no sense, or a rule is broken.
            TypeError: An entry is something else.

        Example:
            >>> import einbound as eb
            >>> terms = {"R": [(1.0, "Pac,Pbd,ijcd->ijab", ("B", "B", "T"))]}
            >>> print(eb.Equations.from_terms(terms))
            R[i,j,a,b] = B[P,a,c] B[P,b,d] T[i,j,c,d]
        """
        return cls(
            read_terms(
                terms,
                sizes=sizes,
                spaces=spaces,
                tiles=tiles,
                targets=targets,
                volatile=volatile,
                streamed=streamed,
                computed=computed,
            )
        )

    @classmethod
    def from_pdaggerq(
        cls,
        terms: Mapping[str, Any],
        *,
        names: Mapping[str, str] | None = None,
        spaces: Mapping[str, Any] | None = None,
        sizes: Mapping[str, Any] | None = None,
        tiles: Mapping[str, Any] | None = None,
        targets: Iterable[str] = (),
        volatile: Iterable[str] = (),
    ) -> Equations:
        """The equations of lists of terms as the p-dagger-q generator returns them.

        Args:
            terms: For each target, such as "R2[a,b,i,j]", the list of its terms; a term is a list
                of a number and factors, all as text.
            names: What tensors are called, beside the table in docs/equations.md; "{space}" in a
                name stands for the spaces of the indices.
            spaces: The indices of each space; "o" and "v" with the usual letters if left out.
            sizes: As for `parse`; so is `tiles`.
            tiles: Tiles of spaces.
            targets: What is returned besides what no equation reads.
            volatile: Tensors that change with every evaluation.

        Raises:
            EquationsError: A term makes no sense; the error points into it.
            TypeError: A term is no list of texts.

        Example:
            >>> import einbound as eb
            >>> terms = {"E": [["+0.25", "<i,j||a,b>", "t2(a,b,i,j)"]]}
            >>> eb.Equations.from_pdaggerq(terms).tensors
            ('eri_oovv', 't2')
        """
        return cls(
            read_pdaggerq(
                terms,
                names=names,
                spaces=spaces,
                sizes=sizes,
                tiles=tiles,
                targets=targets,
                volatile=volatile,
            )
        )

    @classmethod
    def from_einsum(
        cls,
        source: str,
        *,
        sizes: Mapping[str, Any] | None = None,
        spaces: Mapping[str, Any] | None = None,
        tiles: Mapping[str, Any] | None = None,
        targets: Iterable[str] = (),
        volatile: Iterable[str] = (),
    ) -> Equations:
        """The equations of a Python script whose lines are numpy.einsum calls; nothing is run.

        Args:
            source: Assignments, with `=`, `+=` or `-=`, of sums of numbers times einsum calls.
            sizes: As for `parse`; so are `spaces` and `tiles`.
            spaces: The indices of each space.
            tiles: Tiles of spaces.
            targets: What is returned besides what no line reads.
            volatile: Tensors that change with every evaluation.

        Raises:
            EquationsError: A line is something else; the error points into it.

        Example:
            >>> import einbound as eb
            >>> print(eb.Equations.from_einsum("r = 0.5 * np.einsum('ij,jk->ik', v[o, v], t)"))
            r[i,k] = 0.5 v_ov[i,j] t[j,k]
        """
        return cls(
            read_script(
                source,
                sizes=sizes,
                spaces=spaces,
                tiles=tiles,
                targets=targets,
                volatile=volatile,
            )
        )

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of what is returned, in order."""
        return self.system.targets

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors that must be given, in the order in which they are read."""
        return self.system.leaves

    @property
    def volatile(self) -> frozenset[str]:
        """The tensors that are declared to change with every evaluation."""
        return frozenset(each.name for each in self.system.declared if each.is_volatile)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor that must be given, as the spaces tell it.

        Raises:
            EquationsError: No extent is known for an axis.
        """
        return shapes_of(self.system)

    def access(self, name: str) -> Access:
        """How a tensor comes by its values."""
        for each in self.system.declared:
            if each.name == name:
                return each.access
        return Access.GIVEN

    def to_numpy(self, shapes: Mapping[str, tuple[int, ...]] | None = None) -> str:
        """Source of a function `evaluate` that computes the targets with numpy.einsum alone.

        Args:
            shapes: Of the tensors; those that the spaces tell if left out.

        Raises:
            EquationsError: A shape is not known, or does not fit.

        Example:
            >>> import einbound as eb
            >>> equations = eb.Equations.parse("R[i,k] = 2 A[i,j] B[j,k]")
            >>> print(equations.to_numpy({"A": (2, 3), "B": (3, 4)}).splitlines()[4])
                R = 2 * np.einsum("ij,jk->ik", A, B)
        """
        return exported(planted(self.system, self.shapes if shapes is None else shapes))

    def to_json(self) -> str:
        """The equations as a JSON text."""
        return written(_SCHEMA, {"text": str(self)})

    @classmethod
    def from_json(cls, text: str) -> Equations:
        """The equations that `to_json` wrote.

        Raises:
            EquationsError: The text is something else, or damaged.
        """
        try:
            return read(text, _SCHEMA, lambda fields: cls.parse(fields["text"]))
        except SpaceError as error:
            raise EquationsError(str(error)) from None

    def __str__(self) -> str:
        return printed(self.system)

    def __repr__(self) -> str:
        return f"Equations.parse({str(self)!r})"
