"""PrefixTree: the beginnings that prompts have in common, as a tree of blocks.

A *block* is a number of consecutive prompt tokens. Its position in the tree identifies all tokens
from the start of the prompt to the end of the block, as a chain of block hashes does. Two prompts
share exactly the blocks on the common part of their paths from a root.

`PrefixUse` counts the prompt tokens that a machine did not read, by the place where it found them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wse.arrays import I64

NO_PREFIX: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrefixTree:
    """Tree of the prefixes of prompts, which are divided into blocks of tokens.

    Prompts that begin with the same tokens share the blocks of these tokens.

    Attributes:
        parent: Index of the preceding block, or NO_PREFIX for a first block, int64 [blocks].
        end_tokens: Tokens from the start of the prompt to the end of the block, int64 [blocks].
    """

    parent: I64
    end_tokens: I64

    @staticmethod
    def tree_and_last_blocks(texts: I64, tokens: I64) -> tuple[PrefixTree, I64]:
        """Build the tree for prompts that each start with the first tokens of one of several texts.

        The texts have no tokens in common. For example, if one prompt starts with 100 tokens of a
        text and another with 300 tokens of the same text, they share the first 100 tokens.

        Args:
            texts: Index of the text with which each prompt starts, int64 [requests].
            tokens: Number of tokens that each prompt takes from its text, at least 0, int64
                [requests].

        Returns:
            The tree, and for each prompt the index of the last block taken from its text (NO_PREFIX
            if no token is taken), int64 [requests].
        """
        parts, blocks = np.unique(np.stack([texts, tokens], axis=1), axis=0, return_inverse=True)
        has_parent = np.diff(parts[:, 0], prepend=NO_PREFIX) == 0
        parent = np.where(has_parent, np.arange(len(parts)) - 1, NO_PREFIX)
        return PrefixTree(parent=parent, end_tokens=parts[:, 1]), np.where(tokens > 0, blocks.reshape(-1), NO_PREFIX)

    def reusable_tokens(self, multiple: int) -> list[int]:
        """Return the tokens from the start of a prompt to the end of each block, rounded down.

        Args:
            multiple: Number of tokens to a multiple of which the result is rounded.
        """
        reusable_tokens: list[int] = (self.end_tokens // multiple * multiple).tolist()
        return reusable_tokens

    def tokens(self, blocks: I64) -> I64:
        """Return the prefix length in tokens that ends with each of ``blocks``, int64 [blocks].

        The length counts all tokens from the start of the prompt. It is 0 for NO_PREFIX.
        """
        return np.append(self.end_tokens, 0)[blocks]


def path_to(block: int, parents: Sequence[int]) -> list[int]:
    """Return the indices of the blocks on the path from a root of a tree to a block, both included.

    Args:
        block: The last block of the path; with NO_PREFIX, the path is empty.
        parents: Parent of each block of the tree.
    """
    blocks: list[int] = []
    while block != NO_PREFIX:
        blocks.append(block)
        block = parents[block]
    return blocks[::-1]


class PrefixTreeBuilder:
    """Builder of a `PrefixTree` from prompts that are given as hashes of their token blocks."""

    def __init__(self) -> None:
        """Create an empty tree."""
        self._blocks: dict[tuple[int, Hashable], int] = {}
        self._parent: list[int] = []
        self._end_tokens: list[int] = []

    def __len__(self) -> int:
        """Return the number of blocks so far."""
        return len(self._parent)

    def add(self, hashes: Sequence[Hashable], block_tokens: int) -> int:
        """Add the blocks of a prompt to the tree, except those that it already contains.

        Args:
            hashes: Hash of each block of the prompt, from its start.
            block_tokens: Tokens per block.

        Returns:
            Index of the prompt's last block in the tree, or NO_PREFIX if there are no hashes.
        """
        block = NO_PREFIX
        for position, block_hash in enumerate(hashes, start=1):
            key = (block, block_hash)
            known_block = self._blocks.setdefault(key, len(self._parent))
            if known_block == len(self._parent):
                self._parent.append(block)
                self._end_tokens.append(position * block_tokens)
            block = known_block
        return block

    def tree(self, first_block: int = 0) -> PrefixTree:
        """Return the tree of all blocks so far, or the part of it that was added last.

        Args:
            first_block: Index of the first block to include. Parents have the same indices as in
                the whole tree.
        """
        parent, end_tokens = (np.array(values[first_block:], np.int64) for values in (self._parent, self._end_tokens))
        return PrefixTree(parent=parent, end_tokens=end_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixUse:
    """Reuse of stored prefixes of prompts by a simulated machine, summed over all requests.

    A machine does not process the tokens of a prompt's start again if it still stores their keys
    and values, in its KV cache or in a tier (a memory outside the KV cache).

    Attributes:
        hits: Number of prompts of which at least the first block was reused.
        cached_tokens: Number of prompt tokens that were found in the KV cache.
        loaded_tokens: For each tier, the number of prompt tokens that were loaded from it.
        loaded_states: For each tier, the number of states of linear attention loaded from it.
        parked_tokens: For each tier, the number of tokens that were copied to it.
        known_tokens: Number of prompt tokens that the same machine had processed before, as part
            of an earlier prompt.
    """

    hits: int = 0
    cached_tokens: int = 0
    loaded_tokens: tuple[int, ...] = ()
    loaded_states: tuple[int, ...] = ()
    parked_tokens: tuple[int, ...] = ()
    known_tokens: int = 0

    @property
    def saved_tokens(self) -> int:
        """Tokens that did not have to be read."""
        return self.cached_tokens + sum(self.loaded_tokens)

    @property
    def recomputed_tokens(self) -> int:
        """Number of prompt tokens that the machine processed more than once.

        The keys and values of these tokens were no longer stored, or loading them from a tier would
        have taken longer.
        """
        return self.known_tokens - self.saved_tokens

    @staticmethod
    def total(uses: Iterable[PrefixUse]) -> PrefixUse:
        """Add up the counts of one or more machines, all of which have the same tiers.

        A tier is a memory outside the KV cache.
        """
        all_uses = list(uses)
        return PrefixUse(
            hits=sum(use.hits for use in all_uses),
            cached_tokens=sum(use.cached_tokens for use in all_uses),
            loaded_tokens=tuple(map(sum, zip(*(use.loaded_tokens for use in all_uses), strict=True))),
            loaded_states=tuple(map(sum, zip(*(use.loaded_states for use in all_uses), strict=True))),
            parked_tokens=tuple(map(sum, zip(*(use.parked_tokens for use in all_uses), strict=True))),
            known_tokens=sum(use.known_tokens for use in all_uses),
        )


NO_PREFIXES: Final = PrefixUse()
"""Use of a machine that keeps no prefixes."""
