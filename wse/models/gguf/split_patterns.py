r"""Rules that split text before byte-level BPE, keyed by the pre-tokenizer name in a GGUF file.

A rule is a list of regular expressions. Each of them splits the parts that the previous ones left,
into matches and the text between matches.

Names are those of llama.cpp (src/llama-vocab.cpp). Expressions are those of the models' own
tokenizer.json, as quoted in llama.cpp: GPT-2 from github.com/openai/gpt-2 (src/encoder.py), Llama 3
and gpt-oss from github.com/openai/tiktoken (cl100k_base and o200k_base).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CONTRACTIONS: Final = "'s|'t|'re|'ve|'m|'ll|'d"
GPT_2: Final = rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
ONE_DIGIT: Final = r"\p{N}"
LINE_ENDS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(digits: str, letters: str = r"\p{L}") -> str:
    """Return a regular expression that splits a text into words, numbers, symbols and white space.

    A word may start with one symbol, and white space is split at line ends.

    Args:
        digits: Quantifier for the digits of a number, such as ``{1,3}``.
        letters: Pattern of a letter.
    """
    return (
        rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?{letters}+|\p{{N}}{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LINE_ENDS}"
    )


def _cased_words(contractions: str, digits: str) -> str:
    """Return a regular expression like `_words` that also splits words before a capital letter.

    Args:
        contractions: Pattern of a contraction such as ``'ll`` that belongs to its word.
        digits: Quantifier for the digits of a number, such as ``{1,3}``.
    """
    upper_case, lower_case = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{start}{upper_case}*{lower_case}+{contractions}|{start}{upper_case}+{lower_case}*{contractions}|\p{{N}}{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{LINE_ENDS}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A rule that splits text into pieces before byte-pair encoding (BPE) merges their bytes.

    Attributes:
        patterns: Regular expressions, applied in order.
        whole_words: Whether a piece that is itself a token stays one token, even if BPE merges
            would not produce it.
        adds_bos: Whether to start a sequence with the BOS token if the file does not specify it.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    adds_bos: bool = False


PLAIN: Final = Split(patterns=(GPT_2,))
DIGITS_APART: Final = Split(patterns=(ONE_DIGIT, GPT_2))
THREE_DIGITS: Final = _words("{1,3}")
LLAMA_3: Final = Split(patterns=(THREE_DIGITS,), whole_words=True, adds_bos=True)
QWEN_2: Final = Split(patterns=(_words(""),))
GPT_4O: Final = Split(patterns=(_cased_words(rf"(?i:{CONTRACTIONS})?", "{1,3}"),))
TEKKEN: Final = Split(patterns=(_cased_words("", ""),), whole_words=True, adds_bos=True)
DEEPSEEK_3: Final = Split(
    patterns=(
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
        rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{LINE_ENDS}",
    )
)

SPLITS: Final = {
    **dict.fromkeys(("default", "gpt-2", "phi-2", "mpt", "olmo", "jais", "granite-docling"), PLAIN),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva"), DIGITS_APART),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"), LLAMA_3),
    **dict.fromkeys(("glm4", "chatglm-bpe", "dbrx", "smaug-bpe"), Split(patterns=(THREE_DIGITS,))),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"), QWEN_2),
    **dict.fromkeys(("gpt-4o", "llama4"), GPT_4O),
    "tekken": TEKKEN,
    "deepseek-v3": DEEPSEEK_3,
}
