"""Write ``tests/data/text/chats.json``: chats that transformers rendered with chat templates.

    pip install "transformers>=5" jinja2; python tools/make_chat_goldens.py

Four templates imitate the styles of public models. The fifth one uses other features of Jinja.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

OUT = Path(__file__).parents[1] / "tests" / "data" / "text" / "chats.json"
MARKS = {"bos_token": "<s>", "eos_token": "</s>"}

TEMPLATES = {
    "turns between marks": """\
{%- if messages[0]['role'] != 'system' %}
    {{- '<|turn|>system\\nBe brief.<|done|>\\n' }}
{%- endif %}
{% for message in messages %}
{{'<|turn|>' + message['role'] + '\\n' + message['content'] | trim + '<|done|>' + '\\n'}}
{% endfor %}
{% if add_generation_prompt %}
{{ '<|turn|>assistant\\n' }}
{% endif %}
""",
    "headers": """\
{% set loop_messages = messages %}
{% for message in loop_messages %}
    {% set content = '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | trim + '<|done|>' %}
    {% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}
    {{- content }}
{%- endfor %}
{%- if tools is not none and tools %}{{ tools | tojson(indent=2) }}{% endif %}
{%- if add_generation_prompt %}{{ '<|head|>assistant<|/head|>\\n\\n' }}{% endif %}""",
    "instructions": """\
{{- bos_token }}
{%- set ns = namespace(system='', turn=0) %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.system = message.content %}
        {%- continue %}
    {%- endif %}
    {%- if (message['role'] == 'user') != (ns.turn % 2 == 0) %}
        {{- raise_exception('user and assistant must take turns') }}
    {%- endif %}
    {%- set ns.turn = ns.turn + 1 %}
    {%- if message['role'] == 'user' %}
        {{- ' [INST] ' ~ (ns.system ~ '\\n\\n' if ns.system else '') ~ message.content ~ ' [/INST]' }}
    {%- else %}
        {%- generation %}{{- ' ' + message['content'] + eos_token }}{%- endgeneration %}
    {%- endif %}
{%- endfor %}""",
    "no system": """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- macro turn(role, content) -%}
<turn>{{ 'model' if role == 'assistant' else role }}
{{ content | trim }}<end>
{% endmacro -%}
{%- for m in messages %}{{ turn(m['role'], m.get('content', '')) }}{% endfor -%}
{% if add_generation_prompt %}{{ '<turn>model\\n' }}{% endif %}""",
    "everything else": """\
{{- {'a': 'é<b>', 'n': [1, 2.5, none]} | tojson }}|{{ [1, 2] | tojson(separators=(',', ':')) }}|{{ undefined_name }}|
{%- for c in messages[-1].content.split(' ')[::-1] if c != 'x' %}{% if loop.index > 2 %}{% break %}{% endif %}{{ c }}
{%- endfor %}|{{ messages | length }}|{{ messages | map(attribute='role') | join(',') }}|{{ documents is none }}|
{{- messages[-1]['content'] | upper | replace('A', '') }}|{{ '%05.1f' | format(3.14159) }}|{{ dict(a=1)['a'] }}""",
}
CHATS: tuple[list[dict[str, str]], ...] = (
    [{"role": "user", "content": "  Hello, x world! a b  "}],
    [{"role": "system", "content": "Answer in é."}, {"role": "user", "content": "What's <b>?\n\nx"}],
)


def transformers_text(source: str, messages: Sequence[Mapping[str, str]]) -> str | None:
    """Return a chat as rendered by transformers, or None if the template raises an exception.

    Args:
        source: The chat template, in Jinja.
        messages: Messages with the keys "role" and "content".
    """
    import jinja2
    from transformers.utils.chat_template_utils import render_jinja_template

    try:
        rendered, _ = render_jinja_template(
            [list(map(dict, messages))], chat_template=source, add_generation_prompt=True, **MARKS
        )
    except jinja2.TemplateError:
        return None
    return str(rendered[0])


if __name__ == "__main__":
    cases = [
        {"style": style, "source": source, "messages": chat, "marks": MARKS, "text": transformers_text(source, chat)}
        for style, source in TEMPLATES.items()
        for chat in CHATS
    ]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("[\n" + ",\n".join(map(json.dumps, cases)) + "\n]\n", encoding="utf-8")
