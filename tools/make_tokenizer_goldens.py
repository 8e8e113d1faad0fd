"""Write ``tests/data/text/tokenizers.json``: token ids by transformers and sentencepiece.

    pip install "transformers>=5" sentencepiece protobuf; python tools/make_tokenizer_goldens.py

Each case has a small vocabulary, trained here, and the token ids of every text. The vocabulary is
stored as files of a model folder (``.model`` files in base64) or as metadata of a GGUF file. Long
values are stored once, in the list ``shared``. Cases refer to them as ``{"shared": index}``.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "tests" / "data" / "text" / "tokenizers.json"
CORPUS = [
    "Once upon a time there was a small wafer, and every day it counted to 1234567.",
    "She said: 'I'll go, you've seen it; they're HERE!' and (of course) it wasn't so...",
    "def f(x):\n    return x + 10  # naïve, café, Straße\n\n\nprint(f(2025))\t'q'",
    "北京 東京 日本語 한국어 Привет мир 😀👍🏽 ﬁne Ａ½ ²",
    "MiXeD cAsE HelloWorld fooBar2baz a1b22c333d4444 1,234.56 -- a/b/c <b>",
] * 3
TEXTS = [
    "Once upon a time",
    "",
    " two  spaces   three ",
    "I'll GO'LL there're 12 123 1234 12345",
    "naïve café Straße ﬁne",
    "北京x日本語 한국어 Привет 😀👍🏽",
    "line\nbreaks\r\n\n  and\ttabs \n",
    "a/b/c HelloWorldFoo x²½ <0x41>",
    "print(f'{x:>10}')!!! ...",
    "<s>[INST] hi [/INST] there</s><s> again",
    "@@x @@ y<|user|> z <unk>",
    "▁x ▁ é e\u0301",
]
PLAIN = TEXTS[:9]  # texts without special tokens, which transformers recognises and sentencepiece does not
CONTROL = ["<|user|>"]
USER_DEFINED = ["@@"]
SHARED_CHARACTERS = 500
SPLITS = ("llama-bpe", "qwen2", "gpt-4o", "tekken", "default")  # GGUF split rules that transformers supports as well


def sentencepiece_bytes(**options: Any) -> bytes:
    """Train a sentencepiece model on the corpus and return its ``.model`` file."""
    import sentencepiece

    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=out,
        minloglevel=2,
        user_defined_symbols=USER_DEFINED,
        **options,
    )
    return out.getvalue()


def folder_with(files: Mapping[str, str | bytes], model_type: str, folder: Path) -> Path:
    """Write a config.json and the given files into a folder, and return the folder."""
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    for name, content in files.items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def auto_tokenizer(files: Mapping[str, str | bytes], model_type: str = "llama") -> Callable[[str], list[int]]:
    """Return the function with which transformers' AutoTokenizer encodes texts for these files."""
    from transformers import AutoTokenizer

    with tempfile.TemporaryDirectory() as folder:
        tokenizer = AutoTokenizer.from_pretrained(folder_with(files, model_type, Path(folder)))
    return lambda text: list(tokenizer.encode(text))


def spelled_json() -> str:
    """Return a tokenizer.json like that of Llama 2.

    Spaces are written as ▁, unknown characters are encoded as bytes, and every text starts with a
    begin token.
    """
    import tokenizers
    from tokenizers import decoders, models, normalizers, processors, trainers

    trained = tokenizers.Tokenizer(models.BPE())
    trained.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    marks = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=380, special_tokens=marks, limit_alphabet=45, show_progress=False)
    trained.train_from_iterator(CORPUS, trainer)
    model = json.loads(trained.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    library = tokenizers.Tokenizer(
        models.BPE(model["vocab"], merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    library.normalizer = trained.normalizer
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    library.add_special_tokens(marks[:3])
    return str(library.to_str())


def byte_level_json(begin: str, *, regex: bool) -> str:
    """Return a byte-level tokenizer.json.

    It is trained without splitting the corpus into words, so its tokens can span several words.
    Different rules for splitting texts therefore result in different ids.

    Args:
        begin: If not empty, every encoded text starts with the token ``<s>``.
        regex: Whether texts are split by GPT-2's regular expression before encoding.
    """
    import tokenizers
    from tokenizers import decoders, models, pre_tokenizers, processors, trainers

    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<s>", "</s>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        max_token_length=6,
        show_progress=False,
    )
    library.train_from_iterator(CORPUS, trainer)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    library.decoder = decoders.ByteLevel()
    bytes_alone = processors.ByteLevel(trim_offsets=False)
    template = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    library.post_processor = processors.Sequence([bytes_alone, template]) if begin else bytes_alone
    return str(library.to_str())


def json_cases() -> list[dict[str, Any]]:
    """Return the cases that are folders with a tokenizer.json, with ids by transformers."""
    spelled = spelled_json()
    config = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    declared = config | {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True}
    plain = byte_level_json("", regex=True)
    qwen = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "add_bos_token": True}
    forms = {
        "spelled": (spelled, None),
        "spelled, a class named": (spelled, declared | {"legacy": False}),
        "spelled, a class named, legacy": (spelled, declared | {"legacy": True}),
        "spelled, no space before": (spelled, declared | {"add_prefix_space": False}),
        "spelled, tokens added": (
            spelled,
            config
            | {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "added_tokens_decoder": {
                    "380": {"content": "[INST]", "special": True, "normalized": False},
                    "381": {"content": "@@", "special": False, "normalized": False, "rstrip": True},
                },
            },
        ),
        "byte level, begin in the template": (byte_level_json("<s>", regex=True), None),
        "byte level, begin only in the config": (plain, qwen),
        "byte level, alone": (plain, None),
    }
    cases = []
    for name, (text, stated) in forms.items():
        files = {"tokenizer.json": text} | ({} if stated is None else {"tokenizer_config.json": json.dumps(stated)})
        cases.append({"name": name, "files": files, "ids": ids_of(auto_tokenizer(files))})
    return cases


def sentencepiece_cases() -> list[dict[str, Any]]:
    """Return the cases that are folders with a tokenizer.model.

    The ids are those of sentencepiece, or of transformers' LlamaTokenizer.
    """
    import sentencepiece
    from transformers import LlamaTokenizer

    pairs = sentencepiece_bytes(
        vocab_size=400,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=0.98,
        control_symbols=CONTROL,
    )
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rules.write_text("FB01\t66 69\nFF21\t41\nE9\t65 301\n9\t20\nA\t20\nD\t20\n")
        unigram = sentencepiece_bytes(
            vocab_size=110, model_type="unigram", normalization_rule_tsv=str(rules), character_coverage=0.98
        )
    cases = []
    for name, data in (("pairs", pairs), ("unigram", unigram)):
        own = sentencepiece.SentencePieceProcessor(model_proto=data)
        files: dict[str, Any] = {"tokenizer.model": data}
        # Before a text that begins with a space, sentencepiece adds another one, LlamaTokenizer
        # does not. wse follows LlamaTokenizer for pairs and sentencepiece for unigram models.
        texts = [text for text in PLAIN if name == "unigram" or not text.startswith(" ")]
        cases.append({"name": f"sentencepiece, {name}", "files": files, "ids": ids_of(own.encode, texts)})
    for stated in ({}, {"add_bos_token": True, "add_eos_token": True, "legacy": True}):
        files = {"tokenizer.model": pairs, "tokenizer_config.json": json.dumps(stated)}
        with tempfile.TemporaryDirectory() as folder:
            theirs = LlamaTokenizer.from_pretrained(folder_with(files, "llama", Path(folder)))
        cases.append({"name": f"transformers, pairs {stated}", "files": files, "ids": ids_of(theirs.encode)})
    for case in cases:
        encoded = base64.b64encode(case["files"]["tokenizer.model"]).decode("ascii")
        case["files"] = case["files"] | {"tokenizer.model": encoded}
    return cases


def gguf_cases() -> list[dict[str, Any]]:
    """Return the cases that are metadata of GGUF files, with ids by transformers' GGUF reader."""
    from transformers.convert_slow_tokenizer import import_protobuf
    from transformers.integrations.gguf.gguf_tokenizer_mapping import convert_gguf_tokenizer

    proto = import_protobuf().ModelProto()
    proto.ParseFromString(base64.b64decode(sentencepiece_cases()[0]["files"]["tokenizer.model"]))
    spelled: dict[str, Any] = {
        "model": "llama",
        "tokens": [piece.piece for piece in proto.pieces],
        "scores": [float(piece.score) for piece in proto.pieces],
        "token_type": [int(piece.type) for piece in proto.pieces],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }
    model = json.loads(byte_level_json("", regex=False))["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    level: dict[str, Any] = {
        "model": "gpt2",
        "tokens": tokens,
        "token_type": [3 if i < 3 else 1 for i in range(len(tokens))],
        "merges": [" ".join(merge) for merge in model["merges"]],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "add_bos_token": False,
    }
    forms = [(architecture, dict(spelled)) for architecture in ("llama", "phi3")]
    forms.append(("gemma2", spelled | {"add_space_prefix": False}))
    forms += [("llama", level | {"pre": split}) for split in SPLITS]
    cases = []
    for architecture, values in forms:
        theirs = {"tokenizer_type": values["model"], "pre_tokenizer_type": values.get("pre")}
        library, _ = convert_gguf_tokenizer(architecture, values | theirs)
        begin = [1] if values["model"] == "llama" else []
        # The tokenizer.json of these models sets ignore_merges; transformers' GGUF reader does not.
        library.model.ignore_merges = values.get("pre") in ("llama-bpe", "tekken")
        metadata = {f"tokenizer.ggml.{key}": value for key, value in values.items()}
        cases.append(
            {
                "name": f"gguf {architecture} {values.get('pre', '')}",
                "metadata": metadata | {"general.architecture": architecture},
                "ids": ids_of(lambda text, library=library, begin=begin: begin + library.encode(text).ids),
            }
        )
    return cases


def ids_of(encode: Callable[[str], Sequence[int]], texts: Sequence[str] = TEXTS) -> dict[str, list[int]]:
    """Return the token ids of each text, keyed by text."""
    return {text: list(encode(text)) for text in texts}


def without_repetition(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Move long values out of the cases into a common list without duplicates.

    Returns:
        ``{"shared": values, "cases": cases}``. In the cases, a moved value is replaced by
        ``{"shared": index}``. Values of more than ``SHARED_CHARACTERS`` characters are moved.
    """
    shared: list[Any] = []
    for case in cases:
        values = case.get("files") or case["metadata"]
        for key, value in values.items():
            if len(json.dumps(value)) > SHARED_CHARACTERS:
                if value not in shared:
                    shared.append(value)
                values[key] = {"shared": shared.index(value)}
    return {"shared": shared, "cases": cases}


def main() -> int:
    """Write all cases to ``OUT``. Return the exit code 0."""
    found = without_repetition([*json_cases(), *sentencepiece_cases(), *gguf_cases()])
    shared, cases = (",\n".join(map(json.dumps, found[key])) for key in ("shared", "cases"))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(f'{{"shared": [\n{shared}\n],\n"cases": [\n{cases}\n]}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
