"""``inputs`` of a result: the options of a request on wafers, with defaults filled in."""

from __future__ import annotations

from wse.serving.prices import prices_text
from wse.studies.estimate.prepare import PreparedEstimate
from wse.studies.options.settings import replaced_numbers


def inputs(prepared_estimate: PreparedEstimate) -> dict[str, str | int | float]:
    """Return the options of a request with defaults filled in, keyed by the option's name.

    ``region`` is included only if the user gave it, not if the mapping chose it.
    """
    request, options = prepared_estimate.request, prepared_estimate.options
    values = {
        "model": str(request.model),
        "wafer": str(request.machine.wafer),
        "mesh": "{}x{}".format(*prepared_estimate.fabric_shape),
        "wafers": "auto" if request.wafers is None else request.wafers,
        "mapping": options.mapping_name,
        "region": request.layout.region,
        "experts": None if prepared_estimate.spec.experts is None else options.experts,
        "place_experts": None if request.layout.place_experts is None else str(request.layout.place_experts),
        "schedule": options.schedule,
        "all_reduce": request.layout.all_reduce,
        "software": str(request.machine.software),
        "dtype": options.dtype,
        "activations": options.activation_type,
        "accumulate": options.accumulate,
        "workload": request.workload.workload_name,
        "think_time": prepared_estimate.shape.think_s or None,
        "prompt_len": prepared_estimate.prompt_len,
        "prefix_tokens": options.prefix_tokens or None,
        "new_tokens": prepared_estimate.new_tokens,
        "batch": options.batch,
        "users": request.serving.users,
        "replicas": None if request.replicas == 1 else request.replicas or "auto",
        "objective": prepared_estimate.goal.objective,
        "routing": None if options.routing.is_even else options.routing.name,
        "verify_tokens": request.verify_tokens,
        "draft": request.draft,
        "draft_model": None if request.drafts.draft_model is None else str(request.drafts.draft_model),
        "draft_place": request.drafts.draft_place,
        "context": options.context,
        "capacity": options.capacity,
        "price": prices_text(request.costs.price),
        **replaced_numbers(request),
        "defects": None if request.machine.defects is None else str(request.machine.defects),
        "defects_seed": request.machine.defects_seed if request.machine.defects else None,
    }
    return {name: value for name, value in values.items() if value is not None}
