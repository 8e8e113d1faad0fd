"""Program that renders one chat template, started by `wse.models.tokenizers.chat_template`.

Templates are untrusted code. They run in jinja2's sandbox, in a separate process without access to
files and with little memory and time.

Standard input is a JSON object with template, messages and marks. Standard output is one with
``text``, or with ``error`` and ``kind``. Templates can use the same functions as in transformers
(``_compile_jinja_template`` in ``utils/chat_template_utils.py``).
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from typing import Any, Final, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

MEMORY_BYTES: Final = 2**30
CPU_S: Final = 2
TEXT_LIMIT: Final = 2**24  # characters


class RefusedTurnsError(jinja2.TemplateError):
    """Error raised by a chat template that does not accept the messages."""


class Generation(Extension):
    """Jinja extension that renders the content of ``{% generation %}`` and ignores the tag."""

    tags = {"generation"}  # noqa: RUF012 (the attribute that jinja2 reads)

    def parse(self, parser: Any) -> list[nodes.Node]:
        """Return the nodes between the tag ``generation`` and its end tag."""
        next(parser.stream)
        body: list[nodes.Node] = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return body


class PlainNamespace(Namespace):
    """Jinja namespace that rejects names with a leading underscore, for untrusted templates."""

    def __setitem__(self, name: str, value: Any) -> None:
        """Set a variable of the namespace."""
        if name.startswith("_"):
            raise SecurityError(f"a namespace has no {name!r}")
        super().__setitem__(name, value)


def render(template: str, messages: list[dict[str, str]], marks: dict[str, str]) -> str:
    """Return the text of a chat up to the start of the next answer.

    Args:
        template: Jinja source.
        messages: Messages with the keys ``role`` and ``content``.
        marks: Texts of special tokens, keyed by a name such as ``bos_token``.

    Raises:
        jinja2.TemplateError: The template is invalid, fails, or rejects the messages.
        OverflowError: The string is longer than `TEXT_LIMIT`.
    """
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _as_json
    environment.globals |= {
        "raise_exception": _refuse,
        "strftime_now": lambda pattern: datetime.now().strftime(pattern),
        "namespace": PlainNamespace,
    }
    values = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
    parts: list[str] = []
    length = 0
    for part in environment.from_string(template).generate(**values, **marks):
        length += len(part)
        if length > TEXT_LIMIT:
            raise OverflowError(f"it writes more than {TEXT_LIMIT:,} characters")
        parts.append(part)
    return "".join(parts)


def answer(request: dict[str, Any]) -> dict[str, str]:
    """Render the chat in a request and return the reply: ``text``, or ``error`` and its ``kind``.

    The kind is "refused" if the template rejects the messages, otherwise "broken".
    """
    try:
        return {"text": render(request["template"], request["messages"], request["marks"])}
    except RefusedTurnsError as error:
        return {"kind": "refused", "error": str(error)}
    except jinja2.TemplateSyntaxError as error:
        return {"kind": "broken", "error": f"line {error.lineno}: {error.message}"}
    except MemoryError:
        return {"kind": "broken", "error": f"it needs more than {MEMORY_BYTES:,} bytes of memory"}
    except Exception as error:  # templates are untrusted and can fail in any way
        return {"kind": "broken", "error": str(error) or type(error).__name__}


def _as_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 (as templates call it)
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """Return a value as JSON. Templates call this function as the filter ``tojson``."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: object) -> NoReturn:
    """Raise RefusedTurnsError. Templates call this function as ``raise_exception``."""
    raise RefusedTurnsError(str(message))


def _limit() -> None:
    """Limit the memory, time and files that this process may use, if the system supports it."""
    try:
        import resource
    except ImportError:  # Windows: only the parent's time limit remains
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


if __name__ == "__main__":
    request = json.load(sys.stdin)
    _limit()
    json.dump(answer(request), sys.stdout)
