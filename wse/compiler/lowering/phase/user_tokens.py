"""Steps that run once per user or once per token: loops over users and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from wse.compiler.lowering.phase.context import Context
from wse.compiler.symbolic import SymAddress, SymBuffer, SymNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTokens:
    """Tokens that one iteration processes, if steps run once per user or once per token.

    Attributes:
        tokens: Number of tokens per iteration.
        is_loop: Whether there is a loop, with one token per iteration. Otherwise the steps process
            all tokens at once.
    """

    tokens: int
    is_loop: bool

    def at(self, tokens: SymBuffer | SymAddress, elements: int | SymNumber) -> SymAddress:
        """Return the address of the tokens that the current loop iteration processes.

        Args:
            tokens: Buffer of the tokens of all iterations, or the address of the first of them.
            elements: Elements per token.
        """
        at = SymAddress(buffer=tokens) if isinstance(tokens, SymBuffer) else tokens
        stride = SymNumber(fixed=elements) if isinstance(elements, int) else elements
        return replace(at, per_round=stride.fixed, per_slot_round=stride.per_slot) if self.is_loop else at


@contextmanager
def over_users(c: Context) -> Iterator[UserTokens]:
    """Repeat the steps that are added in a ``with`` block for each user.

    In decode with several users, the steps are put into a loop with one iteration per user. In
    other phases they run once, because the whole phase belongs to one user.

    Yields:
        A `UserTokens` with the number of tokens that the steps process in each iteration.
    """
    if c.decodes and c.options.batch > 1:
        with c.builder.loop(c.options.batch, over_users=True):
            yield UserTokens(tokens=1, is_loop=True)
    else:
        yield UserTokens(tokens=c.tokens, is_loop=False)


@contextmanager
def over_tokens(c: Context) -> Iterator[UserTokens]:
    """Repeat the steps that are added in a ``with`` block for each token.

    If there are several tokens, the steps are put into a loop with one iteration per token.

    Yields:
        A `UserTokens` with the number of tokens that the steps process in each iteration.
    """
    if c.tokens > 1:
        with c.builder.loop(c.tokens):
            yield UserTokens(tokens=1, is_loop=True)
    else:
        yield UserTokens(tokens=1, is_loop=False)
