"""ModelSpec to op graph: a networkx DiGraph whose nodes are op names and carry one frozen Op each."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx

from wse.models.spec import ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """A node of the model graph. ``kind`` names its lowering, ``weights`` are canonical tensor names."""

    name: str
    kind: str
    layer: int  # -1 outside the layers
    weights: tuple[str, ...]


def op_graph(spec: ModelSpec, *, ends: bool = True) -> nx.DiGraph[str]:
    """The ops of one decoder-only transformer; edges follow activations, residual edges included.

    Without ``ends`` the layers alone: no embedding, final norm or head.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()

    def add(name: str, kind: str, layer: int, weights: tuple[str, ...], *inputs: str) -> str:
        graph.add_node(name, op=Op(name=name, kind=kind, layer=layer, weights=weights))
        graph.add_edges_from((source, name) for source in inputs)
        return name

    stream = (add("embedding", "embedding", -1, ("embedding",)),) if ends else ()
    for layer in range(spec.layer_count):
        at = f"layers.{layer}"
        norm = add(f"{at}.attention_norm", "norm", layer, (f"{at}.attention_norm",), *stream)
        qkv = add(f"{at}.qkv", "qkv", layer, (f"{at}.q", f"{at}.k", f"{at}.v"), norm)
        attention = add(f"{at}.attention", "attention", layer, (), qkv)
        stream = (add(f"{at}.output", "output", layer, (f"{at}.o",), attention, *stream),)
        norm = add(f"{at}.mlp_norm", "norm", layer, (f"{at}.mlp_norm",), *stream)
        gate_up = add(f"{at}.gate_up", "gate_up", layer, (f"{at}.gate", f"{at}.up"), norm)
        stream = (add(f"{at}.down", "down", layer, (f"{at}.down",), gate_up, *stream),)
    if ends:
        norm = add("final_norm", "norm", -1, ("final_norm",), *stream)
        add("head", "head", -1, ("embedding" if spec.tied_embedding else "head",), norm)
    return graph


def ops_in_order(graph: nx.DiGraph[str]) -> list[Op]:
    """Ops in a topological order that keeps the order in which they were added."""
    place = {name: i for i, name in enumerate(graph.nodes)}
    return [graph.nodes[name]["op"] for name in nx.lexicographical_topological_sort(graph, key=place.__getitem__)]
