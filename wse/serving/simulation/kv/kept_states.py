"""KeptStates: states of linear attention at the ends of prefixes, kept for later prompts.

A layer with linear attention has a state instead of a KV cache. It has the same size for any number
of tokens, and cannot be shortened: a prompt can continue only where the state was kept. A machine
keeps the state at the end of each prompt's prefix. A request copies it, so it may be removed at any
time.
"""

from __future__ import annotations

from collections import OrderedDict


class KeptStates:
    """States of users and of the ends of prefixes, which share a limited room.

    Attributes:
        users: Number of admitted requests, each of which has a state of its own.
        state_room: Space of a state in the KV cache, in tokens; 0 if states are stored elsewhere.
    """

    def __init__(self, max_states: int | None, state_room: int) -> None:
        """Start without states.

        Args:
            max_states: Maximum number of states of users and prefixes; None for models without
                linear attention, which need no states.
            state_room: Space of a state in the KV cache, in tokens.
        """
        self.users, self.state_room = 0, state_room
        self._max_states = max_states
        self._blocks: OrderedDict[int, None] = OrderedDict()  # the block at the end of each prefix, oldest use first

    def __len__(self) -> int:
        """Return the number of states that are kept for later prompts."""
        return len(self._blocks)

    @property
    def are_needed(self) -> bool:
        """True if the model has linear attention, so that a prefix is useless without its state."""
        return self._max_states is not None

    @property
    def excess(self) -> int:
        """Number of states beyond the maximum; negative if there is room for more."""
        return 0 if self._max_states is None else self.users + len(self._blocks) - self._max_states

    @property
    def room(self) -> int:
        """Space in the KV cache that the kept states occupy, in tokens."""
        return self.state_room * len(self._blocks)

    @property
    def oldest(self) -> int:
        """The block whose state has been unused for the longest time."""
        return next(iter(self._blocks))

    def can_continue_after(self, block: int) -> bool:
        """Return whether a prompt can continue after a block without reading it again."""
        return not self.are_needed or block in self._blocks

    def use(self, block: int) -> None:
        """Keep the state at the end of a block, or record another use of it."""
        self._blocks[block] = None
        self._blocks.move_to_end(block)

    def remove(self, block: int) -> bool:
        """Remove the state at the end of a block. Return whether there was one."""
        is_kept = block in self._blocks
        self._blocks.pop(block, None)
        return is_kept
