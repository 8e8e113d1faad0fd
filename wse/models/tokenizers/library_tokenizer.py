"""A tokenizer run by the tokenizers library, whatever file its vocabulary came from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from wse.errors import BadModel
from wse.models.spec import ModelSpec
from wse.models.tokenizers.chat_template import ChatTemplate
from wse.models.tokenizers.token_text import check_id, checked_text

Library = Any  # tokenizers.Tokenizer, whose import takes 20 ms that only models with text spend

PADDING_FRACTION: Final = 0.01  # of a model's table that may have no token: tables are padded to round sizes
LONGEST_REASON: Final = 120  # characters of the library's message
REPLACEMENT: Final = "\ufffd"


class LibraryTokenizer:
    """A tokenizer of the tokenizers library, and the ids before and after every text."""

    end_ids: tuple[int, ...] = ()

    def __init__(
        self,
        library: Library,
        spec: ModelSpec,
        where: str,
        *,
        before: Sequence[int] = (),
        behind: Sequence[int] = (),
        rewrite: Callable[[str], str] = str,
        chat: ChatTemplate | None = None,
    ) -> None:
        """Take ``library`` as it is; `BadModel`, naming ``where``, if its vocabulary is another than ``spec``'s.

        ``before`` and ``behind`` are put around what the library gives, its post-processor included. ``rewrite`` is
        done to a whole text first: the library's own normalizer sees only stretches between special tokens.
        """
        self._library, self._before, self._behind, self._rewrite = library, tuple(before), tuple(behind), rewrite
        self.chat, self._where = chat, where
        library.no_truncation()
        library.no_padding()
        self.table_size = spec.vocab_size
        added = library.get_added_tokens_decoder().items()
        self._silent_ids = {i for i, token in added if token.special} | set(spec.eos_token_ids) | {*before, *behind}
        if spec.bos_token_id is not None:
            self._silent_ids.add(spec.bos_token_id)
        ids = library.get_vocab(with_added_tokens=True).values()
        self.vocab_size = max(ids, default=-1) + 1
        if not spec.vocab_size * (1 - PADDING_FRACTION) <= self.vocab_size <= spec.vocab_size:
            msg = (
                f"{where}: has {self.vocab_size:,} tokens, the model {spec.vocab_size:,}; "
                "use the tokenizer that belongs to the model"
            )
            raise BadModel(msg)

    def encode(self, text: str, *, bare: bool = False) -> list[int]:
        """See `Tokenizer.encode`."""
        whole = checked_text(text)
        ids: list[int] = build(
            lambda: self._library.encode(self._rewrite(whole), add_special_tokens=not bare).ids, self._where
        )
        return ids if bare else [*self._before, *ids, *self._behind]

    def decode(self, ids: Sequence[int]) -> str:
        """See `Tokenizer.decode`. An id of the table's padding has no text."""
        for i in ids:
            check_id(i, self.table_size)
        return str(self._library.decode([i for i in ids if self.has_text(i)]))

    def stream(self) -> WindowStream:
        """See `Tokenizer.stream`."""
        return WindowStream(self)

    def has_text(self, token_id: int) -> bool:
        """Return whether the token adds text: it is neither a special token nor padding of the table."""
        return token_id not in self._silent_ids and self._library.id_to_token(token_id) is not None

    def is_byte(self, token_id: int) -> bool:
        """Return whether the token is one raw byte, such as ``<0xE2>``."""
        piece = self._library.id_to_token(token_id)
        return piece is not None and is_byte(piece)


class WindowStream:
    """A decoder of a sliding window of ids, so that the cost of a push does not grow.

    Text is held back while it ends in a replacement character or in raw byte tokens, of which the library
    decodes a whole run at once: the next id may still change it.
    """

    def __init__(self, tokenizer: LibraryTokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._sent_count = 0  # leading ids of the window whose text was sent

    def push(self, token_id: int) -> str:
        """See `TextStream.push`."""
        check_id(token_id, self._tokenizer.table_size)
        if not self._tokenizer.has_text(token_id):
            return ""
        self._ids.append(token_id)
        text = self._unsent_text()
        if self._tokenizer.is_byte(token_id) or text.endswith(REPLACEMENT):
            return ""
        return self._send(text)

    def finish(self) -> str:
        """See `TextStream.finish`."""
        return self._send(self._unsent_text())

    def _unsent_text(self) -> str:
        sent = self._tokenizer.decode(self._ids[: self._sent_count])
        return self._tokenizer.decode(self._ids)[len(sent) :]

    def _send(self, text: str) -> str:
        if text:
            del self._ids[: self._sent_count]
            self._sent_count = len(self._ids)
        return text


def is_byte(piece: str) -> bool:
    """Return whether the text of a token stands for one raw byte."""
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


def build(make: Callable[[], Any], where: str) -> Any:
    """Return the object that ``make`` returns.

    Raises `BadModel` where the tokenizers library refuses its arguments.
    """
    try:
        return make()
    except BadModel:
        raise
    except BaseException as error:  # the library raises bare Exception, and its panics are no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = str(error)[:LONGEST_REASON]
        msg = f"{where}: not a tokenizer of the tokenizers library ({reason}); fetch the file again"
        raise BadModel(msg) from error
