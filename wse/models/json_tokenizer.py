"""Reader of Hugging Face's tokenizer.json, through the tokenizers library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from wse.errors import BadModel
from wse.models.json_file import read_file
from wse.models.spec import ModelSpec
from wse.models.token_text import check_id, checked_text

FILE_LIMIT_BYTES: Final = 256 * 2**20
PADDING_FRACTION: Final = 0.01  # of a model's table that may have no token: tables are padded to round sizes
LONGEST_REASON: Final = 120  # characters of the library's message
REPLACEMENT: Final = "\ufffd"


class JsonTokenizer:
    """A tokenizer.json, run by the tokenizers library."""

    def __init__(self, path: Path, spec: ModelSpec) -> None:
        """Read the file; `BadModel` where it is damaged or of another vocabulary than ``spec``'s."""
        import tokenizers  # 20 ms, and only these models need it

        data = read_file(path, FILE_LIMIT_BYTES)
        try:
            self._library = tokenizers.Tokenizer.from_str(data.decode("utf-8"))
        except Exception as error:  # the library raises bare Exception
            reason = str(error)[:LONGEST_REASON]
            msg = f"{path}: not a tokenizer of the tokenizers library ({reason}); fetch the file again"
            raise BadModel(msg) from error
        self._library.no_truncation()
        self._library.no_padding()
        self._bos_id, self.table_size = spec.bos_token_id, spec.vocab_size
        added = self._library.get_added_tokens_decoder().items()
        self._silent_ids = {i for i, token in added if token.special} | set(spec.eos_token_ids)
        if spec.bos_token_id is not None:
            self._silent_ids.add(spec.bos_token_id)
        ids = self._library.get_vocab(with_added_tokens=True).values()
        self.vocab_size = max(ids, default=-1) + 1
        if not spec.vocab_size * (1 - PADDING_FRACTION) <= self.vocab_size <= spec.vocab_size:
            msg = (
                f"{path}: has {self.vocab_size:,} tokens, the model {spec.vocab_size:,}; "
                "use the tokenizer that belongs to the model"
            )
            raise BadModel(msg)

    def encode(self, text: str) -> list[int]:
        """See `Tokenizer.encode`."""
        start = [] if self._bos_id is None else [self._bos_id]
        ids: list[int] = self._library.encode(checked_text(text), add_special_tokens=False).ids
        return start + ids

    def decode(self, ids: Sequence[int]) -> str:
        """See `Tokenizer.decode`. An id of the table's padding has no text."""
        for i in ids:
            check_id(i, self.table_size)
        return str(self._library.decode([i for i in ids if self.has_text(i)]))

    def stream(self) -> WindowStream:
        """See `Tokenizer.stream`."""
        return WindowStream(self)

    def has_text(self, token_id: int) -> bool:
        """Whether the token adds text: neither a mark, such as begin and end, nor padding of the table."""
        return token_id not in self._silent_ids and self._library.id_to_token(token_id) is not None

    def is_byte(self, token_id: int) -> bool:
        """Whether the token is one raw byte, such as ``<0xE2>``."""
        piece = self._library.id_to_token(token_id)
        return piece is not None and len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")


class WindowStream:
    """Decodes a window that begins at the last text sent, so that the cost of a push does not grow.

    Text is held back while it ends in a replacement character or in raw byte tokens, of which the library
    decodes a whole run at once: the next id may still change it.
    """

    def __init__(self, tokenizer: JsonTokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._sent_count = 0  # leading ids of the window whose text was sent

    def push(self, token_id: int) -> str:
        """See `TextStream.push`."""
        check_id(token_id, self._tokenizer.table_size)
        if not self._tokenizer.has_text(token_id):
            return ""
        self._ids.append(token_id)
        text = self._unsent()
        if self._tokenizer.is_byte(token_id) or text.endswith(REPLACEMENT):
            return ""
        return self._send(text)

    def finish(self) -> str:
        """See `TextStream.finish`."""
        return self._send(self._unsent())

    def _unsent(self) -> str:
        sent = self._tokenizer.decode(self._ids[: self._sent_count])
        return self._tokenizer.decode(self._ids)[len(sent) :]

    def _send(self, text: str) -> str:
        if text:
            del self._ids[: self._sent_count]
            self._sent_count = len(self._ids)
        return text
