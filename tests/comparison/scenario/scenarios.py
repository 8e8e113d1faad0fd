"""A small scenario as a mapping, in the format of scenario files, which tests change and extend."""

from typing import Any

LENGTHS: dict[str, Any] = {"prompt_len": 32, "new_tokens": 32}
WAFER: dict[str, Any] = {"name": "small", "wafer": "wse3", "mesh": "24x24", "mapping": "bands", "schedule": "baseline"}
GPU: dict[str, Any] = {"name": "one H100", "gpu": "h100", "gpus": 1, "stack": "vllm"}
FIGURE: dict[str, Any] = {
    "figure": "tokens_per_s_per_user",
    "value": 1000,
    "evidence": "invented",
    "by": "independent",
    "source": "nowhere",
}


def scenario(**changes: Any) -> dict[str, Any]:
    """Return a scenario of the story model on a small wafer; `changes` replace its keys, and None removes a key."""
    table = {"title": "A title", "question": "Which?", "models": [{"model": "story"}], "machines": [WAFER], **LENGTHS}
    return {key: value for key, value in (table | changes).items() if value is not None}
