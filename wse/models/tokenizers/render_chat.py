"""Renders one chat template, in a process of its own that `wse.models.tokenizers.chat_template` starts.

A template is a program from outside: it runs in jinja2's sandbox, with no files and with little memory and time.
Standard input has a JSON object (template, messages, marks), standard output one with ``text``, or with ``error`` and
``kind``. What a template finds is what transformers gives it (``_compile_jinja_template`` in
``utils/chat_template_utils.py``).
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
    """A template that does not accept the messages."""


class Generation(Extension):
    """A Jinja extension that treats ``{% generation %}`` as its contents."""

    tags = {"generation"}  # noqa: RUF012 (the attribute that jinja2 reads)

    def parse(self, parser: Any) -> list[nodes.Node]:
        """Return the nodes inside."""
        next(parser.stream)
        body: list[nodes.Node] = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return body


class PlainNamespace(Namespace):
    """A namespace without names that begin with an underscore."""

    def __setitem__(self, name: str, value: Any) -> None:
        """Set one name."""
        if name.startswith("_"):
            message = f"a namespace has no {name!r}"
            raise SecurityError(message)
        super().__setitem__(name, value)


def render(template: str, messages: list[dict[str, str]], marks: dict[str, str]) -> str:
    """Return the text of ``messages`` and the beginning of an answer.

    Raises:
        jinja2.TemplateError: the template is none, fails, or refuses the messages.
        OverflowError: the text is over `TEXT_LIMIT`.
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
    pieces: list[str] = []
    length = 0
    for piece in environment.from_string(template).generate(**values, **marks):
        length += len(piece)
        if length > TEXT_LIMIT:
            message = f"it writes more than {TEXT_LIMIT:,} characters"
            raise OverflowError(message)
        pieces.append(piece)
    return "".join(pieces)


def answer(question: dict[str, Any]) -> dict[str, str]:
    """Return ``text``, or an error: kind ``refused`` where the template raises it, else ``broken``."""
    try:
        return {"text": render(question["template"], question["messages"], question["marks"])}
    except RefusedTurnsError as error:
        return {"kind": "refused", "error": str(error)}
    except jinja2.TemplateSyntaxError as error:
        return {"kind": "broken", "error": f"line {error.lineno}: {error.message}"}
    except MemoryError:
        return {"kind": "broken", "error": f"it needs more than {MEMORY_BYTES:,} bytes of memory"}
    except Exception as error:  # whatever a program from outside does wrong
        return {"kind": "broken", "error": str(error) or type(error).__name__}


def _as_json(
    value: Any,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 (as templates call it)
    indent: Any = None,
    separators: Any = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: object) -> NoReturn:
    raise RefusedTurnsError(str(message))


def _limit() -> None:
    """Limit memory, time and files of this process, where the system supports it."""
    try:
        import resource
    except ImportError:  # Windows: the parent's clock remains
        return
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


if __name__ == "__main__":
    request = json.load(sys.stdin)
    _limit()
    json.dump(answer(request), sys.stdout)
