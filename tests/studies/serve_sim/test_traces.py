"""Tests of traffic traces for ``wse serve-sim``: file formats, refusals with line numbers, and limits."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

import wse
from wse.errors import BadInput
from wse.serving.simulation.kv.prefixes import NO_PREFIX, path_to
from wse.serving.simulation.workload import FAST, NORMAL
from wse.studies.serve_sim.traces import lines, read_trace
from wse.studies.serve_sim.traces.read_trace import Trace

TRAFFIC = Path(__file__).parents[2] / "data" / "traffic"
HEAD = "arrival_s,prompt_tokens,new_tokens\n"


def read(path: Path, context: int = 4096, **rules: Any) -> Trace:
    """Read a trace; `rules` are arguments of read_trace."""
    return read_trace.read_trace(path, context=context, limit_source=f"--context {context}", **rules)


def write_trace(folder: Path, text: str) -> Path:
    """Write a trace file without a suffix, and return its path."""
    path = folder / "trace"  # the format must be recognized from the content
    path.write_bytes(text.encode())
    return path


def test_rows_of_the_wse_format() -> None:
    trace = read(TRAFFIC / "wse.csv")
    work = trace.workload
    assert trace.title == "wse CSV"
    assert work.arrival_s.tolist() == [0, 0.5, 0.5]
    assert work.prompt_tokens.tolist() == [10, 20, 30]
    assert work.new_tokens.tolist() == [5, 6, 7]
    assert work.tier.tolist() == [FAST, NORMAL, NORMAL]
    assert work.prefix.tolist() == [0, NO_PREFIX, 1]
    assert work.prefix_tokens.tolist() == [4, 0, 8]
    assert work.max_tokens == 37


def test_mooncake_blocks_are_prefixes_except_the_block_of_the_last_token() -> None:
    """1,400 tokens fill two blocks, both shared. 1,536 tokens fill three, but the last token is always computed.

    Therefore only two blocks of the second prompt are shared.
    """
    trace = read(TRAFFIC / "mooncake.jsonl")
    work = trace.workload
    assert trace.title == "Mooncake JSONL"
    assert work.arrival_s.tolist() == [0, 0.25, 4, 4]
    assert work.prompt_tokens.tolist() == [1400, 1536, 2100, 300]
    assert work.new_tokens.tolist() == [20, 30, 1, 8]
    assert work.prefix_tokens.tolist() == [1024, 1024, 2048, 0]
    parents = work.prefix_tree.parent.tolist()
    assert [path_to(block, parents) for block in work.prefix.tolist()] == [[0, 1], [0, 1], [0, 1, 2, 3], []]


@pytest.mark.parametrize(
    ("name", "title", "arrival_s", "lengths", "without_answer"),
    [
        ("azure.csv", "Azure LLM inference CSV", [0, 1.25], [(374, 44), (396, 109)], 1),
        ("splitwise.csv", "Splitwise CSV of Vidur", [0, 0.052], [(480, 10), (318, 8)], 0),
        ("burstgpt.csv", "BurstGPT CSV", [5, 118], [(472, 18), (417, 276)], 1),
    ],
)
def test_rows_of_other_formats(
    name: str, title: str, arrival_s: list[float], lengths: list[tuple[int, int]], without_answer: int
) -> None:
    trace = read(TRAFFIC / name)
    work = trace.workload
    assert (trace.title, trace.without_answer, trace.too_long) == (title, without_answer, 0)
    assert work.arrival_s.tolist() == pytest.approx(arrival_s)
    assert list(zip(work.prompt_tokens.tolist(), work.new_tokens.tolist(), strict=True)) == lengths
    assert work.prefix_tokens.tolist() == [0] * len(lengths)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ["is empty"]),
        (HEAD, ["there is no request"]),
        ("id,when\n1,2\n", ["line 1", "no known trace", "TIMESTAMP,ContextTokens,GeneratedTokens", "hash_ids"]),
        ("x" * 200_000 + "\n", ["line 1", "no known trace"]),
        ("timestamp,input_length,output_length\n", ["line 1", "no known trace"]),
        ('{"arrival_s": 0, "prompt_tokens": 1}\n', ["line 1", "no known trace"]),
        (HEAD + "0,1," + "1" * 200_000 + "\n", ["line 2", "not CSV"]),
        ("arrival_s,prompt_tokens,new_token\n", ["line 1", "'new_token'", "did you mean 'new_tokens'?"]),
        ("arrival_s,prompt_tokens,new_tokens,new_tokens\n", ["line 1", "twice"]),
        ("TIMESTAMP,ContextTokens\n", ["line 1", "column GeneratedTokens is missing"]),
        (HEAD + "0,1\n", ["line 2", "2 values under 3 columns"]),
        (HEAD + '0,"1,1\n', ["line 2", "not CSV"]),
        (HEAD + "0,1,1\n\n-1,1,1\n", ["line 4", "arrival after -1 s"]),
        (HEAD + "nan,1,1\n", ["line 2", "arrival_s 'nan'"]),
        (HEAD + "soon,1,1\n", ["line 2", "arrival_s 'soon'"]),
        (HEAD + "2,1,1\n1,1,1\n", ["line 3", "arrival after 1 s is before 2 s", "sort lines"]),
        (HEAD + "0,0,1\n", ["line 2", "prompt_tokens '0'", "at least 1"]),
        (HEAD + "0,1,-1\n", ["line 2", "new_tokens '-1'", "at least 0"]),
        (HEAD + "0,1.5,1\n", ["line 2", "prompt_tokens '1.5'"]),
        (HEAD + f"0,1,{'9' * 5000}\n", ["line 2", "new_tokens", "whole number"]),
        (HEAD.replace("\n", ",tier\n") + "0,1,1,slow\n", ["line 2", "unknown tier 'slow'", "fast, normal"]),
        (HEAD.replace("\n", ",prefix\n") + "0,2,1,a\n", ["line 2", "prefix 'a' with prefix_tokens ''", "give both"]),
        (HEAD.replace("\n", ",prefix,prefix_tokens\n") + "0,2,1,a,2\n", ["line 2", "fewer than the 2 of the prompt"]),
        (
            HEAD.replace("\n", ",prefix,prefix_tokens\n") + "0,9,1,a,2\n0,9,1,a,3\n",
            ["line 3", "prefix_tokens 3", "has 2 tokens in a row above"],
        ),
        ("\x00" + HEAD, ["line 1"]),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", ["line 2", "TIMESTAMP 'yesterday'"]),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n9999-99-99,1,1\n", ["line 2", "TIMESTAMP '9999-99-99'"]),
        ("Timestamp,Request tokens,Response tokens\n1,-5,1\n", ["line 2", "Request tokens '-5'"]),
    ],
)
def test_invalid_rows_are_refused_with_the_line_number(tmp_path: Path, text: str, parts: list[str]) -> None:
    with pytest.raises(BadInput) as refusal:
        read(write_trace(tmp_path, text))
    check_message(str(refusal.value), parts)


FIRST = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}


@pytest.mark.parametrize(
    ("second", "parts"),
    [
        ("{", ["line 2", "not JSON"]),
        ("[" * 100_000, ["line 2", "not JSON"]),
        ("[0, 600, 5]", ["line 2", "give an object"]),
        (json.dumps({"timestamp": 1, "input_length": 600}), ["line 2", "output_length is missing"]),
        (json.dumps(FIRST | {"hash_ids": [0]}), ["line 2", "hash_ids has 1 numbers; give 2", "512"]),
        (json.dumps(FIRST | {"hash_ids": {"sys": [0]}}), ["line 2", "hash_ids"]),
        (json.dumps(FIRST | {"hash_ids": [0, "1"]}), ["line 2", "hash_ids contains '1'"]),
        (json.dumps(FIRST | {"input_length": True}), ["line 2", "input_length True"]),
        (json.dumps(FIRST | {"input_length": 10**12}), ["line 2", "input_length 1000000000000"]),
        (json.dumps(FIRST | {"timestamp": "0"}).replace('"0"', "NaN"), ["line 2", "timestamp nan"]),
        (json.dumps(FIRST | {"timestamp": -1}), ["line 2", "arrival after -0.001 s"]),
        ('{"timestamp": ' + "9" * 5000 + "}", ["line 2", "not JSON"]),
    ],
)
def test_malformed_json_is_refused_with_the_line_number(tmp_path: Path, second: str, parts: list[str]) -> None:
    with pytest.raises(BadInput) as refusal:
        read(write_trace(tmp_path, f"{json.dumps(FIRST)}\n{second}\n"))
    check_message(str(refusal.value), parts)


def check_message(message: str, parts: list[str]) -> None:
    """Check that a message is one short line that contains all parts."""
    assert message.isprintable()
    assert len(message) < 800
    assert all(part in message for part in parts), message


def test_invalid_utf8_and_folders_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(HEAD.encode() + b"0,\xff,1\n")
    with pytest.raises(BadInput, match="line 2: not text in UTF-8"):
        read(path)
    with pytest.raises(BadInput, match="is not a regular file"):
        read(tmp_path)


def test_sizes_of_traces_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_trace(tmp_path, HEAD + 3 * "0,1,1\n")
    monkeypatch.setattr(read_trace, "MAX_REQUESTS", 2)
    with pytest.raises(BadInput, match=r"line 4: more than 2 requests"):
        read(path)
    monkeypatch.setattr(lines, "LIMIT_BYTES", 45)
    with pytest.raises(BadInput, match="line 3: more than 45 bytes"):
        read(path)
    assert len(read(path, max_requests=1).workload) == 1
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 20)
    with pytest.raises(BadInput, match="line 1: is over 20 bytes"):
        read(path)
    monkeypatch.undo()
    monkeypatch.setattr(read_trace, "MAX_BLOCKS", 3)
    with pytest.raises(BadInput, match="line 4: more than 3 different blocks"):
        read(TRAFFIC / "mooncake.jsonl")


def test_requests_beyond_the_context_are_refused_or_skipped(tmp_path: Path) -> None:
    path = write_trace(tmp_path, HEAD + "0,5,5\n\n1,60,50\n2,70,50\n")
    assert read(path, 120).workload.new_tokens.tolist() == [5, 50, 50]
    with pytest.raises(BadInput, match=r"line 4: 60 \+ 50 tokens are more than --context 100, and so are 1 further"):
        read(path, 100)
    trace = read(path, 115, skips_too_long=True)
    assert (trace.workload.new_tokens.tolist(), trace.too_long) == ([5, 50], 1)
    with pytest.raises(BadInput, match="there is no request besides 3 that are too long"):
        read(path, 5, skips_too_long=True)
    assert len(read(path, 100, max_requests=1).workload) == 1


@pytest.mark.slow
def test_3_000_requests_with_long_chains_take_less_than_5_s(tmp_path: Path) -> None:
    """Simulate 100 conversations of 30 requests, in which every second request adds a block of 512 tokens.

    The cache has room for all blocks. The block with the last token of a prompt is computed again, so each request
    saves the blocks of the previous one except the last.
    """
    path = tmp_path / "trace"
    with path.open("w") as stream:
        for request in range(3_000):
            turn, user = divmod(request, 100)
            blocks = [1_000 * user + block for block in range(10 + turn // 2)]
            sizes = {"input_length": 512 * len(blocks), "output_length": 50, "hash_ids": blocks}
            stream.write(json.dumps({"timestamp": 200 * request, **sizes}) + "\n")
    start_s = time.process_time()
    options: dict[str, Any] = {"gpu": "h200", "gpus": 8, "prefix_cache": True}
    result = wse.serve_sim("llama-3.1-8b", arrivals=path, **options)
    assert time.process_time() - start_s < 5
    assert result.served is not None
    assert result.served.prefix_cache is not None
    assert result.served.prefix_cache.hits == 3_000 - 100
    saved_blocks = 100 * sum(9 + (turn - 1) // 2 for turn in range(1, 30))
    assert result.served.prefix_cache.saved_tokens == 512 * saved_blocks


def test_published_traces_are_read_completely(external_data: Path) -> None:
    mooncake = read(external_data / "traffic" / "mooncake_conversation_4000.jsonl", 131_072).workload
    assert (len(mooncake), int(mooncake.prompt_tokens.sum())) == (4_000, 53_249_359)
    assert len(mooncake.prefix_tree.parent) == 67_456
    splitwise = read(external_data / "traffic" / "splitwise_code.csv", 8_192).workload
    assert (len(splitwise), int(splitwise.new_tokens.sum())) == (8_819, 245_896)
