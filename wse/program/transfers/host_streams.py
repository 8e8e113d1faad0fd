"""Transfers to and from the host: prompts, token ids, logits, and ids that the host sampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wse.program.steps import HOST
from wse.program.transfers.messages import EdgeStream, HostWords
from wse.program.transfers.transfer import Transfer, WaferPair


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStream(Transfer):
    """Transfer between the host computer and a stage (a region of PEs with its layers).

    Attributes:
        wafer: Index of the wafer at whose edge the words enter or leave.
        bytes: Payload in bytes, excluding padding.
    """

    name: ClassVar[str] = "cross"
    by_place: ClassVar[bool] = True
    leaves_wafer: ClassVar[bool] = True
    words_type: ClassVar[HostWords]
    inward: ClassVar[bool] = False
    """True if the host is the sender."""

    wafer: int
    bytes: int

    @property
    def messages(self) -> HostWords:
        """Kind of data that the host sends or receives, such as logits."""
        return self.words_type

    @property
    def crossings(self) -> tuple[WaferPair, ...]:
        """A single pair (sender, receiver): the index of the wafer, and -1 for the host."""
        return ((HOST, self.wafer) if self.inward else (self.wafer, HOST),)

    @property
    def crossing_bytes(self) -> int:
        """Payload of the transfer in bytes."""
        return self.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensIn(HostStream):
    """Transfer of a prompt's token ids from the host to the north-west PE of a region."""

    words_type: ClassVar[HostWords] = HostWords.TOKENS_IN
    inward: ClassVar[bool] = True

    @property
    def host_round_trips(self) -> float:
        """Number of round trips to the host for which a prompt chunk waits: 0.5 or 0.

        The first chunk waits until its token ids have arrived, which is half a round trip. The ids
        of later chunks arrive while earlier chunks are processed.
        """
        return 0.5 if self.site.begins else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftIn(TokensIn):
    """Transfer of draft tokens from the host, which a verification pass of the model checks."""

    @property
    def host_round_trips(self) -> float:
        """Number of round trips to the host for which the pass waits, always 1.

        The output of the previous pass travels to the host, which drafts tokens and sends them
        back.
        """
        return 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOut(HostStream):
    """Transfer of the next token ids to the host, from the north-west PE of a region.

    The computation of the next tokens does not wait for this transfer.
    """

    words_type: ClassVar[HostWords] = HostWords.TOKEN_OUT

    @property
    def is_awaited(self) -> bool:
        """Always False: the phase does not wait until the token ids have arrived at the host."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsOut(HostStream):
    """Transfer of logits to the host, from the row of PEs where they were summed.

    Attributes:
        source_col: First sending column, numbered through all wafers of the stage.
        cols: Number of sending columns.
        first: Index of the first logit that each column sends, counted from the start of the part
            of the vocabulary that the column stores.
    """

    words_type: ClassVar[HostWords] = HostWords.LOGITS_OUT

    source_col: int
    cols: int
    first: int

    @property
    def edges(self) -> tuple[EdgeStream, ...]:
        """Paths of the logits from the sending columns of PEs to the edge of the wafer."""
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
    """Transfer of the next token ids from the host to the wafer.

    The host has sampled these ids from the logits that it received from the wafer.
    """

    words_type: ClassVar[HostWords] = HostWords.SAMPLED_IN

    @property
    def host_round_trips(self) -> float:
        """Number of round trips to the host for which the phase waits, always 1.

        The logits travel to the host, which samples token ids and sends them back.
        """
        return 1.0
