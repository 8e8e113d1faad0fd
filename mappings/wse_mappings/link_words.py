"""Number of words that a pattern's messages send over the links of lines."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wse_mappings.schedule import Arrival, LineSchedule


def words_on_links(
    pattern: LineSchedule, words: int, variant: npt.NDArray[np.integer], line: npt.NDArray[np.integer], lines: int
) -> npt.NDArray[np.int64]:
    """Count the words that a communication pattern sends over each link between neighbouring PEs.

    A pattern consists of variants, which are lists of messages. A line is a row or column of PEs.
    Line ``line[k]`` executes the messages of variant ``variant[k]``; a line may execute several
    variants.

    Args:
        pattern: Variants of the pattern, with their messages.
        words: Number of words per PE. Messages send all of them, or one of several parts.
        variant: Integers ``[n]``: index of the variant of each execution.
        line: Integers ``[n]``: index of the line of each execution.
        lines: Number of lines.

    Returns:
        int64 ``[2, lines, length]``: words to the next PE (index 0 of the first axis) and to the
        previous PE (index 1).
    """
    counts = pattern.first[variant + 1] - pattern.first[variant]
    starts = np.repeat(pattern.first[variant] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
    executed = starts + np.arange(int(counts.sum()))
    message, message_words = pattern.messages[executed], pattern.words_of_messages(words)[executed]
    line_of_message = np.repeat(line, counts)
    on_fabric = message[:, 2] != Arrival.COPY
    source, target, line_of_message, message_words = (
        message[on_fabric, 0],
        message[on_fabric, 1],
        line_of_message[on_fabric],
        message_words[on_fabric],
    )
    change = np.zeros((2, lines, pattern.length + 2), np.int64)
    is_onward = target > source
    np.add.at(change[0], (line_of_message[is_onward], source[is_onward]), message_words[is_onward])
    np.add.at(change[0], (line_of_message[is_onward], target[is_onward]), -message_words[is_onward])
    is_backward = target < source
    np.add.at(change[1], (line_of_message[is_backward], target[is_backward] + 1), message_words[is_backward])
    np.add.at(change[1], (line_of_message[is_backward], source[is_backward] + 1), -message_words[is_backward])
    return np.asarray(change.cumsum(axis=2)[:, :, : pattern.length], np.int64)
