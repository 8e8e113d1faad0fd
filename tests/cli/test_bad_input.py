"""Every bad input: one line that names the thing, the value and the remedy; exit 2; nothing left behind."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors_writer import header_of, join_safetensors, write_safetensors

from tests.cli.conftest import Wse, files_below
from tests.models.helpers import tiny_tensors, write_config

IDS = ("--prompt-ids", "1,2,3")


def refused(wse: Wse, folder: Path, *arguments: object) -> str:
    """The one line, after checking that no file came or went below ``folder``."""
    before = files_below(folder)
    line = wse(*arguments).refusal()
    assert files_below(folder) == before
    return line


OPTIONS: list[tuple[list[str], list[str]]] = [
    (["--mesh", "0x3"], ["'0x3'", "ROWSxCOLS"]),
    (["--mesh", "8"], ["'8'", "such as 16x16"]),
    (["--mesh", "8x"], ["'8x'", "such as 16x16"]),
    (["--mesh", "-1x4"], ["'-1x4'", "such as 16x16"]),
    (["--mesh", "1171x756"], ["1171x756", "wse3", "1170x755", "smaller mesh"]),
    (["--region", "9x9", "--mesh", "8x8"], ["--region 9x9", "8x8"]),
    (["--region", "axb"], ["'axb'"]),
    (["--wafer", "wse4"], ["'wse4'", "did you mean 'wse3'?"]),
    (["--wafer", "none.toml"], ["none.toml", "does not exist"]),
    (["--mapping", "regin"], ["'regin'", "did you mean 'region'?"]),
    (["--mapping", "none.toml"], ["none.toml", "does not exist", "TOML file"]),
    (["--experts", "distribted"], ["'distribted'", "did you mean 'distributed'?"]),
    (
        ["--experts", "0"],
        ["unknown placement of experts '0'", "known: a number of groups, auto, dedicated, distributed, grouped"],
    ),
    (["--experts", "dedicated"], ["--experts dedicated", "has no experts; leave it out"]),
    (["--wafer", "cs-3"], ["'cs-3'", "did you mean 'wse3'?"]),
    (["--schedule", "baseline,early-shift"], ["baseline cannot be combined with rewrites", "give it alone"]),
    (
        ["--set", "clock=x2"],
        ["unknown setting 'clock'", "did you mean 'wafer.clock_hz'?", "software.… (12)"],
    ),
    (["--mapping", "own.py"], ["--mapping: own.py", "as own.py:NAME"]),
    (["--all-reduce", "own.py"], ["own.py", "as own.py:NAME"]),
    (["--software", "tunde"], ["'tunde'", "did you mean 'tuned'?"]),
    (["--dtype", "float61"], ["'float61'", "did you mean 'float16'?"]),
    (["--dtype", "int9"], ["'int9'", "did you mean 'int8'?"]),
    (["--dtype", "q"], ["unknown dtype 'q'", "known: bfloat16, float16, float32, fp8, int4, int8"]),
    (["--dtype", "int8", "--activations", "int8"], ["type of activations 'int8'", "known: bfloat16, float16, float32"]),
    (["--activations", "float16"], ["--activations float16", "leave it out", "--dtype int8 or fp8 or int4"]),
    (["--dtype", "int4", "--accumulate", "float16"], ["--accumulate float16", "int4 in float32", "leave it out"]),
    (["--accumulate", "float61"], ["'float61'", "did you mean 'float16'?"]),
    (["--accumulate", "float16"], ["--accumulate float16", "--dtype float16"]),
    (["--wafers", "0"], ["--wafers 0", "at least 1"]),
    (["--wafers", "many"], ["--wafers 'many'", "auto"]),
    (["--wafers", "3"], ["--wafers 3", "at least one layer", "tiny has 2", "at most 2"]),
    (["--new-tokens", "0"], ["--new-tokens 0", "at least 1"]),
    (["--new-tokens", "soon"], ["--new-tokens 'soon'", "give a whole number of tokens, such as 4096 or 128k"]),
    (["--new-tokens", "30"], ["33 is beyond the context of 32", "--new-tokens 29"]),
    (["--context", "3"], ["4 is beyond the context of 3", "shorter prompt"]),
    (["--context", "33"], ["--context 33", "32"]),
    (["--context", "-4"], ["--context -4", "at least 1"]),
    (["--defects", "nan"], ["--defects nan", "at least 0 and below 1", "a CSV file"]),
    (["--defects", "none.csv"], ["none.csv", "does not exist", "a rate such as 1e-4"]),
    (["--defects-seed", "-1"], ["--defects-seed -1", "from 0"]),
    (["--defects", "0.1", "--defects-seed", "-1"], ["--defects-seed -1", "from 0"]),
    (["--defects", "0.999999", "--mesh", "2x2"], ["--defects 0.999999", "no mesh of live PEs", "fewer dead PEs"]),
    (["--temperature", "-1"], ["--temperature -1", "0 for greedy"]),
    *[
        (["--temperature", v], [f"--temperature '{v}'", "give a number, such as 0.8 or 10k"])
        for v in ("nan", "inf", "hot", "1s", "0x1")
    ],
    (["--temperature", "1e6"], ["--temperature 1000000.0", "0 for greedy"]),
    (["--temperature", "1e999"], ["--temperature inf", "0 for greedy"]),
    (["--temperature", "1", "--top-k", "-1"], ["--top-k -1", "at least 1, or 0 for no limit"]),
    *[(["--temperature", "1", "--top-p", v], [f"--top-p {v}", "above 0, at most 1"]) for v in ("0.0", "-0.5", "1.01")],
    *[(["--temperature", "1", "--min-p", v], [f"--min-p {v}", "from 0 (no limit) to 1"]) for v in ("-0.1", "1.5")],
    *[
        (["--repetition-penalty", v], [f"--repetition-penalty {v}", "above 0 (1: no penalty)"])
        for v in ("0.0", "-1.0", "10000000.0")
    ],
    (["--top-k", "4", "--top-k", "some"], ["--top-k 'some'", "give a whole number, such as 8 or 10k"]),
    (["--top-k=4", "--top-k=some"], ["--top-k 'some'", "give a whole number, such as 8 or 10k"]),
    (["--top-k", "some"], ["--top-k 'some'", "give a whole number, such as 8 or 10k"]),
    (["--top-k", "5"], ["--top-k 5", "nothing is drawn at temperature 0", "--temperature"]),
    (["--top-p", "0.5"], ["--top-p 0.5", "nothing is drawn at temperature 0", "--temperature"]),
    (["--min-p", "0.5"], ["--min-p 0.5", "nothing is drawn at temperature 0", "--temperature"]),
    (["--seed", "-1"], ["--seed -1", "from 0"]),
    (["--seed", str(2**63)], ["--seed", "from 0"]),
    (["--prompt-ids", "1,16"], ["16 is outside the vocabulary of tiny", "0 to 15"]),
    (["--prompt-ids", "-1"], ["-1 is outside the vocabulary", "0 to 15"]),
    (["--prompt-ids", "1,,2"], ["'' is not a token id", "1,2,3"]),
    (["--prompt-ids", "1;2"], ["'1;2' is not a token id", "1,2,3"]),
    (["--prompt-ids", ""], ["--prompt-ids", "empty"]),
    (["--prompt", "once"], ["--prompt and --prompt-ids", "one of the two"]),
    (["--trace", "no/folder/run.h5"], ["no/folder/run.h5", "no/folder is not a folder", "--trace none"]),
    (["--trace", "."], ["--trace .", "not a regular file"]),
    (["--trace", ""], ["--trace ''", "empty"]),
    (["--trace", "n" * 300 + ".h5"], ["too long", "--trace none"]),
    (["--wavelets", "--trace", "none"], ["log of wavelets", "give --trace PATH"]),
    (["--mehs", "8x8"], ["unknown option '--mehs'", "did you mean '--mesh'?"]),
    (["--mesh"], ["'--mesh' requires an argument", "wse run --help"]),
    (["more"], ["unexpected extra argument", "more", "wse run --help"]),
]


@pytest.mark.parametrize(("options", "says"), OPTIONS, ids=[" ".join(o)[:40] for o, _ in OPTIONS])
def test_an_option_that_cannot_be(wse: Wse, tiny: Path, tmp_path: Path, options: list[str], says: list[str]) -> None:
    line = refused(wse, tmp_path, "run", tiny, *IDS, *options)
    assert [part for part in says if part not in line] == [], line


COMMANDS: list[tuple[list[str], list[str]]] = [
    (["rum"], ["unknown command 'rum'", "did you mean 'run'?", "inspect"]),
    (["compile"], ["compile: MODEL is missing", "wse compile --help"]),
    (["inspect"], ["inspect: TRACE is missing", "wse inspect --help"]),
    (["--verison"], ["unknown option '--verison'", "did you mean '--version'?"]),
    (["compile", "story", "--write-mapping", "a.csv"], ["--write-mapping a.csv", "a mapping file", "ends in .toml"]),
    (["estimate", "story", "--write-mapping", "no/a.toml"], ["--write-mapping no/a.toml", "no is not a folder"]),
    (["serve-sim", "story", "--ttft", "2kg"], ["--ttft '2kg'", "give a number with its unit, such as 200ms"]),
    (["serve-sim", "story", "--ttft", "200"], ["--ttft '200'", "give a unit, such as 200ms"]),
    (["serve-sim", "story", "--batch-wait", "500"], ["--batch-wait '500'", "give a unit, such as 200ms"]),
    (["serve-sim", "story", "--kv-latency", "5"], ["--kv-latency '5'", "give a unit, such as 5us"]),
    (["serve-sim", "story", "--rate", "fast"], ["--rate 'fast'", "give a number, such as 0.8 or 10k"]),
    (["run", "--checkpoint-every", "60"], ["--checkpoint-every '60'", "give a unit, such as 200ms"]),
    (["compare", "story", "--link-latency", "5us,20"], ["--link-latency '20'", "give a unit, such as 5us"]),
    (["serve-sim", "story", "--tpot", "0"], ["--tpot '0'", "give a unit, such as 200ms"]),
    (["compare", "story", "--tpot", "2"], ["--tpot '2'", "give a unit, such as 200ms"]),
    (["sweep", "story", "--set", "context=0.3k"], ["context = '0.3k'", "give a whole number, or default"]),
    (["estimate", "story", "--context", "1.0001k"], ["--context '1.0001k'", "such as 4096 or 128k"]),
    (["compare", "story", "--link-latency", "5MB"], ["--link-latency '5MB'", "such as 5us or 500ns"]),
    (["serve-sim", "story", "--prefixes", "2"], ["--prefixes: needs --prefix-tokens"]),
    (["serve-sim", "story", "--html", "a.h5"], ["--html a.h5", "a page, which ends in .html"]),
    (["compare", "story", "--html", "a.h5"], ["--html a.h5", "a page, which ends in .html"]),
    (["scenario", "fast-mode", "--png", "a.jpg"], ["--png a.jpg", "a PNG image"]),
    (["estimate", "llama-3-8b", "--what-if", "clok=x2"], ["did you mean 'clock'?", "latency, software.… (12), sram"]),
    (["inspect", "none.h5"], ["none.h5", "no such file"]),
    (["inspect", "."], ["not a regular file"]),
    (["inspect", "none.h5", "--top", "-1"], ["--top -1", "at least 0"]),
    (["inspect", "none.h5", "--cycles", "soon"], ["--cycles 'soon'", "FROM-TO", "such as 100-120"]),
    (["inspect", "none.h5", "--cycles", "7"], ["--cycles '7'", "such as 100-120"]),
    (["inspect", "none.h5", "--cycles", "-3-5"], ["--cycles '-3-5'", "such as 100-120"]),
    (["inspect", "none.h5", "--cycles", "1-" + "9" * 30], ["--cycles '1-999", "such as 100-120"]),
    (["inspect", "none.h5", "--cycles", "7-5"], ["--cycles 7-5", "ends before it begins", "smaller cycle first"]),
    (["models", "extra"], ["unexpected extra argument"]),
    (["wafers", "wse4"], ["'wse4'", "did you mean"]),
]


@pytest.mark.smoke
@pytest.mark.parametrize(("arguments", "says"), COMMANDS, ids=[" ".join(a) for a, _ in COMMANDS])
def test_a_command_that_cannot_be(wse: Wse, tmp_path: Path, arguments: list[str], says: list[str]) -> None:
    line = refused(wse, tmp_path, *arguments)
    assert [part for part in says if part not in line] == [], line


MODELS: list[tuple[str, list[str]]] = [
    ("./missing", ["'./missing'", "no such file or folder"]),
    ("stroy", ["unknown model or folder 'stroy'", "did you mean 'story'?"]),
    ("", ["no such file or folder"]),
    (".", ["has no config.json"]),
]


@pytest.mark.parametrize(("model", "says"), MODELS, ids=[m or "empty" for m, _ in MODELS])
@pytest.mark.parametrize("command", ["run", "compile"])
def test_a_model_that_is_not_there(wse: Wse, tmp_path: Path, command: str, model: str, says: list[str]) -> None:
    line = refused(wse, tmp_path, command, model)
    assert [part for part in says if part not in line] == [], line


CONFIGS: list[tuple[dict[str, object], str, list[str]]] = [
    ({"architectures": ["MambaForCausalLM"], "model_type": "mamba"}, "", ["mamba", "llama"]),
    ({}, "hidden_size", ["hidden_size"]),
    ({"hidden_size": -12}, "", ["hidden_size", "-12"]),
    ({"num_hidden_layers": 0}, "", ["num_hidden_layers", "0"]),
    ({"vocab_size": "many"}, "", ["vocab_size", "'many'"]),
    ({"num_attention_heads": 3}, "", ["num_attention_heads", "num_key_value_heads"]),
]


@pytest.mark.parametrize(("changes", "drop", "says"), CONFIGS, ids=[str(c[0] or c[1]) for c in CONFIGS])
def test_a_config_that_cannot_be(
    wse: Wse, tiny: Path, tmp_path: Path, changes: dict[str, object], drop: str, says: list[str]
) -> None:
    write_config(tiny, *([drop] if drop else []), **changes)
    line = refused(wse, tmp_path, "run", tiny, *IDS)
    assert "config.json" in line
    assert [part for part in says if part not in line] == [], line


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", '{"hidden_size": NaN}', "null"])
def test_a_config_that_is_no_json_object(wse: Wse, tiny: Path, tmp_path: Path, text: str) -> None:
    (tiny / "config.json").write_bytes(text.encode("latin-1"))
    assert "config.json" in refused(wse, tmp_path, "run", tiny, *IDS)


def edited(change: Callable[[dict[str, dict[str, object]]], None]) -> bytes:
    """The file with a header that is not its own."""
    tensors = tiny_tensors()
    header = header_of(tensors)
    change(header)
    return join_safetensors(header, b"".join(array.tobytes() for array in tensors.values()))


def shift(header: dict[str, dict[str, object]]) -> None:
    header["model.norm.weight"]["data_offsets"] = [0, 48]


def far(header: dict[str, dict[str, object]]) -> None:
    header["model.norm.weight"]["data_offsets"] = [10**9, 10**9 + 48]


def odd(header: dict[str, dict[str, object]]) -> None:
    header["model.norm.weight"]["dtype"] = "F31"


WEIGHTS: list[tuple[str, Callable[[], bytes], list[str]]] = [
    ("empty", lambda: b"", ["is empty"]),
    ("header cut", lambda: edited(lambda h: None)[:100], ["header"]),
    ("data cut", lambda: edited(lambda h: None)[:-100], ["fetch the file again"]),
    ("header too long", lambda: struct.pack("<Q", 2**62) + b"{}", ["header"]),
    ("header not JSON", lambda: join_safetensors(b"{nonsense", b""), ["not JSON"]),
    ("not a header", lambda: b"PK\x03\x04" * 40, ["header"]),
    ("overlapping", lambda: edited(shift), ["overlaps the one before"]),
    ("outside", lambda: edited(far), ["model.norm.weight", "data_offsets"]),
    ("element type", lambda: edited(odd), ["model.norm.weight", "'F31'"]),
]


@pytest.mark.parametrize(("data", "says"), [w[1:] for w in WEIGHTS], ids=[w[0] for w in WEIGHTS])
def test_weights_that_are_damaged(
    wse: Wse, tiny: Path, tmp_path: Path, data: Callable[[], bytes], says: list[str]
) -> None:
    (tiny / "model.safetensors").write_bytes(data())
    line = refused(wse, tmp_path, "run", tiny, *IDS)
    assert [part for part in [*says, "model.safetensors"] if part not in line] == [], line


def test_weights_that_lack_a_tensor_or_shape_it_otherwise(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    tensors = tiny_tensors()
    gone = tensors.pop("model.layers.1.mlp.up_proj.weight")
    write_safetensors(tiny / "model.safetensors", tensors)
    assert "model.layers.1.mlp.up_proj.weight" in refused(wse, tmp_path, "run", tiny, *IDS)
    write_safetensors(tiny / "model.safetensors", tensors | {"model.layers.1.mlp.up_proj.weight": gone.T})
    line = refused(wse, tmp_path, "run", tiny, *IDS)
    assert "model.layers.1.mlp.up_proj.weight" in line
    assert "12" in line


def test_weights_that_are_not_there(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    assert "has no weights" in refused(wse, tmp_path, "run", tiny / "config.json", *IDS)
    (tiny / "model.safetensors").unlink()
    assert "safetensors" in refused(wse, tmp_path, "run", tiny, *IDS)


def test_text_without_a_tokenizer(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    line = refused(wse, tmp_path, "run", tiny, "--prompt", "Once")
    assert "tokenizer" in line
    assert "--prompt-ids 1,2,3" in line


def test_an_empty_prompt(wse: Wse, tmp_path: Path) -> None:
    line = refused(wse, tmp_path, "run", "--prompt", "")
    assert "--prompt ''" in line
    assert "empty" in line


def test_a_prompt_that_is_not_text(wse: Wse, tmp_path: Path) -> None:
    assert "UTF-8" in refused(wse, tmp_path, "run", "--prompt", "a\udcffb")


WAFERS: list[tuple[str, list[str]]] = [
    ('base = "wse2"\nhop_cycle = 2\n', ["'hop_cycle'", "did you mean 'hop_cycles'?"]),
    ('base = "wse2"\nclock_hz = { value = 850e6, unit = "MHz" }\n', ["clock_hz", "'MHz'", "'Hz'"]),
    ('base = "wse2"\nclock_hz = "fast"\n', ["clock_hz", "fast"]),
    ('base = "wse2"\nmesh_rows = -1\n', ["mesh_rows", "-1"]),
    ('base = "wse9"\n', ["'wse9'", "did you mean"]),
    ("mesh_rows = 4\n", ["has no generation", "add generation ="]),
    ('generation = "wse2"\nmesh_rows = 4\n', ["add them", "base ="]),
    ("mesh_rows = \n", ["not TOML", "line 1"]),
]


@pytest.mark.parametrize(("text", "says"), WAFERS, ids=[w[0][:36].replace("\n", " ") for w in WAFERS])
def test_a_wafer_file_that_cannot_be(wse: Wse, tiny: Path, tmp_path: Path, text: str, says: list[str]) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    line = refused(wse, tmp_path, "run", tiny, *IDS, "--wafer", file)
    assert [part for part in [*says, "mine.toml"] if part not in line] == [], line


def test_a_trace_below_a_file(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    line = refused(wse, tmp_path, "run", tiny, *IDS, "--trace", tiny / "config.json" / "run.h5")
    assert "is not a folder" in line


@pytest.mark.parametrize("data", [b"", b"no trace at all", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_a_trace_that_is_none(wse: Wse, empty: Path, data: bytes) -> None:
    (empty / "odd.h5").write_bytes(data)
    assert "odd.h5" in refused(wse, empty, "inspect", "odd.h5")


def test_bad_input_comes_before_anything_is_compiled(
    wse: Wse, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("wse.studies.compile.choose.compile_program", never)
    refused(wse, tmp_path, "run", tiny, *IDS, "--trace", "none/run.h5")
    refused(wse, tmp_path, "run", tiny, "--prompt-ids", "99")


def test_a_damaged_weight_file_is_refused_also_where_nothing_runs(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    (tiny / "model.safetensors").write_bytes(b"")
    refused(wse, tmp_path, "compile", tiny)


def test_a_single_bad_value_is_named_not_dumped(wse: Wse, tiny: Path, tmp_path: Path) -> None:
    """A config of a megabyte gives a line that a screen holds."""
    config = json.loads((tiny / "config.json").read_text())
    (tiny / "config.json").write_text(json.dumps(config | {"hidden_size": "x" * 10**6}))
    assert len(refused(wse, tmp_path, "run", tiny, *IDS)) < 1000
