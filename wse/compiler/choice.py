"""Choice: the decisions that the compiler makes by trying alternatives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from wse_mappings.regions.layout import Layout

Rewrites = tuple[tuple[str, int], ...]
"""Names of rewrites, each with its setting. The setting of a rewrite without settings is 1."""


class TreeSize(NamedTuple):
    """Size of a K-tree all-reduce: the length of its line of PEs, and the size of its messages.

    A K-tree sums values over the PEs of a line: first within groups of PEs, then among the groups.
    The best number of groups depends on this size, so a search chooses one number of groups for all
    all-reduces of the same size.

    Attributes:
        phase: Name of the phase: ``prefill``, ``decode`` or ``verify``.
        pes: Number of PEs in the longest line segment that the all-reduce adds up.
        bytes: Message size in bytes with an empty KV cache. If messages contain an entry for each
            (token, expert) pair of a column of PEs, the size for the maximum number of pairs.
        bytes_per_slot: Additional bytes for each KV-cache slot in use.
        bytes_per_pair: Bytes to subtract for each (token, expert) pair below the maximum.
        pes_before, pes_after: Number of PEs before and after the segment that also receive the
            sums.
    """

    phase: str
    pes: int
    bytes: int
    bytes_per_slot: int
    bytes_per_pair: int
    pes_before: int = 0
    pes_after: int = 0


Trees = tuple[tuple[TreeSize, int], ...]
"""All-reduce sizes, each with the number of groups of its trees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The decisions that the compiler makes by trying alternatives, as opposed to `Options`.

    Attributes:
        bands: Number of bands, one below the other, into which the mesh is divided.
        per_band: Maximum number of regions side by side in a band.
        mesh: Rows and columns of the part of each mesh that is used; None for the whole mesh.
        is_transposed: Whether the mesh is transposed, so that rows of regions run along its
            columns.
        prefill: Matrix product of prefill, one of ``PREFILL_PRODUCTS``.
        prefill_chunk: Number of prompt tokens that are processed together.
        head_chunk: Number of vocabulary entries per column whose logits are computed at a time.
        rewrites: Rewrites of the steps of layers, with their settings.
        verify_rewrites: Rewrites for verification passes; None to use the same rewrites.
        trees: Number of groups for all-reduces of certain sizes. All other all-reduces have the
            number with the fewest relays.
        block_parts: Number of parts into which feed-forward blocks may be split. Stages may then
            begin and end between attention and these parts. 0 keeps layers whole.
        attention_cols: Maximum number of columns for attention, in the middle of each region; 0 for
            all columns.
    """

    bands: int = 1
    per_band: int = 1
    mesh: tuple[int, int] | None = None
    is_transposed: bool = False
    prefill: str
    prefill_chunk: int
    head_chunk: int
    rewrites: Rewrites = ()
    verify_rewrites: Rewrites | None = None
    trees: Trees = ()
    block_parts: int = 0
    attention_cols: int = 0

    def layout(self, mapping: str) -> Layout:
        """Return the layout of this choice: how the wafers are divided into regions.

        Args:
            mapping: Name of the mapping strategy.
        """
        return Layout(
            mapping, self.bands, self.per_band, self.is_transposed, mesh=self.mesh, block_parts=self.block_parts
        )

    @property
    def rewrites_of_verification(self) -> Rewrites:
        """Rewrites for verification passes, with their settings."""
        return self.rewrites if self.verify_rewrites is None else self.verify_rewrites

    def without_rewrite(self, rewrite: str) -> Choice:
        """Return a copy without one of the rewrites."""
        rewrites, verify_rewrites = (
            None if settings is None else tuple(setting for setting in settings if setting[0] != rewrite)
            for settings in (self.rewrites, self.verify_rewrites)
        )
        return replace(self, rewrites=rewrites or (), verify_rewrites=verify_rewrites)

    def with_rewrite(self, rewrite: str, setting: int = 1) -> Choice:
        """Return a copy that uses a rewrite in all phases, replacing its setting if it is used already.

        Args:
            rewrite: Name of the rewrite, which is listed after all other rewrites.
            setting: Setting of the rewrite.
        """
        choice, new_rewrite = self.without_rewrite(rewrite), ((rewrite, setting),)
        verify_rewrites = None if choice.verify_rewrites is None else choice.verify_rewrites + new_rewrite
        return replace(choice, rewrites=choice.rewrites + new_rewrite, verify_rewrites=verify_rewrites)

    def uses(self, rewrite: str) -> bool:
        """Return whether a rewrite is used in any phase (prefill, decode or verification passes).

        A rewrite changes the steps of a layer to save cycles.
        """
        return any(name == rewrite for name, _ in (*self.rewrites, *self.rewrites_of_verification))

    def setting_of(self, rewrite: str) -> int:
        """Return the setting of a rewrite in prefill and decode; 0 if they do not use the rewrite.

        A rewrite changes the steps of a layer to save cycles. Its setting is an integer whose
        meaning depends on the rewrite.
        """
        return dict(self.rewrites).get(rewrite, 0)

    def always_uses(self, rewrite: str) -> bool:
        """Return whether a rewrite is used in all phases (prefill, decode and verification passes).

        A rewrite changes the steps of a layer to save cycles.
        """
        phase_rewrites = self.rewrites, self.rewrites_of_verification
        return all(any(name == rewrite for name, _ in rewrites) for rewrites in phase_rewrites)
