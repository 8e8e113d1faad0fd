"""Bundled models on bundled GPUs, as claims need them."""

from __future__ import annotations

from wse.models.catalogue import CONFIGURATIONS
from wse.models.configs.config import read_config
from wse.serving.deployment.gpus import GpuDeployment
from wse.serving.economics import load_gpu_economics
from wse.serving.gpus.load import load_gpu, load_stack
from wse.serving.gpus.roofline import Parallelism
from wse.serving.gpus.server import GpuServer
from wse.serving.gpus.weights import weight_format
from wse.serving.operating_point import RequestShape


def gpu_server(model: str, gpu: str, gpus: int, stack: str, dtype: str) -> GpuServer:
    """Return the timing model for a bundled model on GPUs with a given serving stack.

    Args:
        model: Name of a bundled model.
        gpu: Name of a bundled GPU.
        gpus: Number of GPUs that share the model.
        stack: Name of a serving stack (the software that serves the model), such as ``trtllm``.
        dtype: Element type of the weights.
    """
    spec, machine = read_config(CONFIGURATIONS[model]), load_gpu(gpu)
    return GpuServer(
        spec=spec,
        weights=weight_format(spec, dtype),
        gpu=machine,
        stack=load_stack(stack, machine.generation),
        parallelism=Parallelism(gpus=gpus),
    )


def gpu_deployment(
    model: str, gpu: str, gpus: int, stack: str, dtype: str, prompt: int = 1_024, new: int = 1_024
) -> GpuDeployment:
    """Return the deployment of a bundled model on GPUs, from which speed and cost are computed.

    The other arguments are the same as for `gpu_server`.

    Args:
        prompt: Number of tokens per prompt.
        new: Number of generated tokens per request.
    """
    server = gpu_server(model, gpu, gpus, stack, dtype)
    shape = RequestShape(prompt_tokens=prompt, new_tokens=new)
    return GpuDeployment(server=server, shape=shape, economics=load_gpu_economics(server.gpu))
