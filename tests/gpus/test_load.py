"""Tests of loading GPUs and serving stacks: all bundled numbers have sources, and bad files are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.hardware.helpers import check_bundled
from wse.errors import BadWafer, UnknownName
from wse.hardware.number import numeric_fields
from wse.serving.gpus.load import GPU_PRESETS, STACK_PRESETS, known_gpus, known_stacks, load_gpu, load_stack
from wse.serving.gpus.spec import GENERATIONS, GpuSpec


@pytest.mark.parametrize("name", known_gpus())
def test_every_number_of_a_gpu_has_a_unit_and_a_source(name: str) -> None:
    numbers = GPU_PRESETS.read(name).numbers
    assert list(numbers) == list(numeric_fields(GpuSpec))
    check_bundled(numbers)


@pytest.mark.parametrize("name", known_stacks())
def test_every_constant_of_a_stack_has_a_source_and_a_value_per_generation(name: str) -> None:
    check_bundled(STACK_PRESETS.read(name).numbers)
    for generation in GENERATIONS:
        assert load_stack(name, generation).fitted_on


def test_published_numbers_of_gpus_are_loaded() -> None:
    assert load_gpu("H100").hbm_bytes_per_s == 3.35e12
    assert load_gpu("h100").flops_per_s(8) == 1978e12
    assert load_gpu("h100").flops_per_s(4) == 989e12, "4-bit weights are widened to 16 bits"
    assert load_gpu("a100").flops_per_s(4) == 312e12
    assert load_gpu("b200").flops_per_s(4.5) == 9000e12
    assert {"a100", "a100-40gb", "h100", "h200", "b200", "gb200"} <= {*known_gpus()}
    assert {"vllm", "trtllm"} <= {*known_stacks()}


def test_file_is_based_on_a_preset(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('base = "h100"\nhbm_bytes_per_s = 2e12\n')
    assert load_gpu(file) == replace(load_gpu("h100"), name="mine", hbm_bytes_per_s=2e12)
    assert GPU_PRESETS.read(str(file)).numbers["hbm_bytes_per_s"].grade == "U"
    file.write_text('base = "h100"\nhbm_bytes_per_s = "2TB/s"\nhbm_bytes = "96GiB"\n')
    assert load_gpu(file) == replace(load_gpu("h100"), name="mine", hbm_bytes_per_s=2e12, hbm_bytes=96 * 2**30)
    stack = tmp_path / "own.toml"
    stack.write_text('base = "vllm"\nexpert_layer_s = { hopper = 1e-5, blackwell = 2e-5, ampere = 3e-5 }\n')
    assert load_stack(stack, "blackwell").expert_layer_s == 2e-5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "h10"', "did you mean 'h100'"),
        ('base = "h100"\ngeneration = "hoper"', "did you mean 'hopper'"),
        ('base = "h100"\ngeneration = 3', "give a text"),
        ("hbm_bytes = 8", "add it, or begin with base"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises((BadWafer, UnknownName)) as refusal:
        load_gpu(file)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
