"""Placement: a model in one element type on one machine, of which drafts, users and tiers are variants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any, Literal

from wse.errors import BadInput
from wse.models.load import load_model
from wse.studies.estimate.request import EstimateRequest
from wse.studies.options.draft import SAME
from wse.studies.options.option import make_request, replace_options
from wse.studies.scenario.drafting import acceptance_text, draft_name
from wse.studies.scenario.form import AUTO, DEFAULT, DraftForm, MachineForm, ScenarioForm
from wse.studies.scenario.result import CombinationResult

WAFER, GPU = "wafer", "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What is compiled, or loaded, once.

    Attributes:
        form: The scenario.
        model: The model.
        dtype: Element type of its weights; None for that of its published weights.
        prompt_len: Tokens of each prompt.
        machine: The machine.
        chips: Its wafers or GPUs; None for the fewest that hold the model.
    """

    form: ScenarioForm
    model: str
    dtype: str | None
    prompt_len: int
    machine: MachineForm
    chips: int | None

    def __str__(self) -> str:
        dtype = "" if self.dtype is None else f" as {self.dtype}"
        chips = "" if self.chips is None else f" ({self.chips:,})"
        return f"{self.model}{dtype} on {machine_name(self.machine)}{chips}"

    @property
    def request(self) -> EstimateRequest:
        """The estimate of the placement, for one user or one batch of a stream, without drafts."""
        form, machine = self.form, self.machine
        shared: dict[str, Any] = {
            "model": self.model,
            "dtype": self.dtype,
            "prompt_len": self.prompt_len,
            "new_tokens": form.new_tokens,
            "economics": form.prices or None,
        }
        own: dict[str, Any]
        if machine.gpu is not None:
            own = {"gpu": machine.gpu, "gpus": self.chips, "stack": machine.stack, "parallelism": machine.parallelism}
        else:
            own = {
                "wafer": machine.wafer,
                "wafers": self.chips,
                "mesh": machine.mesh,
                "mapping": machine.mapping,
                "schedule": machine.schedule,
                "software": machine.software,
                "experts": machine.experts,
                "batch": machine.batch,
            }
        return make_request(EstimateRequest, **shared, **own)

    @property
    def users(self) -> list[float | str]:
        """The numbers of users that are asked for: with tiers the speeds of the ordinary one."""
        form = self.form
        return list(form.batch.users if form.tiers is None else form.tiers.plain_speed)

    def combination(self, draft: DraftForm, users: float | str, **found: Any) -> CombinationResult:
        """The combination with a draft and users, and what was ``found`` of it, in place of what was asked for."""
        asked: dict[str, Any] = {
            "model": self.model,
            "parameters": 0,
            "dtype": self.dtype or _published_type(self.model),
            "machine": machine_name(self.machine),
            "kind": kind_of(self.machine),
            "chips": self.chips,
            "prompt_len": self.prompt_len,
            "users": users,
            "drafts": draft_name(draft),
        }
        return CombinationResult(**asked | found)

    def impossible(self, reason: str, **found: Any) -> tuple[CombinationResult, ...]:
        """All combinations of a placement that cannot be."""
        return tuple(
            self.combination(draft, users, ruled_out_by=(reason,), **found)
            for draft in self.form.drafts
            for users in (self.users if self.form.tiers is None else [1] * len(self.users))
        )


@cache
def _published_type(model: str) -> str:
    """Return the type of the published weights of a model; "its own type" for one that cannot be loaded."""
    try:
        return load_model(model, with_weights=False).spec.weight_type
    except BadInput:
        return "its own type"


def with_draft(request: EstimateRequest, draft: DraftForm) -> EstimateRequest:
    """A request with the drafts of a scenario."""
    place = None if draft.place == SAME else draft.place
    return replace_options(request, draft=acceptance_text(draft), draft_model=draft.model, draft_place=place)


def placements_of(form: ScenarioForm) -> Iterator[Placement]:
    """The placements of a scenario, machine by machine."""
    machines = [(machine, chips) for machine in form.machines for chips in chip_counts(machine)]
    models = [(model, dtype) for models in form.models for model, dtype in product(models.name, models.dtype)]
    for (machine, chips), (model, dtype), prompt_len in product(machines, models, form.prompt_len):
        yield Placement(
            form=form,
            model=model,
            dtype=None if dtype == DEFAULT else dtype,
            prompt_len=prompt_len,
            machine=machine,
            chips=None if chips == AUTO else int(chips),
        )


def chip_counts(machine: MachineForm) -> list[int | Literal["auto"]]:
    """The numbers of wafers or GPUs that are asked for."""
    return machine.wafers if machine.gpu is None else machine.gpus


def kind_of(machine: MachineForm) -> str:
    """``wafer`` or ``gpu``."""
    return WAFER if machine.gpu is None else GPU


def machine_name(machine: MachineForm) -> str:
    """A machine as rows call it: by its name, or by what it is."""
    if machine.name is not None:
        return machine.name
    if machine.gpu is None:
        return str(machine.wafer)
    return f"{machine.gpu}, {machine.stack or 'vllm'}"
