"""Words on the links of lines that a pattern's messages cross."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_mappings.schedule import Arrival, LineSchedule


def words_on_links(
    pattern: LineSchedule, words: int, variant: npt.NDArray[np.integer], line: npt.NDArray[np.integer], lines: int
) -> npt.NDArray[np.int64]:
    """Return the words that leave each PE of some lines to the next PE and to the previous one.

    Args:
        pattern: The pattern.
        words: Words of a message in all its parts.
        variant: Integers ``[n]``: variants that are executed.
        line: Integers ``[n]``: the line that executes each; one line may do so to several.
        lines: Lines in all.

    Returns:
        int64 ``[2, lines, length]``.
    """
    counts = pattern.first[variant + 1] - pattern.first[variant]
    starts = np.repeat(pattern.first[variant] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    which = starts + np.arange(int(counts.sum()))
    message, carried = pattern.messages[which], pattern.words_of_messages(words)[which]
    at = np.repeat(line, counts)
    wire = message[:, 2] != Arrival.COPY
    source, target, at, carried = message[wire, 0], message[wire, 1], at[wire], carried[wire]
    change = np.zeros((2, lines, pattern.length + 2), np.int64)
    up = target > source
    np.add.at(change[0], (at[up], source[up]), carried[up])
    np.add.at(change[0], (at[up], target[up]), -carried[up])
    down = target < source
    np.add.at(change[1], (at[down], target[down] + 1), carried[down])
    np.add.at(change[1], (at[down], source[down] + 1), -carried[down])
    return np.asarray(change.cumsum(axis=2)[:, :, : pattern.length], np.int64)
