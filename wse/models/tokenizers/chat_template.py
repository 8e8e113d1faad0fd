"""Chat templates, which turn chat messages into text in the form that a model was trained on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wse.errors import BadInput, BadModel

TEMPLATE_LIMIT: Final = 2**20  # characters
WALL_S: Final = 20
LONGEST_REASON: Final = 200  # characters of the template's own message
RENDERER: Final = Path(__file__).with_name("render_chat.py")
Message = dict[str, str]  # role and content


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatTemplate:
    """Jinja template that turns a chat into text for a model.

    Attributes:
        source: Jinja source.
        origin: File or folder of the template, for messages.
        marks: Names and texts of special tokens, such as bos_token.
        end_ids: Tokens that end an answer, in addition to those in the model's config.
    """

    source: str
    origin: str
    marks: tuple[tuple[str, str], ...] = ()
    end_ids: tuple[int, ...] = ()

    def render(self, messages: Sequence[Message]) -> str:
        """Render a chat, including its special tokens, as text for the next answer to continue.

        The template is run in a separate process with limited time and memory.

        Args:
            messages: Messages with the keys ``role`` and ``content``.

        Raises:
            BadInput: The template rejects the messages.
            BadModel: The template is broken, or exceeds the limits on time, memory or text length.
        """
        if len(self.source) > TEMPLATE_LIMIT:
            length = f"{len(self.source):,} characters, over {TEMPLATE_LIMIT:,}"
            raise BadModel(f"{self.origin}: the chat template has {length}; fetch the file again, or leave --chat out")
        request = {"template": self.source, "messages": list(messages), "marks": dict(self.marks)}
        try:
            process = subprocess.run(
                [sys.executable, "-P", str(RENDERER)],
                input=json.dumps(request).encode(),
                capture_output=True,
                timeout=WALL_S,
                check=False,
            )
            answer = (
                json.loads(process.stdout) if process.returncode == 0 else {"error": "it needs too much time or memory"}
            )
        except subprocess.TimeoutExpired:
            answer = {"error": f"it takes more than {WALL_S} s"}
        if "text" in answer:
            return str(answer["text"])
        reason = str(answer["error"])[:LONGEST_REASON]
        if answer.get("kind") == "refused":
            raise BadInput(
                f"{self.origin}: the chat template rejects these messages: {reason}; leave --system out, or --chat"
            )
        raise BadModel(f"{self.origin}: the chat template fails: {reason}; fetch the file again, or leave --chat out")
