"""Placeable: a model, wafers and options, all that a compilation needs."""

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
    """A request with its model, wafer, software and options loaded, ready to be compiled.

    Attributes:
        loaded: The model, with its tokenizer and weights where they were loaded.
        whole: The wafer at full size.
        wafer: The wafer as programs see it: the part of it that they use, without dead PEs.
        software: Costs of software.
        options: Options of the compiler.
        new_tokens: Tokens generated for each user.
        defects: Dead PEs and links; None for none.
        meshes: Where the live PEs are on each wafer; empty where no PE is dead.
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
        """Rows and columns of PEs of each wafer, live or dead."""
        return self.meshes[0].fabric.shape if self.meshes else (self.wafer.mesh_rows, self.wafer.mesh_cols)

    @property
    def middle_context(self) -> list[int]:
        """Tokens before the token in the middle of the generated ones, by user."""
        return [min(tokens + self.new_tokens // 2, self.options.context - 1) for tokens in self.options.prompt_tokens]

    @property
    def middle_before_pass(self) -> int:
        """Tokens of the first user before a pass over several tokens in the middle of the generated ones."""
        return min(self.middle_context[0], self.options.context - self.options.verify_tokens)

    @property
    def spec(self) -> ModelSpec:
        """Shape and mathematics of the model."""
        return self.loaded.spec
