"""The type of weights: by default that of the published weights, on wafers and on GPUs."""

from __future__ import annotations

import pytest

from wse.errors import UnknownName
from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.models.tensors.model_tensors import stored_bytes
from wse.studies.estimate.gpus.prepare import prepare_gpu_estimate
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.basis import load_basis
from wse.studies.options.option import make_request, replace_options

TYPES = {"deepseek-r1": "fp8", "kimi-k2": "fp8", "kimi-k2.6": "int4", "gpt-oss-120b": "mxfp4", "llama-2-7b": "float16"}


@pytest.mark.parametrize(("model", "dtype"), TYPES.items())
def test_wafers_and_gpus_use_the_type_of_the_published_weights(model: str, dtype: str) -> None:
    request = make_request(EstimateRequest, model=model, prompt_len=64, new_tokens=64)
    basis = load_basis(request)
    assert basis.dtype == dtype
    assert basis.activations == (None if dtype == "float16" else "bfloat16")
    assert prepare_gpu_estimate(replace_options(request, gpu="h200", gpus=8)).server.weights.name == dtype


@pytest.mark.parametrize("dtype", ["bfloat16", "fp8", "int4"])
def test_a_type_that_is_asked_for_is_that_of_both_machines(dtype: str) -> None:
    request = make_request(EstimateRequest, model="gpt-oss-20b", dtype=dtype, prompt_len=64, new_tokens=64)
    assert load_basis(request).dtype == dtype
    assert prepare_gpu_estimate(replace_options(request, gpu="h200", gpus=8)).server.weights.name == dtype
    with pytest.raises(UnknownName, match="nvfp4"):
        load_basis(replace_options(request, dtype="nvfp4"))  # which wafers have no coding for


@pytest.mark.parametrize(("model", "total_bytes"), [("gpt-oss-20b", 13_761_264_768), ("gpt-oss-120b", 65_248_815_744)])
def test_a_model_has_the_bytes_of_its_published_checkpoint(model: str, total_bytes: int) -> None:
    """``total_size`` of model.safetensors.index.json of the repositories of openai."""
    spec = read_config(CONFIGURATIONS[model])
    assert stored_bytes(spec, spec.weight_type, 2) == total_bytes
