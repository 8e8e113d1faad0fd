"""Token ids at the start of a pass: those that the host sends, and those that PEs store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from wse.backends.execute.host_memory.arena import Arena
from wse.program.phase import Phase
from wse.program.program import Program
from wse_mappings.cuts.split import balanced_counts


class InputIds:
    """Token ids of a Program's next pass, on the host and in the SRAM of the embedding's stage.

    Args:
        program: The Program.
        arenas: SRAM of the stages in this process; the key is the stage.
    """

    def __init__(self, program: Program, arenas: Mapping[int, Arena]) -> None:
        self._program = program
        stage = next(i for i, stage in enumerate(program.stages) if stage.has_embedding)
        self._rows, self._arena = program.stages[stage].rect.rows, arenas.get(stage)

    def sent_ids(self, phase: Phase, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        """Return the ids that the host sends in a phase, in the order of their arrival.

        If the tokens of a prompt chunk are divided among the rows of PEs, the ids of each row are
        padded to the same number.

        Args:
            phase: The phase.
            ids: Tokens of a prompt chunk, or other ids that the phase receives from the host.
        """
        chunk = np.array(ids, np.float32)
        if phase.name != "prefill" or not phase.on_mesh:
            return chunk
        tokens_by_row = balanced_counts(phase.tokens, self._rows)
        padded = np.zeros((self._rows, int(tokens_by_row.max())), np.float32)
        padded[np.arange(padded.shape[1]) < tokens_by_row[:, None]] = chunk
        return padded.reshape(-1)

    def store(self, first: int, tokens: Sequence[int]) -> None:
        """Store token ids on all PEs of the stage that has the embedding table.

        Nothing is done if that stage is in another process.

        Args:
            first: Position of the first id. There is one position per user, followed by those of a
                verification pass.
            tokens: The ids.
        """
        if self._arena is not None and tokens:
            address = self._program.ids_address + first
            self._arena.view("float32")[:, address : address + len(tokens), :] = np.array(tokens, np.float32)[:, None]
