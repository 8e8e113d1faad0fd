"""``wse run --chat``: the template's text as prompt, nothing put around it twice, and the ends of an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from tests.cli.conftest import Wse
from tests.models.helpers import CONFIG, llama2c_bytes, tiny_tensors, write_model
from wse.models.load import load_model
from wse.studies.options.option import make_request
from wse.studies.run.prepare import prepare
from wse.studies.run.prompts import end_ids, text_ids
from wse.studies.run.request import RunRequest

TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '<|turn|>' + m['role'] + m['content'] + '<|done|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>' }}{% endif %}"
)


@pytest.fixture
def talker(tmp_path: Path) -> Path:
    """The tiny model with 259 byte-level tokens: begin, end, the mark of a turn and its end."""
    folder = tmp_path / "talker"
    folder.mkdir()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = tokenizers.Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<s>", "</s>", "<|turn|>", "<|done|>"])
    library.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 256)])
    random = np.random.default_rng(3)
    tensors = tiny_tensors()
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = random.standard_normal((260, CONFIG["hidden_size"])).astype(np.float32)
    write_model(folder, tensors, vocab_size=260, bos_token_id=256, eos_token_id=257, max_position_embeddings=64)
    library.save(str(folder / "tokenizer.json"))
    config = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def ids(folder: Path, text: str, **options: Any) -> list[int]:
    return list(text_ids(text, load_model(folder), **({"chat": True, "system": None} | options)))


def test_template_writes_all_special_tokens_itself(talker: Path) -> None:
    letter = load_model(talker).tokenizer
    user, hi, system, b = (letter.encode(text, bare=True) for text in ("user", "hi", "system", "be"))
    assert ids(talker, "hi") == [256, 258, *user, *hi, 259, 258]
    assert ids(talker, "hi", system="be") == [256, 258, *system, *b, 259, 258, *user, *hi, 259, 258]
    assert ids(talker, "hi", chat=False) == [256, *hi]
    (talker / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert ids(talker, "hi") == hi  # a template without a begin token: none


def test_answer_ends_where_generation_config_says_too(talker: Path) -> None:
    loaded = load_model(talker)
    assert end_ids(loaded, chat=True) == end_ids(loaded, chat=False) == (257,)
    (talker / "generation_config.json").write_text(json.dumps({"eos_token_id": [259, 257], "temperature": 0.6}))
    assert end_ids(loaded, chat=True) == (257, 259)
    assert end_ids(loaded, chat=False) == (257,)
    assert prepare(make_request(RunRequest, model=str(talker), prompt="hi", chat=True)).end_ids == (257, 259)


def test_run_stops_at_any_of_them(wse: Wse, talker: Path) -> None:
    options = ("run", talker, "--chat", "--prompt", "hi", "--trace", "none", "--json", "--new-tokens", "6")
    options += ("--mesh", "3x3", "--schedule", "baseline")
    told = json.loads(wse(*options).out)
    assert told["prompt_tokens"] == 10
    assert len(told["tokens"]) == 6
    second = told["tokens"][2]
    (talker / "generation_config.json").write_text(json.dumps({"eos_token_id": [second]}))
    stopped = json.loads(wse(*options).out)["tokens"]
    assert stopped == told["tokens"][: told["tokens"].index(second) + 1]
    assert "<|turn|>" not in json.loads(wse(*options).out)["text"]


def test_chat_refusals_are_one_line(wse: Wse, talker: Path) -> None:
    def refusal(*arguments: object) -> str:
        return wse("run", talker, "--chat", *arguments).refusal()

    hi = ("--prompt", "hi")
    generation, tokenizer, template = (
        talker / name for name in ("generation_config.json", "tokenizer_config.json", "chat_template.jinja")
    )
    generation.write_text(json.dumps({"eos_token_id": 260}))
    assert "eos_token_id = 260: give token ids from 0 to 259, or null" in refusal(*hi)
    generation.unlink()
    tokenizer.unlink()
    assert "has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)" in refusal(*hi)
    template.write_text("{{ raise_exception('no turns') }}")
    assert "the chat template rejects these messages: no turns; leave --system out, or --chat" in refusal(*hi)
    template.write_text("")
    assert "--prompt 'hi': the tokenizer makes no token of it; give other text" in refusal(*hi)
    assert "--chat: the user's message is missing; give it with --prompt" in refusal()
    assert "--prompt-ids are used as they are, without a template" in refusal("--prompt-ids", "1")
    assert "the prompt is empty" in refusal("--prompt", "")


def test_text_of_llama2c_ends_where_the_next_begins(tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "tokenizer.bin").write_bytes(llama2c_bytes([b"%x" % i for i in range(16)], [0.0] * 16))
    spec = load_model(tmp_path).spec
    assert spec.bos_token_id is not None
    assert end_ids(load_model(tmp_path), chat=False) == (*spec.eos_token_ids, spec.bos_token_id)
