r"""Patterns that split text before the pairs of a byte-level vocabulary merge, by the name that a GGUF gives it.

A way is a list of regular expressions: each cuts what those before it left, matches and what is between them. Names are
those of llama.cpp (src/llama-vocab.cpp), expressions those of the models' own tokenizer.json, which llama.cpp quotes:
GPT-2's is of github.com/openai/gpt-2 (src/encoder.py), Llama 3's of github.com/openai/tiktoken (cl100k_base), that of
gpt-oss from there (o200k_base).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CONTRACTIONS: Final = "'s|'t|'re|'ve|'m|'ll|'d"
GPT_2: Final = rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
ONE_DIGIT: Final = r"\p{N}"
LINE_ENDS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def _words(digits: str, letters: str = r"\p{L}") -> str:
    """Return the words with one sign before them, numbers of so many digits, runs of signs, white space by lines."""
    return (
        rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?{letters}+|\p{{N}}{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{LINE_ENDS}"
    )


def _cased_words(contractions: str, digits: str) -> str:
    """Return the words that end before a capital, with their contraction."""
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{start}{upper}*{lower}+{contractions}|{start}{upper}+{lower}*{contractions}|\p{{N}}{digits}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{LINE_ENDS}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A way to split text: its patterns in their order.

    ``whole_words``: a stretch that is a token stays one, whether its pairs would merge to it or not. ``begins``: a text
    begins with the begin token where the file does not say.
    """

    patterns: tuple[str, ...]
    whole_words: bool = False
    begins: bool = False


PLAIN: Final = Split(patterns=(GPT_2,))
DIGITS_APART: Final = Split(patterns=(ONE_DIGIT, GPT_2))
THREE_DIGITS: Final = _words("{1,3}")
LLAMA_3: Final = Split(patterns=(THREE_DIGITS,), whole_words=True, begins=True)
QWEN_2: Final = Split(patterns=(_words(""),))
GPT_4O: Final = Split(patterns=(_cased_words(rf"(?i:{CONTRACTIONS})?", "{1,3}"),))
TEKKEN: Final = Split(patterns=(_cased_words("", ""),), whole_words=True, begins=True)
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
