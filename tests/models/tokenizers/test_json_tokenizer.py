"""Tests of tokenizer.json files: encoding, decoding, special tokens, and refused files."""

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from tests.hardware.helpers import refusal
from tests.models.helpers import write_config
from wse.errors import BadInput, BadModel
from wse.models.configs.config import read_config
from wse.models.tokenizers.library_tokenizer import LibraryTokenizer
from wse.models.tokenizers.tokenizer import json_tokenizer
from wse.models.tokenizers.tokenizer_config import AddedToken, TokenizerConfig

NO_CONFIG = TokenizerConfig()
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def write_spelled(path: Path) -> Path:
    """Write a tokenizer in the format of Llama 1 and 2 and return its path.

    Words begin with ▁, and an unknown character is encoded as its bytes.
    """
    pieces = ["<unk>", "<s>", "</s>", *BYTES, "▁", "a", "b", "é", "ab", "▁a"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    library = tokenizers.Tokenizer(
        models.BPE(vocab, [("a", "b"), ("▁", "a")], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    library.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    library.add_special_tokens(["<unk>", "<s>", "</s>"])
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    library.save(str(path))
    return path


def write_byte_level(path: Path) -> Path:
    """Write a tokenizer in the format of GPT-2 and Llama 3, in which every byte is a character; return its path."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "Ġa"]
    library = tokenizers.Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, [("Ġ", "a")]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<begin>", "<end>"])
    library.post_processor = processors.TemplateProcessing(single="<begin> $A", special_tokens=[("<begin>", 257)])
    library.save(str(path))
    return path


WRITERS = {"spelled": (write_spelled, 265, 1, 2), "byte-level": (write_byte_level, 259, 257, 258)}


@pytest.fixture(params=WRITERS)
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> LibraryTokenizer:
    """Return a tokenizer of each format in `WRITERS`."""
    write, size, bos, eos = WRITERS[request.param]
    spec = read_config(write_config(tmp_path, vocab_size=size, bos_token_id=bos, eos_token_id=eos))
    return json_tokenizer(write(tmp_path / "tokenizer.json"), spec, NO_CONFIG)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet="ab éß😀\n", max_size=20))
def test_encoded_text_decodes_to_itself(tokenizer: LibraryTokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids[0] in (1, 257)
    assert 257 not in ids[1:]
    assert tokenizer.decode(ids) == text
    assert tokenizer.decode(ids[1:]) == text


def test_an_id_outside_the_vocabulary_is_refused(tokenizer: LibraryTokenizer) -> None:
    last = tokenizer.vocab_size - 1
    wanted = f"token id 900 is outside the vocabulary; give ids from 0 to {last}"
    assert refusal(BadInput, tokenizer.decode, [900]) == wanted
    assert refusal(BadInput, tokenizer.stream().push, 900) == wanted
    assert "the text is not Unicode at character 0" in refusal(BadInput, tokenizer.encode, "\udce9")


@pytest.mark.parametrize("bos", [None, 1])
def test_post_processor_alone_adds_special_tokens(tmp_path: Path, bos: int | None) -> None:
    """Like transformers 5, ignore the begin token of the config and the flag in tokenizer_config.json."""
    spec = read_config(write_config(tmp_path, vocab_size=265, bos_token_id=bos))
    path = write_spelled(tmp_path / "tokenizer.json")
    assert json_tokenizer(path, spec, TokenizerConfig(add_bos_token=False)).encode("a") == [1, 264]
    assert json_tokenizer(path, spec, NO_CONFIG).encode("a", bare=True) == [264]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"post_processor": None}))
    silent = TokenizerConfig(marks=(("bos_token", "<s>"),), add_bos_token=True)
    assert json_tokenizer(path, spec, silent).encode("a") == [264]


def test_an_added_token_with_another_id_is_refused(tmp_path: Path) -> None:
    spec = read_config(write_config(tmp_path, vocab_size=266))
    path = write_spelled(tmp_path / "tokenizer.json")
    config = TokenizerConfig(added_tokens=(AddedToken(text="<turn>", token_id=265),))
    assert json_tokenizer(path, spec, config).encode("a<turn>", bare=True) == [264, 265]
    config = TokenizerConfig(added_tokens=(AddedToken(text="ab", token_id=265),))
    assert "has the token 'ab' as 263" in refusal(BadModel, json_tokenizer, path, spec, config)


def test_subword_prefix_is_refused(tmp_path: Path) -> None:
    """The library does not check such merges, and ends the process if they lack the prefix."""
    spec = read_config(write_config(tmp_path, vocab_size=259))
    path = write_byte_level(tmp_path / "tokenizer.json")
    whole = json.loads(path.read_text(encoding="utf-8"))
    for harmless in ("", None):
        whole["model"]["continuing_subword_prefix"] = harmless
        path.write_text(json.dumps(whole), encoding="utf-8")
        assert json_tokenizer(path, spec, NO_CONFIG).vocab_size == 259
    whole["model"]["continuing_subword_prefix"] = "x"
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert "continuing_subword_prefix marks pieces inside" in refusal(BadModel, json_tokenizer, path, spec, NO_CONFIG)


@pytest.mark.parametrize(("vocab_size", "fits"), [(262, False), (265, True), (267, True), (300, False)])
def test_vocabulary_must_fit_the_model_up_to_padding(tmp_path: Path, vocab_size: int, fits: bool) -> None:  # noqa: FBT001
    spec = read_config(write_config(tmp_path, vocab_size=vocab_size))
    path = write_spelled(tmp_path / "tokenizer.json")
    if fits:
        assert json_tokenizer(path, spec, NO_CONFIG).decode([vocab_size - 1]) in ("", "a")
        return
    assert f"has 265 tokens, the model {vocab_size}" in refusal(BadModel, json_tokenizer, path, spec, NO_CONFIG)


@pytest.mark.parametrize("text", ["", "{}", "[1", '{"model": {"type": "None"}}', "\xff"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(text.encode("latin-1"))
    message = refusal(BadModel, json_tokenizer, path, read_config(write_config(tmp_path)), NO_CONFIG)
    assert message.startswith(f"{path}: not a tokenizer of the tokenizers library (")
    assert message.endswith("); fetch the file again")
