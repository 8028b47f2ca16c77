"""Bytes, counts and columns as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def human_bytes(n_bytes: int) -> str:
    """A number of bytes in the largest binary unit that leaves at least 1.

    Example:
        >>> human_bytes(1000), human_bytes(3 * 2**29)
        ('1,000 B', '1.50 GiB')
    """
    unit = min(max(n_bytes.bit_length() - 1, 0) // 10, 6)
    if unit == 0:
        return f"{n_bytes:,} B"
    # Rounded in integers: sizes of wide networks overflow floats.
    hundredths = (n_bytes * 100 + (1 << (10 * unit - 1))) >> (10 * unit)
    return f"{hundredths // 100:,}.{hundredths % 100:02d} {'KMGTPE'[unit - 1]}iB"


def exact_bytes(n_bytes: int) -> str:
    """A number of bytes to the byte, with its human form beside it.

    Example:
        >>> exact_bytes(2048)
        '2,048 bytes (2.00 KiB)'
    """
    short = f" ({human_bytes(n_bytes)})" if n_bytes >= 1024 else ""
    return f"{n_bytes:,} bytes{short}"


def count(n: int) -> str:
    """A count with thousands separated; from 10**15 on, its leading digits and power.

    Example:
        >>> count(1234567), count(123456 * 10**400)
        ('1,234,567', '1.234e405')
    """
    if n < 10**15:
        return f"{n:,}"
    # Not through floats and not through all digits: counts of wide networks overflow both.
    power = 15
    while n >= 10 ** (power + 1):
        power += 1
    lead = n // 10 ** (power - 3)
    return f"{lead // 1000}.{lead % 1000:03d}e{power}"


def duration(seconds: float) -> str:
    """A time in the largest unit that leaves at least 1, three digits of it.

    Example:
        >>> duration(0.00123), duration(2e-7)
        ('1.23 ms', '0.2 us')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def columns(rows: Iterable[Sequence[str]], align: str) -> list[str]:
    """Rows as lines with aligned columns; `align` has "<" or ">" for each column."""
    rows = list(rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(align))]
    return [
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def ratio(part: int, whole: int) -> str:
    """How many times `whole` goes into `part`, for example "1.25x"."""
    hundredths = (100 * part + whole // 2) // whole
    return f"{hundredths // 100:,}.{hundredths % 100:02d}x"


def kept(used_bytes: int, n_bytes: int) -> str:
    """Whether a limit of `n_bytes` is kept, and by how much."""
    if used_bytes <= n_bytes:
        return f"kept with {human_bytes(n_bytes - used_bytes)} to spare"
    return f"NOT KEPT: {human_bytes(used_bytes - n_bytes)} too much"
