"""Placeable: a model, wafers and options that are ready to compile."""

from __future__ import annotations

from dataclasses import dataclass

from wse.compiler.options import Options
from wse.hardware.defects import Defects
from wse.hardware.live_mesh import Meshes
from wse.hardware.spec import SoftwareProfile, WaferSpec
from wse.models.load import LoadedModel
from wse.models.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placeable:
    """A request that is ready to be compiled: its model, wafer, software and options are loaded.

    Attributes:
        loaded: The model, with its tokenizer and weights if they were loaded.
        whole: The wafer at its full size, including dead PEs.
        wafer: The wafer as programs see it: the part in use, without dead PEs.
        software: Costs of the software on the wafer.
        options: Options of the compiler.
        new_tokens: Number of tokens to generate per user.
        defects: Dead PEs and links; None if there are none.
        meshes: Positions of the live PEs on each wafer; empty if no PE or link is dead.
    """

    loaded: LoadedModel
    whole: WaferSpec
    wafer: WaferSpec
    software: SoftwareProfile
    options: Options
    new_tokens: int
    defects: Defects | None = None
    meshes: Meshes = ()

    @property
    def fabric_shape(self) -> tuple[int, int]:
        """Number of PE rows and columns per wafer, including dead PEs."""
        return self.meshes[0].fabric.shape if self.meshes else (self.wafer.mesh_rows, self.wafer.mesh_cols)

    @property
    def tokens_per_user(self) -> int:
        """Number of tokens in the longest prompt and its answer."""
        return max(self.options.prompt_tokens) + self.new_tokens

    @property
    def middle_context(self) -> list[int]:
        """Tokens in each user's KV cache when half of the new tokens have been generated.

        Estimates use this cache length as the average of a run. Each number is at most the context
        minus one.
        """
        return [min(tokens + self.new_tokens // 2, self.options.context - 1) for tokens in self.options.prompt_tokens]

    @property
    def middle_before_pass(self) -> int:
        """Tokens in the first user's KV cache before a verification pass in the middle of a run.

        The number is limited so that the tokens of the pass still fit into the context.
        """
        return min(self.middle_context[0], self.options.context - self.options.verify_tokens)

    @property
    def spec(self) -> ModelSpec:
        """Shapes and properties of the model."""
        return self.loaded.spec
