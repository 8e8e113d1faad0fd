"""The tokenizer of a GGUF's vocabulary, run by the tokenizers library as transformers does.

Source: transformers, integrations/gguf/gguf_tokenizer_mapping.py.
"""

from __future__ import annotations

from typing import Final

from wse.errors import UnknownName
from wse.models.chat_template import ChatTemplate
from wse.models.gguf_vocabulary import GgufVocabulary
from wse.models.library_tokenizer import Library, LibraryTokenizer, built, is_byte
from wse.models.piece_library import SPACE, Kind, Pieces, mark_pieces, merging_library, spell_spaces, unique_ids
from wse.models.spec import ModelSpec
from wse.models.split_patterns import SPLITS

# Of these architectures pieces merge in the order of their ids, whatever their scores, and no space precedes a text.
BY_ORDER: Final = frozenset({"gemma", "gemma2", "gemma3"})
# Of these a space is put before every stretch of text between special tokens, also where it begins with one.
SPACE_EVERYWHERE: Final = frozenset({"phi3"})


def gguf_tokenizer(vocabulary: GgufVocabulary, spec: ModelSpec) -> LibraryTokenizer:
    """The tokenizer of ``vocabulary``.

    Raises:
        BadModel: its parts do not make a tokenizer, or it is of another size than ``spec``'s.
        UnknownName: text is to be split in a way that we do not know.
    """
    v, where = vocabulary, vocabulary.where
    if v.model == "gpt2":
        if v.split not in SPLITS:
            raise UnknownName("tokenizer.ggml.pre", v.split, SPLITS, where=where)
        begins = SPLITS[v.split].begins
        library = built(lambda: _byte_level(v), where)
    else:
        begins = True
        library = built(lambda: _spelled(v), where)
    wants = ((v.bos_id, begins if v.add_bos is None else v.add_bos), (v.eos_id, bool(v.add_eos)))
    before, behind = ([i] if i is not None and wanted else [] for i, wanted in wants)
    return LibraryTokenizer(library, spec, where, before=before, behind=behind, chat=_chat(v))


def _chat(v: GgufVocabulary) -> ChatTemplate | None:
    if v.chat_template is None:
        return None
    named = (("bos_token", v.bos_id), ("eos_token", v.eos_id), ("unk_token", v.unknown_id))
    marks = tuple((name, v.texts[i]) for name, i in named if i is not None)
    end_ids = () if v.end_of_turn_id is None else (v.end_of_turn_id,)
    return ChatTemplate(source=v.chat_template, where=v.where, marks=marks, end_ids=end_ids)


def _spelled(v: GgufVocabulary) -> Library:
    from tokenizers import normalizers

    texts = [SPACE * len(t) if t and not t.strip(" ") else t for t in v.texts]
    kinds = [Kind.BYTE if is_byte(t) else kind for t, kind in zip(texts, v.kinds, strict=True)]
    by_order = v.architecture in BY_ORDER
    scores = [-float(i) for i in range(len(texts))] if by_order else v.scores
    pieces = Pieces(texts=texts, scores=scores, kinds=kinds, unknown_id=v.unknown_id or 0, has_bytes=Kind.BYTE in kinds)
    library = merging_library(pieces, v.where)
    prefix = not by_order if v.prefix is None else v.prefix
    spell_spaces(library, prefix=prefix, every=False)
    if prefix and v.architecture in SPACE_EVERYWHERE:
        library.pre_tokenizer = None
        library.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    mark_pieces(library, texts, kinds)
    return library


def _byte_level(v: GgufVocabulary) -> Library:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    split = SPLITS[v.split]
    merges = [(left, right) for left, _, right in (merge.partition(" ") for merge in v.merges)]
    library = Tokenizer(models.BPE(vocab=unique_ids(v.texts, v.where), merges=merges, ignore_merges=split.whole_words))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [
            *(pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in split.patterns),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    library.decoder = decoders.ByteLevel()
    mark_pieces(library, v.texts, v.kinds)
    return library
