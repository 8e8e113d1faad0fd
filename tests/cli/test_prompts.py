"""Tests of the prompts of ``wse run``: several on the command line, in a file, and as a chat."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from tests.cli.conftest import Wse, files_below
from tests.models.helpers import CONFIG, llama2c_bytes, tiny_tensors, write_model
from tests.reference.test_json_keys import RESULTS, check_keys
from wse.models.load import load_model
from wse.studies.options.option import make_request
from wse.studies.run import prompts
from wse.studies.run.prepare import prepare
from wse.studies.run.prompts import end_ids, text_ids
from wse.studies.run.request import RunRequest
from wse_traces.reader.read import open_trace

IDS = ("1,2,3", "4", "9,8,7,6,5")
QUICK = ("--mapping", "region", "--schedule", "baseline", "--json")
MESH = ("--mesh", "3x3", "--new-tokens", "7", *QUICK)


def report_of(wse: Wse, *arguments: object) -> dict[str, Any]:
    outcome = wse("run", *arguments)
    assert outcome.code == 0, outcome
    return dict(json.loads(outcome.out))


def repeated(option: str, values: tuple[str, ...]) -> list[str]:
    """Return the command-line words that give an option once with each value."""
    return [word for value in values for word in (option, value)]


def test_tokens_of_each_user_do_not_depend_on_the_batch(wse: Wse, tiny: Path) -> None:
    options = (*MESH, "--temperature", "1.5", "--seed", 3, "--trace", "none")
    report = report_of(wse, tiny, *repeated("--prompt-ids", IDS), *options)
    assert report["batch"] == 3
    assert not {"tokens", "text", "prompt_tokens", "prompt_logits_last"} & set(report)
    for user, ids in enumerate(IDS):
        alone = report_of(wse, tiny, "--prompt-ids", ids, *options)
        assert alone["batch"] == 1
        assert alone["users"][0]["tokens"] == alone["tokens"]
        assert report["users"][user] == alone["users"][0]
    decode = report["decode"]
    assert decode["tokens_per_s"] == pytest.approx(3 * decode["tokens_per_s_per_user"])


def test_prompt_file_contains_lines_or_a_json_list(wse: Wse, empty: Path) -> None:
    texts = ["Once upon a time", "Tim had a", "A dog, é"]
    (empty / "texts").write_bytes("\r\n".join(texts).encode() + b"\n")
    (empty / "texts.json").write_text(json.dumps(texts))
    options = ("--new-tokens", "3", "--mesh", "16x16", *QUICK, "--trace", "none")
    from_lines, from_list = (report_of(wse, "--prompts", name, *options)["users"] for name in ("texts", "texts.json"))
    assert from_lines == from_list == report_of(wse, *repeated("--prompt", tuple(texts)), *options)["users"]
    assert [user["text"].startswith(text) for user, text in zip(from_list, texts, strict=True)] == [True] * 3


def test_trace_records_the_sequence_of_each_token(wse: Wse, tiny: Path, empty: Path) -> None:
    report = report_of(wse, tiny, *repeated("--prompt-ids", IDS), *MESH, "--wavelets", "--trace", "t.h5")
    check_keys(report, RESULTS["run"])
    with open_trace(empty / "t.h5") as trace:
        columns = {
            name: trace.column(f"tokens/{name}") for name in ("id", "is_prompt", "sequence", "position", "cycles")
        }
        passes = trace.rows("pass")
    for user, ids in enumerate(IDS):
        of_user = columns["sequence"] == user
        generated = report["users"][user]["tokens"]
        assert columns["id"][of_user].tolist() == [*map(int, ids.split(",")), *generated]
        assert columns["position"][of_user].tolist() == list(range(of_user.sum()))
    decode_passes = passes - len(report["system"]["prefill_chunks"])
    total_cycles = report["prefill"]["cycles"] + report["decode"]["cycles_per_token"] * decode_passes
    longest = max(range(len(IDS)), key=lambda user: len(report["users"][user]["tokens"]))
    assert columns["cycles"][columns["sequence"] == longest].sum() == pytest.approx(total_cycles)
    facts = json.loads(wse("inspect", "t.h5", "--json").out)
    assert [user["generated_tokens"] for user in facts["users"]] == [len(user["tokens"]) for user in report["users"]]
    assert [user["prompt_tokens"] for user in facts["users"]] == [3, 1, 5]
    assert facts["decode"]["tokens_per_s"] == pytest.approx(report["decode"]["tokens_per_s"])
    assert facts["wavelets"]["moves"] > 0


def test_too_many_users_are_refused_with_the_maximum_number(wse: Wse, tiny: Path) -> None:
    one_pe = ("--mesh", "1x1", "--wafers", "1", "--context", "30", "--trace", "none")
    line = wse("run", tiny, *repeated("--prompt-ids", ("1,2,3",) * 40), *one_pe).refusal()
    assert "KV cache" in line
    max_prompts = int(line.partition("at most ")[2].partition(" prompts")[0])
    assert 1 < max_prompts < 40
    assert wse("run", tiny, *repeated("--prompt-ids", ("1,2,3",) * max_prompts), *one_pe).code == 0


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("none", None, ["does not exist"]),
        ("empty", b"", ["contains no prompt", "one per line"]),
        ("gap", b"one\n\ntwo\n", ["line 2 is empty"]),
        ("latin", b"caf\xe9\n", ["byte 3 is not UTF-8"]),
        ("a.json", b"[", ["not JSON at line 1, column 2"]),
        ("b.json", b"[" * 100_000, ["not a JSON list of texts"]),
        ("c.json", b'{"a": 1}', ["contains a JSON dict, not a list of texts"]),
        ("d.json", b'["a", 2]', ["item 2 is a int, not a text"]),
        ("e.json", b"[]", ["contains no prompt"]),
        ("f.json", b'["a", " "]', ["item 2 is empty"]),
        ("many", b"a\n" * 5000, ["contains 5,000 prompts", "at most 4,096"]),
    ],
)
def test_unusable_prompt_file_is_refused(
    wse: Wse, empty: Path, name: str, content: bytes | None, expected: list[str]
) -> None:
    if content is not None:
        (empty / name).write_bytes(content)
    before = files_below(empty)
    line = wse("run", "--prompts", name).refusal()
    assert line.startswith(f"wse: --prompts {name}: ")
    assert [part for part in expected if part not in line] == []
    assert files_below(empty) == before


def test_folder_and_too_large_file_are_refused(wse: Wse, empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not a regular file" in wse("run", "--prompts", empty).refusal()
    monkeypatch.setattr(prompts, "LARGEST_BYTES", 4)
    (empty / "large").write_text("12345")
    assert "is over 4 bytes" in wse("run", "--prompts", "large").refusal()


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '<|turn|>' + m['role'] + m['content'] + '<|done|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|turn|>' }}{% endif %}"
)


@pytest.fixture
def chat_model(tmp_path: Path) -> Path:
    """Write a tiny model with a chat template and 260 tokens: 256 bytes, begin, end, begin and end of a message."""
    folder = tmp_path / "chat_model"
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


def prompt_ids(folder: Path, text: str, **options: Any) -> list[int]:
    """Return the token ids of a prompt, which is the user's message of a chat unless chat=False is given."""
    return list(text_ids(text, load_model(folder), **({"chat": True, "system": None} | options)))


def test_chat_template_writes_all_special_tokens(chat_model: Path) -> None:
    tokenizer = load_model(chat_model).tokenizer
    user, hi, system, b = (tokenizer.encode(text, bare=True) for text in ("user", "hi", "system", "be"))
    assert prompt_ids(chat_model, "hi") == [256, 258, *user, *hi, 259, 258]
    assert prompt_ids(chat_model, "hi", system="be") == [256, 258, *system, *b, 259, 258, *user, *hi, 259, 258]
    assert prompt_ids(chat_model, "hi", chat=False) == [256, *hi]
    (chat_model / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert prompt_ids(chat_model, "hi") == hi  # this template writes no begin token, so none is added


def test_chat_answer_also_ends_at_tokens_of_the_generation_config(chat_model: Path) -> None:
    loaded = load_model(chat_model)
    assert end_ids(loaded, chat=True) == end_ids(loaded, chat=False) == (257,)
    (chat_model / "generation_config.json").write_text(json.dumps({"eos_token_id": [259, 257], "temperature": 0.6}))
    assert end_ids(loaded, chat=True) == (257, 259)
    assert end_ids(loaded, chat=False) == (257,)
    assert prepare(make_request(RunRequest, model=str(chat_model), prompt="hi", chat=True)).end_ids == (257, 259)


def test_chat_refusals_name_the_cause(wse: Wse, chat_model: Path) -> None:
    def refusal(*arguments: object) -> str:
        return wse("run", chat_model, "--chat", *arguments).refusal()

    hi = ("--prompt", "hi")
    generation, tokenizer, template = (
        chat_model / name for name in ("generation_config.json", "tokenizer_config.json", "chat_template.jinja")
    )
    generation.write_text(json.dumps({"eos_token_id": 260}))
    assert "eos_token_id = 260: give token ids from 0 to 259, or null" in refusal(*hi)
    generation.unlink()
    tokenizer.unlink()
    assert "has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json)" in refusal(*hi)
    template.write_text("{{ raise_exception('no turns') }}")
    assert "the chat template rejects these messages: no turns; leave --system out, or --chat" in refusal(*hi)
    template.write_text("")
    assert "--prompt 'hi': the tokenizer returns no token for it; give other text" in refusal(*hi)
    assert "--chat: the user's message is missing; give it with --prompt" in refusal()
    assert "--prompt-ids are used as they are, without a template" in refusal("--prompt-ids", "1")
    assert "the prompt is empty" in refusal("--prompt", "")


def test_text_of_llama2c_ends_at_the_begin_token(tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "tokenizer.bin").write_bytes(llama2c_bytes([b"%x" % i for i in range(16)], [0.0] * 16))
    spec = load_model(tmp_path).spec
    assert spec.bos_token_id is not None
    assert end_ids(load_model(tmp_path), chat=False) == (*spec.eos_token_ids, spec.bos_token_id)
