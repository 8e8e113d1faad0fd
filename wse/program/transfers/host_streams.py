"""Streams to and from the host: the prompt, tokens, logits, and ids that the host drew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wse.program.steps import HOST
from wse.program.transfers.messages import EdgeStream, HostWords
from wse.program.transfers.transfer import Transfer, WaferPair


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStream(Transfer):
    """A stream between the host and a stage.

    Attributes:
        wafer: The wafer at whose edge words enter or leave.
        bytes: Payload without padding.
    """

    name: ClassVar[str] = "cross"
    by_place: ClassVar[bool] = True
    leaves_wafer: ClassVar[bool] = True
    carried: ClassVar[HostWords]
    inward: ClassVar[bool] = False
    """True if the host sends."""

    wafer: int
    bytes: int

    @property
    def messages(self) -> HostWords:
        """The words that go."""
        return self.carried

    @property
    def crossings(self) -> tuple[WaferPair, ...]:
        """The one crossing, between the wafer and the host."""
        return ((HOST, self.wafer) if self.inward else (self.wafer, HOST),)

    @property
    def crossing_bytes(self) -> int:
        """The stream's payload."""
        return self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensIn(HostStream):
    """A prompt's ids enter at the north-west PE of a region."""

    carried: ClassVar[HostWords] = HostWords.TOKENS_IN
    inward: ClassVar[bool] = True

    @property
    def host_round_trips(self) -> float:
        """Half of one for the first chunk: ids of later ones arrive while earlier ones are worked on."""
        return 0.5 if self.site.begins else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftIn(TokensIn):
    """The tokens of a pass over several of one user enter, a round trip after what the host drafted them from left."""

    @property
    def host_round_trips(self) -> float:
        """The one round trip between the ids or logits of the pass before and the tokens of this one."""
        return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOut(HostStream):
    """The next token ids leave from the north-west PE of a region while the next token is under way."""

    carried: ClassVar[HostWords] = HostWords.TOKEN_OUT

    @property
    def is_awaited(self) -> bool:
        """False: nobody waits."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsOut(HostStream):
    """Logits leave from the row where they were summed.

    Attributes:
        source_col: First column that sends, counted through all wafers of the stage.
        cols: Columns that send.
        first: Local vocabulary index of the first element.
    """

    carried: ClassVar[HostWords] = HostWords.LOGITS_OUT

    source_col: int
    cols: int
    first: int

    @property
    def edges(self) -> tuple[EdgeStream, ...]:
        """The row's columns on one wafer, all the way to its edge."""
        stage = self.site.placed_stage
        return (
            EdgeStream(
                wafer=self.wafer,
                rect=stage.rect,
                first_row=self.site.program.root_row,
                rows=1,
                first_col=self.source_col - (self.wafer - stage.wafer) * stage.rect.cols,
                cols=self.cols,
                words=self.words,
                leaving=True,
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnIn(TokensIn):
    """The ids that the host drew from the logits enter, a round trip after those left."""

    carried: ClassVar[HostWords] = HostWords.DRAWN_IN

    @property
    def host_round_trips(self) -> float:
        """The one round trip between logits and the id drawn from them."""
        return 1.0
