"""Says when a session file has become heavy, and what makes it so.

Screenshots in base64 have made logs of gigabytes elsewhere (known fault S-12). Bodies stay
in the file until they are asked for, so such a session opens; but it takes its time, and
whoever looks at the diagnostics should learn why.
"""

from __future__ import annotations

from .index import Diagnostic, Index

HEAVY = 256 << 20
"""Bytes from which on a file is told of."""
LONG = 100_000
"""Bytes of a line that is more than talk: a picture, or output that was not cut."""


def too_heavy(index: Index, size: int, limit: int = HEAVY) -> tuple[Diagnostic, ...]:
    """A diagnostic `heavy_file` at the longest entry of a file of `size` bytes, where that is
    at least `limit`; nothing for a lighter one."""
    if size < limit:
        return ()
    lengths = {entry_id: index.place_of(entry_id).length for entry_id in index.tree}
    long = [length for length in lengths.values() if length >= LONG]
    text = f"the file has {size / 1e6:,.0f} MB"
    if long:
        share = 100 * sum(long) // size
        text += (
            f", {share} % of them in {len(long):,} of its {len(lengths):,} entries, which have "
            f"more than {LONG // 1000} kB each (pictures or long output)"
        )
    longest = max(lengths, key=lengths.__getitem__, default=None)
    line = index.line_of(longest) if longest is not None else 1
    return (Diagnostic(line, "heavy_file", text),)
