"""The tokenizer of a GGUF's vocabulary, run by the tokenizers library as transformers does.

Source: transformers, integrations/gguf/gguf_tokenizer_mapping.py; for what a file leaves unsaid llama.cpp's
src/llama-vocab.cpp.
"""

from __future__ import annotations

import math
from typing import Final

from wse.errors import BadModel, UnknownName
from wse.models.gguf.file import GgufFile
from wse.models.gguf.split_patterns import SPLITS
from wse.models.gguf.vocabulary import PREFIX, GgufVocabulary, read_vocabulary
from wse.models.spec import ModelSpec
from wse.models.tokenizers.chat_template import ChatTemplate
from wse.models.tokenizers.library_tokenizer import Library, LibraryTokenizer, built, is_byte
from wse.models.tokenizers.piece_library import (
    SPACE,
    Kind,
    Pieces,
    mark_pieces,
    merging_library,
    spell_spaces,
    unique_ids,
)

PIECES, BYTE_LEVEL = "llama", "gpt2"
UNSTATED_SPLIT: Final = "default"
NO_TOKENS: Final = ("none", "no_vocab")
# Of these architectures pieces merge in the order of their ids, whatever their scores, and no space precedes a text.
BY_ORDER: Final = frozenset({"gemma", "gemma2", "gemma3"})
# Of these a space is put before every stretch of text between special tokens, also where it begins with one.
SPACE_EVERYWHERE: Final = frozenset({"phi3"})
NAMED: Final = (("bos_token", "bos"), ("eos_token", "eos"), ("unk_token", "unknown"), ("pad_token", "padding"))


def gguf_tokenizer(gguf: GgufFile, spec: ModelSpec) -> LibraryTokenizer | None:
    """The tokenizer of a file, None where it has no tokens; errors as of `read_vocabulary` and `tokenizer_of`."""
    vocabulary = read_vocabulary(gguf)
    architecture = str(gguf.metadata.get("general.architecture", ""))
    if vocabulary is None or vocabulary.model in NO_TOKENS:
        return None
    return tokenizer_of(vocabulary, architecture, str(gguf.path), spec)


def tokenizer_of(v: GgufVocabulary, architecture: str, where: str, spec: ModelSpec) -> LibraryTokenizer:
    """The tokenizer of a vocabulary.

    Raises:
        BadModel: its parts do not make a tokenizer, or it is of another size than ``spec``'s.
        UnknownName: it is of another model than pieces and byte-level pairs, or text is split in an unknown way.
    """
    split = SPLITS.get(v.pre or UNSTATED_SPLIT)
    if v.model == BYTE_LEVEL:
        if split is None:
            raise UnknownName("tokenizer.ggml.pre", str(v.pre), SPLITS, where=where)
        begins = split.begins
        library = built(lambda: _byte_level(v, where), where)
    elif v.model == PIECES:
        begins = True
        library = built(lambda: _spelled(v, architecture, where), where)
    else:
        raise UnknownName("tokenizer.ggml.model", v.model, (PIECES, BYTE_LEVEL), where=where)
    wants = (("bos", v.flags.get("add_bos_token", begins)), ("eos", v.flags.get("add_eos_token", False)))
    before, behind = ([v.special_ids[name]] if wanted and name in v.special_ids else [] for name, wanted in wants)
    return LibraryTokenizer(library, spec, where, before=before, behind=behind, chat=_chat(v, where))


def _chat(v: GgufVocabulary, where: str) -> ChatTemplate | None:
    if v.chat_template is None:
        return None
    marks = tuple((mark, v.tokens[v.special_ids[name]]) for mark, name in NAMED if name in v.special_ids)
    end_of_turn = v.special_ids.get("eot")
    end_ids = () if end_of_turn is None else (end_of_turn,)
    return ChatTemplate(source=v.chat_template, where=where, marks=marks, end_ids=end_ids)


def _spelled(v: GgufVocabulary, architecture: str, where: str) -> Library:
    from tokenizers import normalizers

    by_order = architecture in BY_ORDER
    scores = [-float(i) for i in range(len(v.tokens))] if by_order else v.scores
    if scores is None or not all(map(math.isfinite, scores)):
        msg = f"{where}: {PREFIX}scores: every token of model {PIECES} has a finite one; fetch the file again"
        raise BadModel(msg)
    texts = [SPACE * len(t) if t and not t.strip(" ") else t for t in v.tokens]
    kinds = [Kind.BYTE if is_byte(t) else kind for t, kind in zip(texts, _kinds(v), strict=True)]
    unknown_id = v.special_ids.get("unknown", 0)
    pieces = Pieces(texts=texts, scores=scores, kinds=kinds, unknown_id=unknown_id, has_bytes=Kind.BYTE in kinds)
    library = merging_library(pieces, where)
    prefix = v.flags.get("add_space_prefix", not by_order)
    spell_spaces(library, prefix=prefix, every=False)
    if prefix and architecture in SPACE_EVERYWHERE:
        library.pre_tokenizer = None
        library.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    mark_pieces(library, texts, kinds)
    return library


def _byte_level(v: GgufVocabulary, where: str) -> Library:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    split = SPLITS[v.pre or UNSTATED_SPLIT]
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in v.merges or ())]
    library = Tokenizer(models.BPE(vocab=unique_ids(v.tokens, where), merges=merges, ignore_merges=split.whole_words))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in split.patterns),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    mark_pieces(library, v.tokens, _kinds(v))
    return library


def _kinds(v: GgufVocabulary) -> list[int]:
    return [Kind.NORMAL] * len(v.tokens) if v.types is None else v.types
