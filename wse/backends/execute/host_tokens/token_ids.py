"""Token ids on the host: inputs of a pass, verified draft tokens, and results that engines share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from wse.backends.execute.calls.streams import Streams
from wse.backends.execute.engine_state import Caches
from wse.backends.execute.host_memory.arena import Arena
from wse.errors import BadInput
from wse.program.program import Program
from wse.program.steps import Phase, Slots
from wse_mappings.cuts.split import balanced_counts


class InputIds:
    """Provider of the token ids that a Program's next pass reads.

    The ids are sent by the host, or stored in the SRAM of the stage with the embedding table.

    Args:
        program: The compiled Program.
        arenas: Emulated SRAM of each stage in this process, keyed by the index of the stage.
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
            phase: Prefill chunk, decode pass or verification pass of the Program.
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
            first: Position at which the first id is stored. Position u is for the next token of
                user u. Positions from the number of users on are for a verification pass.
            tokens: The ids.
        """
        if self._arena is not None and tokens:
            address = self._program.ids_address + first
            self._arena.view("float32")[:, address : address + len(tokens), :] = np.array(tokens, np.float32)[:, None]


class VerifiedIds:
    """Token ids that the model predicted in the last verification pass of each user.

    A verification pass processes several tokens of one user, such as draft tokens. For each of
    them, the model predicts the id of the next token. The ids are stored until the caller has
    decided how many tokens of the pass to accept, and calls `keep`.
    """

    def __init__(self, program: Program, caches: Caches) -> None:
        self._program, self._caches = program, caches
        self._by_user: dict[int, list[int]] = {}

    def check(self, tokens: Sequence[int], user: int) -> None:
        """Raise an error if a user's next verification pass cannot run over the given tokens.

        Raises:
            BadInput: The number of tokens differs from the number that the Program verifies, or the
                tokens do not fit into the user's cache.
        """
        count, program = len(tokens), self._program
        if not program.verify_tokens or count != program.verify_tokens:
            raise BadInput(f"{count} tokens to verify: the Program has passes over {program.verify_tokens}")
        length = self._caches.length(user)
        if length + count > program.context:
            raise BadInput(
                f"{count} tokens to verify after {length}: the cache has room for {program.context}; "
                "decode them one by one"
            )

    def add(self, ids: Sequence[int], user: int) -> None:
        """Store the ids that the model predicted in a user's new verification pass.

        Ids of the user's previous pass are overwritten.
        """
        self._by_user[user] = list(ids)

    def keep(self, tokens: int, user: int) -> int:
        """Return the id predicted after the last accepted token of a user's last verification pass.

        All ids of this pass are then removed.

        Args:
            tokens: Number of accepted tokens, counted from the first token of the pass.
            user: Index of the user.

        Raises:
            BadInput: ``tokens`` is less than 1 or exceeds the number of tokens in the pass, or this
                method was already called after the pass.
        """
        max_tokens, ids = self._program.verify_tokens, self._by_user.get(user)
        if ids is None or not 1 <= tokens <= max_tokens:
            raise BadInput(f"{tokens} tokens of user {user} to keep: give 1 to {max_tokens}, once after each pass")
        del self._by_user[user]
        return ids[tokens - 1]


class HostResults:
    """Base class of engines, with access to the token ids and logits that the host has received.

    Attributes:
        program: The Program that the engine executes.
        streams: Token ids and logits that are exchanged with the host.
        caches: Counters of the tokens in the users' KV caches.
    """

    program: Program
    streams: Streams
    caches: Caches
    _verified: VerifiedIds

    @property
    def tokens(self) -> list[int]:
        """Last token id of each user.

        Access raises BadModel if the logits of a token contained NaN or infinity.
        """
        return self.streams.ids(range(self.program.batch))

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last token of each user, float32 ``[users, vocabulary]``.

        They are only defined if the Program was compiled with ``logits_out``.
        """
        return self.streams.host_logits[: self.program.batch].copy()

    @property
    def verified_logits(self) -> npt.NDArray[np.float32]:
        """Logits of the last verification pass, float32 ``[tokens, vocabulary]``.

        They are only defined if the Program was compiled with ``logits_out``.
        """
        return self.streams.host_logits[self.program.batch :].copy()

    def cache_slots(self, user: int) -> Slots:
        """Return how many cache slots of a user are in use, for each stage.

        A stage is a part of the model, stored on one region of PEs. A cache slot stores the keys
        and values of one token. Slots are counted on the row of PEs with the most tokens.
        """
        return self.caches.slots(user)

    def _ids_after(self, user: int) -> list[int]:
        """Return the ids that a user's finished verification pass predicted after each of its tokens.

        They are also stored until the accepted tokens are known (`VerifiedIds.keep`).
        """
        places = self.program.host_places(self.program.verify[user])
        if self.program.sampling == "host":
            self.streams.take_most_likely(places)
        ids = self.streams.ids(places)
        self._verified.add(ids, user)
        return ids
