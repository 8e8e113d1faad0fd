"""Tests of predictions of inference on a wafer: how rows are read, and relations between their predictions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.measurement_rows import rows_of
from wse.hardware.compute_engine import load_compute_engine
from wse.studies.validate.kernel_model.described_run import mean_context
from wse.studies.validate.kernel_model.kernel_work import chunk_tokens
from wse.studies.validate.kernel_model.reduce_time import _depth, _grouped_reduce
from wse.studies.validate.predictors.predict import predict
from wse.studies.validate.result import CONSTANT_OF_PROFILE


def value_of(**cells: str) -> float:
    """Return the predicted value of a row with changed cells."""
    (m,) = rows_of(cells)
    assert m.fault == ""
    prediction = predict(m)
    assert prediction.value is not None, prediction.reason
    assert prediction.software == "epcc"
    return prediction.value


def reason_of(**cells: str) -> str:
    """Return the reason why a row with changed cells has no prediction, or an empty text."""
    (m,) = rows_of(cells)
    return predict(m).reason


STEP = {"metric": "cycles per decode step"}
FORCED = {"phase": "decode-pipelined", "metric": "cycles per token, forced tokens"}
ATTENTION = {"phase": "layer-attention", "metric": "ATTN cycles per layer"}
NO_SHAPE = {"block_rows": "", "block_cols": ""}
LINKED = {"phase": "sram", "unit": "bytes per PE", "kind": "compiled (link)"}
FFN = {"phase": "layer-ffn", "metric": "FFN cycles per layer"}


def test_step_time_grows_with_context_batch_and_candidates() -> None:
    base = value_of(**STEP)
    assert value_of(**STEP, context_min="12288", context_max="16384", context_mean="14336") > base
    assert base < value_of(**STEP, batch="2") < 2 * base
    assert value_of(**STEP, settings="TOP_K 4") < base


def test_step_time_is_that_of_its_layers_plus_the_rest() -> None:
    assert value_of(phase="layer-attention", metric="T_attn per layer (block of 9 layers)") == value_of(**ATTENTION)
    layers = 36 * (value_of(**ATTENTION) + value_of(**FFN))
    assert layers < value_of(**STEP) < 1.25 * layers


def test_ffn_time_does_not_depend_on_the_context() -> None:
    longer = {"context_mean": "20000", "context_max": "22784"}
    assert value_of(**FFN) == value_of(**FFN, **longer)
    assert value_of(**ATTENTION) < value_of(**ATTENTION, **longer)


def test_forced_tokens_take_the_time_of_the_slowest_stage() -> None:
    attention, ffn = value_of(**ATTENTION), value_of(**FFN)
    assert value_of(**FORCED, n_stages="8") == pytest.approx(9 * max(attention, ffn))
    assert 9 * (attention + ffn) < value_of(**FORCED) < 1.01 * 9 * (attention + ffn)


def test_fewer_stages_take_longer_because_each_has_more_blocks() -> None:
    row = value_of(**FORCED)
    assert value_of(**FORCED, n_blocks="") == row
    assert 2 * row < value_of(**FORCED, n_stages="2") < 2.1 * row
    assert 4 * row < value_of(**FORCED, n_stages="1") < value_of(**STEP)
    three = {
        **FORCED,
        "n_blocks": "3",
        "n_stages": "3",
        "layers_per_stage": "1",
        "metric": "A1|A2|FFN, cycles per token",
    }
    a1, a2 = (value_of(phase="attention-phase", metric=name) for name in ("A1", "A2"))
    assert value_of(**three) == pytest.approx(max(a1, a2, value_of(**FFN)))


@pytest.mark.parametrize(
    ("metric", "parts"),
    [
        ("phase group: score + softmax + P.V", ("score", "softmax", "P.V")),
        ("phase: QKV projection and residual", ("QKV", "residual")),
        ("scan = K/V write + score + softmax + P.V", ("score", "softmax", "P.V")),
        ("F1 + F2", ("F1", "F2")),
        ("phase: QK-norm + RoPE", ("QK-norm", "RoPE")),
        (ATTENTION["metric"], ("QKV", "QK-norm + RoPE", "score", "softmax", "P.V", "O-proj", "residual")),
    ],
)
def test_group_of_phases_takes_the_sum_of_its_phases(metric: str, parts: tuple[str, ...]) -> None:
    total = value_of(phase=ATTENTION["phase"] if metric in ATTENTION.values() else "attention-phase", metric=metric)
    assert total == pytest.approx(sum(value_of(phase="attention-phase", metric=part) for part in parts))


def test_part_of_a_phase_takes_less_than_the_phase() -> None:
    silu, product = (value_of(phase="ffn-phase", metric=f"phase: {name}") for name in ("SiLU", "up/gate GEMV"))
    assert silu + product < value_of(phase="ffn-phase", metric="F1")


@pytest.mark.parametrize(
    "settings",
    ["CHUNK 1,024", "chunk size 1024", "chunk of 1024", "CHUNK_SIZE=1024", "CHUNK=1024", "1,024-token chunks"],
)
def test_chunk_size_is_read_from_settings(settings: str) -> None:
    (m,) = rows_of({"settings": settings})
    assert chunk_tokens(m) == 1024


def test_reused_prefix_may_be_in_percent_or_tokens() -> None:
    cells = {"phase": "prefill", "model": "qwen3-1.7b", "settings": "CHUNK 256", "prompt_len": "8192"}
    texts = ("25 % prefix reused", "2,048 tokens reused", "25 % prefix reused (start chunk 8)")
    assert len({value_of(**cells, metric=f"cycles for a prompt, {text}") for text in texts}) == 1
    assert value_of(**{**cells, "prompt_len": "9999999", "settings": "CHUNK 1"}, metric="cycles") > 0


def test_steps_without_the_tail_and_spans_of_steps_are_predicted() -> None:
    step = value_of(**STEP)
    tail = value_of(phase="head", metric="HT tail as a stage", **NO_SHAPE)
    assert value_of(metric="cycles per decode step without tail") == pytest.approx(step - tail)
    assert value_of(metric="cycles for 256 free tokens") == pytest.approx(256 * step)
    mixed = {"gen_tokens": "256", "prompt_len": "256", "context_min": "", "context_max": "", "context_mean": ""}
    assert 47 < value_of(metric="span with F=209, prefill 256", **mixed) / step < 100


def test_messages_are_read_from_the_metric() -> None:
    ring = {"phase": "hop", "unit": "us", "model": "none", **NO_SHAPE}
    assert value_of(**ring, metric="ring, payload 40 KB (pinned)") == value_of(**ring, metric="ring of 40 KB")
    three = value_of(**ring, metric="part of the ring in the three 1x256 store-and-forward columns")
    assert three == pytest.approx(
        1.5 * value_of(**ring, metric="part of the ring in the two 1x256 store-and-forward columns")
    )
    assert "part of the message" in reason_of(**ring, metric="part of the ring that is spent elsewhere")
    line = {"phase": "allreduce"}
    band = value_of(**line, metric="band all-reduce over 32 columns, 64 words")
    assert band < value_of(**line, metric="Y all-reduce of 1,188 f32 over 256 rows")
    ordinary = {**line, "metric": "ordinary Y all-reduce over 256 rows"}
    assert value_of(**ordinary, unit="us") == pytest.approx(value_of(**ordinary) / 750)
    assert reason_of(**line, metric="broadcast over 256 rows")
    multicast = {"phase": "hop", "metric": "router multicast of 64 B along a line of 256 receivers"}
    median_value = value_of(**{**multicast, "metric": f"{multicast['metric']}, median"})
    assert median_value - value_of(**multicast) == pytest.approx(load_compute_engine("epcc").task_cycles)


def test_memory_grows_with_the_batch_or_is_a_constant_of_the_profile() -> None:
    cache = {**LINKED, "metric": "decode ATTN: KV cache"}
    assert value_of(**cache, batch="4") == 4 * value_of(**cache)
    assert value_of(**{**cache, "unit": "KB per PE"}) == value_of(**cache) / 1024
    methods = [predict(rows_of({**LINKED, "metric": f"decode ATTN: {item}"})[0]).method for item in ("code", "weights")]
    assert methods == [CONSTANT_OF_PROFILE, "compute-engine model"]


def test_verified_forced_tokens_make_the_output_head_a_stage() -> None:
    one_layer = {**FORCED, "n_blocks": "2", "n_stages": "2", "layers_per_stage": "1"}
    verified = {**one_layer, "metric": "cycles per token, forced tokens, verify"}
    assert value_of(**verified) > value_of(**one_layer)
    assert value_of(**verified, settings="TOP_K 4") < value_of(**verified)


def test_blocks_with_fewer_rows_take_longer_per_layer() -> None:
    thin = {"block_rows": "64", "n_blocks": "36", "n_stages": "36", "layers_per_stage": "2"}
    assert value_of(**ATTENTION, **thin) > value_of(**ATTENTION)
    assert value_of(**STEP, **thin) > value_of(**STEP)


def test_blocks_with_whole_layers_are_recognized_by_their_number() -> None:
    shared = {"model": "qwen3-1.7b", "layers_per_stage": "2-4 (28 layers = 2,4,4,4,4,4,4,2)", "n_stages": "8"}
    assert value_of(**FORCED, **shared) < value_of(**STEP, **shared) / 6


def test_units_of_durations_and_rates_are_read() -> None:
    cycles = value_of(**STEP)
    assert value_of(metric="time per token", unit="us") == pytest.approx(cycles / 750)
    assert value_of(metric="time per token", unit="us at 0.85 GHz") == pytest.approx(cycles / 850)
    assert value_of(metric="tokens per second", unit="tok/s at 750 MHz") == pytest.approx(750e6 / cycles)


def test_two_wafers_add_messages_through_hosts() -> None:
    one, two = value_of(metric="time per token", unit="us"), value_of(metric="time per token", unit="us", wafers="2")
    assert 300 < two - one < 400


@pytest.mark.parametrize(
    ("size", "receivers", "cycles"), [(64, 1, 39), (512, 1, 165), (1024, 256, 563), (4096, 16, 1200)]
)
def test_multicasts_are_within_5_percent(size: int, receivers: int, cycles: float) -> None:
    metric = f"router multicast of {size} B along a line of {receivers} receivers"
    assert value_of(phase="hop", model="none", metric=metric) == pytest.approx(cycles, rel=0.05)


def test_prompt_is_computed_in_chunks_without_its_reused_prefix() -> None:
    cells = {"phase": "prefill", "model": "qwen3-1.7b", "layers_per_stage": "4", "settings": "CHUNK 256"}
    short, long = (value_of(**cells, metric="cycles", prompt_len=tokens) for tokens in ("1024", "8192"))
    assert 8 * short < long
    assert value_of(**cells, metric="cycles (start chunk 8)", prompt_len="8192") < long


def test_memory_of_a_pe_is_the_sum_of_its_items() -> None:
    cells = {**LINKED, "machine": "compiler"}
    items = ("code (.text)", "weights", "KV cache", "KV ingress", "RoPE", "activations", "system")
    used = value_of(**cells, metric="decode ATTN: used")
    assert sum(value_of(**cells, metric=f"decode ATTN: {item}") for item in items) == used
    assert value_of(**cells, metric="decode ATTN: free") == 49152 - used
    longer = value_of(**cells, metric="decode ATTN: used", context_max="16384")
    assert longer - used == 32 * 176
    assert value_of(**cells, metric="decode ATTN: KV cache", layers_per_stage="2") == 2 * 16 * 32


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"context_min": "", "context_max": "", "context_mean": ""}, "does not state the context"),
        ({"block_rows": ""}, "does not state the shape of a block"),
        ({"block_rows": "2000"}, "larger than the mesh"),
        ({"dtype_weights": "int4"}, "the element type of the weights"),
        ({"model": "gpt-9"}, "the sizes of the model 'gpt-9' are not known"),
        ({"machine": "SDK simulator (WSE-3)"}, "measured in a simulator"),
        ({"machine": "a workstation"}, "wafer generation"),
        ({"kind": "derived (floor subtracted)"}, "of the kind 'derived'"),
        ({"metric": "cycles per token with KV farm"}, "keeps the cache in other PEs"),
        ({"unit": "us at 0 GHz"}, "clock is no positive number"),
        ({"unit": "us at 1.1.1 GHz"}, "clock is no positive number"),
        ({"unit": "percent"}, "unit 'percent'"),
        ({**FORCED, "n_stages": ""}, "how many stages"),
        ({**FORCED, "prompt_len": "256", "metric": "forced segment of 9 tokens"}, "fewer than 1,000 forced tokens"),
        ({"phase": "ffn-phase", "metric": "phase: dispatch"}, "names 'dispatch'"),
        ({**LINKED, "metric": "HT tail: largest MAX_SEQ_LEN that links", "unit": "tokens"}, "stores no cache"),
        ({**LINKED, "metric": "ATTN: largest MAX_SEQ_LEN that links", "unit": "tokens", "block_rows": "4"}, "no room"),
        ({**LINKED, "metric": "decode ATTN: stack"}, "names no item"),
        ({**LINKED, "metric": "decode ATTN: used", "unit": "percent"}, "unit 'percent'"),
        (
            {**LINKED, "metric": "largest MAX_SEQ_LEN, 0x0", "unit": "tokens", "block_rows": "", "block_cols": ""},
            "empty",
        ),
        ({**LINKED, "metric": "decode ATTN: free", "block_rows": "32"}, "do not fit"),
        ({"metric": "time to first token"}, ""),
        ({"metric": "cycles per layer in a free step"}, ""),
        ({"metric": "ATTN busy of row 0 per token"}, ""),
        ({"metric": "cycles per verify pass of 4 drafts"}, ""),
        ({"metric": "share of the tail in a step"}, ""),
    ],
)
def test_rows_that_are_not_predicted_have_a_reason(cells: dict[str, str], reason: str) -> None:
    assert reason_of(**cells)
    assert reason in reason_of(**cells)


def test_mean_context_is_read_or_computed() -> None:
    def mean(**cells: str) -> float | None:
        return mean_context(rows_of({"context_min": "", "context_max": "", "context_mean": "", **cells})[0])

    assert mean(context_mean="6144", context_max="8192") == 6144
    assert mean(context_min="4096", context_max="8192") == 6144
    assert mean(context_max="2048") == 1524
    assert mean(prompt_len="256", gen_tokens="256") == 384
    assert mean(metric="T_attn, bsz 2 at 8K") == 7668
    assert mean() is None


@pytest.mark.parametrize("pes", [1, 2, 15, 16, 17, 64, 80, 256])
def test_grouped_reduce_adds_every_pe_once(pes: int) -> None:
    messages = _grouped_reduce(pes, 16).tolist() if pes > 1 else []
    sums = [1] * pes
    for source, target, _ in messages:
        sums[target] += sums[source]
    assert len({source for source, _, _ in messages}) == len(messages) == pes - 1
    assert max(sums) == pes
    assert _depth(256, 16) == 16


PHASES = ("decode", "decode-pipelined", "layer", "layer-ffn", "attention-phase", "prefill", "prefill-kernel", "sram")
METRICS = (
    "cycles per decode step",
    "phase: softmax",
    "silu_chunk",
    "ATTN: used",
    "5 forced + 3 free tokens",
    "span of 9 steps",
)
NUMBERS = st.sampled_from(["", "0", "1", "2", "33", "256", "900", "40000"])
NUMBER_COLUMNS = (
    *("block_rows", "block_cols", "n_blocks", "n_stages", "layers_per_stage", "batch", "wafers"),
    *("context_min", "context_max", "context_mean", "prompt_len", "gen_tokens"),
)


@given(
    st.sampled_from(PHASES),
    st.sampled_from(METRICS),
    st.sampled_from(["qwen3-1.7b", "qwen3-4b", "none"]),
    st.sampled_from(["", "TOP_K 0", "TOP_K 9999", "CHUNK 0", "CHUNK 1024"]),
    st.dictionaries(st.sampled_from(NUMBER_COLUMNS), NUMBERS),
)
def test_every_row_has_a_finite_prediction_or_a_reason(
    phase: str, metric: str, model: str, settings: str, cells: dict[str, str]
) -> None:
    (m,) = rows_of({"phase": phase, "metric": metric, "model": model, "settings": settings, **cells})
    prediction = predict(m)
    if prediction.value is None:
        assert prediction.reason
    else:
        assert math.isfinite(prediction.value)
        assert prediction.value > 0 or phase == "sram"
