"""Pins: entries that no compaction takes away, whichever way it comes.

A pin is a label that begins with `pin`: the session keeps it already, pi shows it too, and it
holds on every branch that the entry is on. What stood there before as a label follows after a
colon, and comes back when the pin is taken out.
"""

from __future__ import annotations

from pi_nb.session.reader import SessionReader

PIN = "pin"


def is_pin(label: str | None) -> bool:
    """Whether a label is a pin's: `pin`, or `pin: something`."""
    return label is not None and (label == PIN or label.startswith(f"{PIN}:"))


def pin_label(label: str | None) -> str:
    """The label of an entry that is pinned, its former one kept."""
    if is_pin(label):
        return label or PIN
    return f"{PIN}: {label}" if label else PIN


def unpinned_label(label: str | None) -> str | None:
    """The label of an entry that is not pinned any more; None: it has none."""
    if label is None or not is_pin(label):
        return label
    return label.removeprefix(PIN).removeprefix(":").strip() or None


def pinned(session: SessionReader, lane: str = "main") -> frozenset[str]:
    """The pinned entries of a lane's branch, at the cost of the pins alone."""
    pins = [entry_id for entry_id, label in session.labels.items() if is_pin(label)]
    leaf = session.tip(lane)
    return frozenset(pin for pin in pins if session.common_ancestor(pin, leaf) == pin)
