"""Tests of request arguments: values of each type, units, settings, weight types, and refusals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pytest

import wse
from wse.errors import BadInput, UnknownName
from wse.hardware.load import load_software, load_wafer
from wse.hardware.quantity import TOKEN, is_time
from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.models.tensors.model_tensors import stored_bytes
from wse.option import Option
from wse.serving.gpus.weights import model_bytes, weight_format
from wse.studies.compare.request import CompareRequest
from wse.studies.compile.request import CompileRequest
from wse.studies.estimate.gpus.prepare import prepare_gpu_estimate
from wse.studies.estimate.prepare import prepare_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.arguments import argument_value, checks_arguments, read_request
from wse.studies.options.basis import load_basis
from wse.studies.options.option import RequestField, make_request, options_of, replace_options
from wse.studies.options.settings import with_settings
from wse.studies.run.request import RunRequest
from wse.studies.serve_sim.request import ServeRequest


def halves(text: str) -> tuple[float, ...]:
    """Parse numbers separated by commas, and halve them, so that the test sees that this parser was used."""
    return tuple(float(part) / 2 for part in text.split(","))


@dataclass(frozen=True, kw_only=True)
class ToyRequest:
    """A request with an option of each kind; `internal` is no option."""

    kind: Annotated[str, Option(doc="A name.", metavar="NAME", positional=True, required=True)] = "story"
    count: Annotated[int | None, Option(doc="A count; ignored with --verbose.", metavar="N|auto", none="auto")] = None
    factors: Annotated[tuple[float, ...] | None, Option(doc="Factors.", flag="--halved-factors", read=halves)] = None
    verbose: Annotated[bool, Option(doc="A flag.")] = False
    ratio: Annotated[float, Option(doc="A number.", metavar="R")] = 0.5
    groups: Annotated[
        Sequence[int] | Sequence[Sequence[int]] | None, Option(doc="Groups of numbers.", repeats=True)
    ] = None
    length: Annotated[int, Option(doc="A number of tokens.", metavar="TOKENS", unit="token")] = 1
    wait: Annotated[float | None, Option(doc="A time in s.", metavar="TIME", unit="s")] = None
    latency: Annotated[float, Option(doc="A time in µs.", metavar="TIME", unit="µs")] = 1.0
    internal: int = 3


@checks_arguments(ToyRequest)
def toy_request(
    source: str,
    kind: str,
    *,
    count: int | str | None = None,
    halved_factors: Sequence[float] | str | None = None,
    verbose: bool = False,
    ratio: float | str = 0.5,
    groups: Sequence[int] | Sequence[Sequence[int]] | None = None,
    length: int | str = 1,
    wait: float | str | None = None,
    latency: float | str = 1.0,
    on_done: Any = None,
) -> ToyRequest:
    """Return the request; `source` and `on_done` are no options."""
    assert (source, on_done) == ("old", None)
    return read_request(ToyRequest, locals())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kind": Path("a/b")}, {"kind": "a/b"}),
        ({"count": "auto"}, {"count": None}),
        ({"length": "4k"}, {"length": 4_096}),
        ({"wait": "200ms"}, {"wait": 0.2}),
        ({"latency": "5us"}, {"latency": 5.0}),
        ({"count": np.int64(4)}, {"count": 4}),
        ({"halved_factors": "2,3"}, {"factors": (1.0, 1.5)}),
        ({"halved_factors": [2, 3.5]}, {"factors": (2.0, 3.5)}),
        ({"ratio": "1.5k"}, {"ratio": 1_500.0}),
        ({"groups": np.arange(3)}, {"groups": (0, 1, 2)}),
        ({"groups": [[1], (2, 3)]}, {"groups": ((1,), (2, 3))}),
    ],
    ids=str,
)
def test_values_are_converted_to_the_types_of_the_request(given: dict[str, Any], expected: dict[str, Any]) -> None:
    arguments = {"kind": "story"} | given
    assert toy_request("old", **arguments) == ToyRequest(**({"kind": "story"} | expected))
    assert repr(toy_request("old", **arguments)) == repr(ToyRequest(**({"kind": "story"} | expected)))


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("wafer", "WSE3", "wse3"),
        ("mapping", "Bands", "bands"),
        ("model", "LLAMA-3.1-8B", "llama-3.1-8b"),
        ("dtype", "FP8", "fp8"),
        ("wafer", "WSE9", "WSE9"),
        ("defects", "A.csv", "A.csv"),
    ],
)
def test_names_ignore_case(
    name: str, given: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    field = options_of(EstimateRequest)[name]
    assert (field.value(given), argument_value(field, given)) == (expected, expected)
    (tmp_path / given).touch()
    assert field.value(given) == given  # the name of an existing file is kept


@pytest.mark.parametrize("request_class", [EstimateRequest, RunRequest, CompareRequest, ServeRequest])
def test_options_that_count_tokens_have_the_metavar_tokens(request_class: type) -> None:
    for field in options_of(request_class).values():
        assert (field.option.unit == TOKEN) == (field.option.metavar == "TOKENS"), field.flag
        if field.type is int:
            assert field.option.unit == TOKEN or "token" not in field.name, field.flag


@pytest.mark.parametrize(
    ("request_class", "name", "text", "value"),
    [
        (CompareRequest, "link_latency_us", "5us,500ns,0.02ms", (5.0, 0.5, 20.0)),
        (CompareRequest, "link_gb_per_s", "150GB/s,8,2.4TB/s", (150.0, 8.0, 2_400.0)),
        (CompareRequest, "wafers", "1,1k", (1, 1_000)),
        (CompareRequest, "mappings", "Auto,bands,Mine", ("auto", "bands", "Mine")),
        (ServeRequest, "prompt_len", "4k", 4_096),
        (ServeRequest, "ttft", "200ms", 0.2),
        (ServeRequest, "kv_latency", "5us", 5.0),
        (ServeRequest, "kv_bandwidth", "2.4TB/s", 2_400.0),
    ],
)
def test_values_accept_units_and_prefixes(request_class: type, name: str, text: str, value: Any) -> None:
    field = options_of(request_class)[name]
    assert (field.value(text), argument_value(field, text)) == (value, value)


EVERY_REQUEST: Final = (CompileRequest, EstimateRequest, RunRequest, CompareRequest, ServeRequest)
NUMBERS: Final = [
    field
    for field in {field.flag: field for kind in EVERY_REQUEST for field in options_of(kind).values()}.values()
    if field.type is float or is_time(field.option.unit)
]


@pytest.mark.parametrize("field", NUMBERS, ids=lambda field: field.flag)
def test_times_need_a_unit_and_other_numbers_accept_a_prefix(field: RequestField) -> None:
    if is_time(field.option.unit):
        assert field.option.metavar.startswith("TIME")
        assert field.value("0") in (0.0, (0.0,))
        with pytest.raises(BadInput, match=rf"{field.flag} '500': give a unit, such as (200ms|5us) or "):
            field.value("500")
    elif field.option.unit == "":
        assert field.value("1.5k") == 1_500.0
        with pytest.raises(BadInput, match=rf"{field.flag} '1ms': give a number, such as 0.8 or 10k$"):
            field.value("1ms")


def test_iterators_are_read_completely() -> None:
    assert toy_request("old", "story", groups=iter([[1, 2], [3]])).groups == ((1, 2), (3,))
    assert toy_request("old", "story", halved_factors=iter([2, 4])).factors == (2.0, 4.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": 3}, "kind=3: give a text"),
        ({"count": 2.5}, "count=2.5: give a whole number or None (N|auto)"),
        ({"count": True}, "count=True: give a whole number or None (N|auto)"),
        ({"count": "many"}, "--count 'many': give a whole number, such as 8, or auto"),
        ({"length": "4.1k"}, "--length '4.1k': give a whole number of tokens, such as 4096 or 128k"),
        ({"wait": "200"}, "--wait '200': give a unit, such as 200ms or 0.2s"),
        ({"wait": "soon"}, "--wait 'soon': give a number with its unit, such as 200ms or 0.2s"),
        ({"latency": "5kg"}, "--latency '5kg': give a number with its unit, such as 5us or 500ns"),
        ({"verbose": 1}, "verbose=1: give True or False"),
        ({"halved_factors": 2}, "halved_factors=2: give a list of numbers or None"),
        ({"halved_factors": ["x"]}, "halved_factors=['x']: give a list of numbers or None"),
        ({"ratio": "much"}, "--ratio 'much': give a number, such as 0.8 or 10k"),
        ({"groups": {1: 2}}, "groups={1: 2}: give a list of whole numbers or a list of lists of whole numbers or None"),
    ],
    ids=str,
)
def test_value_of_another_type_is_refused_in_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as caught:
        toy_request("old", **({"kind": "story"} | given))
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("positional", "named", "message"),
    [
        (["old"], {}, "wse.toy_request: missing a required argument: 'kind'"),
        (["old", "story", 3], {}, "wse.toy_request: too many positional arguments"),
        (
            ["old", "story"],
            {"coun": 3},
            "wse.toy_request: unknown argument 'coun': did you mean 'count'? known: count, ",
        ),
        (["old", "story"], {"internal": 3}, "wse.toy_request: unknown argument 'internal': known: count, "),
    ],
    ids=str,
)
def test_call_with_wrong_arguments_raises_type_error(
    positional: list[Any], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        toy_request(*positional, **named)
    assert str(caught.value).startswith(message)


PLAIN = {"mapping": "region", "schedule": "baseline"}
QUICK = make_request(EstimateRequest, model="story", wafer="wse2", software="academic", prompt_len=4, new_tokens=4)


def test_settings_replace_the_numbers_of_presets() -> None:
    settings = ("wafer.clock_hz=x2", "wafer.sram_bytes_per_pe=96KiB", "software.relay_cycles=x0.5")
    prepared = prepare_estimate(replace_options(QUICK, settings=settings))
    plain, costs = load_wafer("wse2"), load_software("academic", "wse2")
    assert prepared.whole == replace(plain, clock_hz=2 * plain.clock_hz, sram_bytes_per_pe=96 * 1024)
    assert prepared.software == replace(costs, relay_cycles=costs.relay_cycles // 2)
    assert isinstance(prepared.whole.sram_bytes_per_pe, int)


def test_factor_applies_to_the_requested_wafer() -> None:
    of_wafer = {
        name: with_settings(replace_options(QUICK, wafer=name, settings=("wafer.clock_hz=x2",)))
        for name in ("wse2", "wse3")
    }
    clocks = {name: dict(request.machine.wafer_values)["clock_hz"] for name, request in of_wafer.items()}
    assert clocks == {name: 2 * load_wafer(name).clock_hz for name in clocks}
    assert clocks["wse2"] != clocks["wse3"]


def test_estimate_uses_and_reports_the_settings() -> None:
    options = {"mesh": "24x24", "wafer": "wse2", "prompt_len": 8, "new_tokens": 4, **PLAIN}
    plain = wse.estimate("story", **options)
    fast = wse.estimate("story", **options, set="wafer.clock_hz=x2")
    assert fast.decode.cycles_per_token == plain.decode.cycles_per_token
    assert fast.decode.tokens_per_s_per_user == pytest.approx(2 * plain.decode.tokens_per_s_per_user)
    assert fast.wafer.replaced == {"wafer.clock_hz": 2 * plain.wafer.clock_hz}
    assert fast.inputs["wafer.clock_hz"] == fast.wafer.clock_hz
    assert fast.grades["decode.tokens_per_s_per_user"].grade == "U"
    assert plain.wafer.replaced is None


@pytest.mark.parametrize("options", [{"users": 4}, {"batch": 4}, {"users": 4, "batch": 4}, {}], ids=str)
def test_gpu_inputs_name_the_given_option(options: dict[str, int]) -> None:
    inputs = wse.estimate("llama-3-8b", gpu="h100", gpus=1, **options).inputs
    numbers = {name: inputs[name] for name in ("users", "batch") if name in inputs}
    assert numbers == ({"batch": 4} if options == {"batch": 4} else {"users": options.get("users", 1)})


TYPES = {"deepseek-r1": "fp8", "kimi-k2.6": "int4", "gpt-oss-120b": "mxfp4", "llama-2-7b": "float16"}


@pytest.mark.parametrize(("model", "dtype"), TYPES.items())
def test_wafers_and_gpus_use_the_type_of_the_published_weights(model: str, dtype: str) -> None:
    request = make_request(EstimateRequest, model=model, prompt_len=64, new_tokens=64)
    basis = load_basis(request)
    assert basis.dtype == dtype
    assert basis.activations == (None if dtype == "float16" else "bfloat16")
    assert prepare_gpu_estimate(replace_options(request, gpu="h200", gpus=8)).server.weights.name == dtype


def test_requested_type_is_used_on_wafers_and_gpus() -> None:
    request = make_request(EstimateRequest, model="gpt-oss-20b", dtype="int4", prompt_len=64, new_tokens=64)
    assert load_basis(request).dtype == "int4"
    assert prepare_gpu_estimate(replace_options(request, gpu="h200", gpus=8)).server.weights.name == "int4"
    with pytest.raises(UnknownName, match="nvfp4"):
        load_basis(replace_options(request, dtype="nvfp4"))  # wafers cannot store this type


@pytest.mark.parametrize(("model", "total_bytes"), [("gpt-oss-20b", 13_761_264_768), ("gpt-oss-120b", 65_248_815_744)])
def test_model_has_the_bytes_of_its_published_checkpoint(model: str, total_bytes: int) -> None:
    """The sizes are ``total_size`` in model.safetensors.index.json of OpenAI's repositories on Hugging Face."""
    spec = read_config(CONFIGURATIONS[model])
    assert stored_bytes(spec, spec.weight_type, 2) == total_bytes
    assert model_bytes(spec, weight_format(spec)) == total_bytes


@pytest.mark.parametrize("model", ["deepseek-r1", "kimi-k2.6", "gemma-3-27b", "qwen3-next-80b-a3b"])
def test_published_weights_have_the_same_size_on_wafers_and_gpus(model: str) -> None:
    spec = read_config(CONFIGURATIONS[model])
    assert model_bytes(spec, weight_format(spec)) == stored_bytes(spec, spec.weight_type, 2)
