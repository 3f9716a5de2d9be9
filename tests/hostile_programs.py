"""Hostile programs for compile jobs: each is refused with a clear problem, or costs little and runs."""

from __future__ import annotations

from typing import Any


def inputs(**shapes: Any) -> dict[str, Any]:
    return {name: {"shape": list(shape)} for name, shape in shapes.items()}


GRAPH = {
    "inputs": {"x": {"shape": [4, 3], "dtype": "float32"}},
    "nodes": [{"name": "y", "op": "exp", "inputs": ["x"]}],
    "targets": ["y"],
}


def looped(limit: int, depth: int = 1, width: int = 1, number: int = 1, **more: Any) -> dict[str, Any]:
    """Loops one after another, each of so many turns and bodies within each other, the last one of so many
    nodes; its carries are stacked.
    """
    nodes: list[dict[str, Any]] = [
        {"name": f"v{k}", "op": "mul", "inputs": [f"v{k - 1}" if k else "c", "k"]} for k in range(width)
    ]
    last = f"v{width - 1}"
    for level in range(depth):
        inputs = ["c", "k"] if level < depth - 1 else ["x", "x"]
        body = {"turn": "t", "carries": ["c"], "constants": ["k"], "nodes": nodes, "next": [last]}
        attrs = {"body": {**body, "slices": [last], **more}, "limit": limit, "save": "every"}
        nodes = [
            {"name": "l", "op": "loop", "inputs": inputs, "attrs": attrs},
            {"name": "i", "op": "item", "inputs": ["l"], "attrs": {"index": 1}},
        ]
        last = "i"
    loops = [
        {**own, "name": f"{own['name']}{k}", "inputs": [f"l{k}"] if own["op"] == "item" else own["inputs"]}
        for k in range(number)
        for own in nodes
    ]
    return {**GRAPH, "nodes": loops, "targets": [f"i{k}" for k in range(min(number, 200))]}


HOSTILE: dict[str, dict[str, Any]] = {
    "brackets": {"expression": "(" * 5_000 + "a" + ")" * 4_999},
    "brackets within the length": {"expression": "(" * 4_000 + "a" + ")" * 4_000},
    "calls": {"expression": "relu(" * 1_500 + "a" + ")" * 1_500},
    "minus signs": {"expression": "-" * 9_999 + "a"},
    "minus signs within the limits": {"expression": "-" * 1_999 + "a"},
    "tildes": {"expression": "~-" * 999 + "a"},
    "powers": {"expression": "**".join("a" * 3_000)},
    "powers within the limits": {"expression": "**".join("a" * 60)},
    "a long sum": {"expression": "+".join("a" * 4_000)},
    "conditions": {"expression": "a if a else " * 150 + "a"},
    "nots": {"expression": "not " * 1_000 + "a"},
    "comparisons": {"expression": "<".join("a" * 900)},
    "too long": {"expression": "a" * 10_001},
    "a dunder": {"expression": "a.__class__.__bases__[0].__subclasses__()"},
    "an import": {"expression": "__import__('os').system('id')"},
    "an import without text": {"expression": "__import__(a)"},
    "builtins": {"expression": "eval(a)"},
    "an attribute": {"expression": "a.shape"},
    "an attribute of a number": {"expression": "1 .real"},
    "a method": {"expression": "a.sum()"},
    "a dunder name": {"expression": "__builtins__"},
    "a subscript": {"expression": "a[0]"},
    "a slice": {"expression": "a[::-1]"},
    "a lambda": {"expression": "(lambda: a)()"},
    "a lambda without a colon": {"expression": "lambda"},
    "a walrus": {"expression": "(a := 1)"},
    "an f-string": {"expression": "f'{a}'"},
    "a string": {"expression": "'a' * 10"},
    "bytes": {"expression": "b'a'"},
    "a comprehension": {"expression": "(x for x in a)"},
    "a list": {"expression": "[a] * 1000000000"},
    "a dictionary": {"expression": "{a: a}"},
    "a star": {"expression": "sum(*a)"},
    "two stars": {"expression": "sum(a, **a)"},
    "await": {"expression": "await a"},
    "yield": {"expression": "yield a"},
    "statements": {"expression": "a; import os"},
    "a newline and a statement": {"expression": "a\nimport os"},
    "a comment": {"expression": "a # b"},
    "a backslash": {"expression": "a \\\n + b"},
    "a zero character": {"expression": "a\0"},
    "a Cyrillic a": {"expression": "\u0430"},
    "full-width letters": {"expression": "\uff45\uff58\uff50(a)"},
    "an invisible space": {"expression": "a\u200b+ a"},
    "right to left": {"expression": "\u202ea"},
    "a surrogate": {"expression": "\ud800"},
    "an endless power": {"expression": "a + 10**10**10"},
    "an endless product": {"expression": "a * " + "9999999999 * " * 150 + "9"},
    "an endless product of numbers": {"expression": "a + " + "9999999999 * " * 700 + "9"},
    "a gigantic integer": {"expression": "a + " + "9" * 5_000},
    "an integer beyond 64 bits": {"expression": "a + 9223372036854775808"},
    "an infinite float": {"expression": "a + 1e999"},
    "a float that overflows": {"expression": "a + 1e308 * 10"},
    "a complex number": {"expression": "a + 1j"},
    "a division by zero": {"expression": "a + 1 // 0"},
    "a shift of numbers": {"expression": "a + (1 << 1000000000)"},
    "a huge reshape": {"expression": "reshape(a, shape=(1000000000, 1000000000, 1000000000))"},
    "a negative reshape": {"expression": "reshape(a, shape=(-1, -1))"},
    "an axis beyond": {"expression": "sum(a, axis=1000000000000)"},
    "an axis that is a tensor": {"expression": "sum(a, axis=a)"},
    "an option twice": {"expression": "sum(a, axis=0, axis=1)"},
    "nothing": {"expression": ""},
    "Ellipsis": {"expression": "..."},
    "None": {"expression": "None"},
    "a huge input": {"expression": "a", "inputs": inputs(a=(2**31, 2**31))},
    "an outer product": {"expression": "a + transpose(a)", "inputs": inputs(a=(2**31, 1))},
    "a growing product": {"expression": "a @ b @ a @ b", "inputs": inputs(a=(2**20, 1), b=(1, 2**20))},
    "a huge product": {"expression": "a @ a", "inputs": inputs(a=(2**14, 2**14))},
    "many large values": {"expression": "+".join(["a"] * 900), "inputs": inputs(a=(2**22,))},
    "a negative size": {"expression": "a", "inputs": inputs(a=(-1,))},
    "nine axes": {"expression": "a", "inputs": inputs(a=(1,) * 9)},
    "a name with a dot": {"expression": "a", "inputs": {"a.b": {"shape": []}}},
    "a dunder input": {"expression": "a", "inputs": {"__class__": {"shape": []}}},
    "many inputs": {"expression": "a", "inputs": inputs(**{f"a{k}": (1,) for k in range(40)})},
    "a fractional size": {"expression": "a", "inputs": inputs(a=(1.5,))},
    "an unknown dtype": {"expression": "a", "inputs": {"a": {"shape": [], "dtype": "object"}}},
    "a deep graph": {"graph": {"inputs": {}, "nodes": [[[[[[[]]]]]]], "targets": []}},
    "a graph that reads itself": {
        "graph": {**GRAPH, "nodes": [{"name": "y", "op": "exp", "inputs": ["y"]}]},
    },
    "a graph of nothing known": {
        "graph": {**GRAPH, "nodes": [{"name": "y", "op": "system", "inputs": ["x"]}]}
    },
    "a graph that doubles": {
        "graph": {
            "inputs": {"x": {"shape": [1024], "dtype": "float32"}},
            "nodes": [
                {
                    "name": f"v{k}",
                    "op": "concat",
                    "inputs": [f"v{k - 1}" if k else "x"] * 2,
                    "attrs": {"axis": 0},
                }
                for k in range(100)
            ],
            "targets": ["v99"],
        }
    },
    "an endless loop": {"graph": looped(2**60)},
    "a loop of many turns": {"graph": looped(2**24)},
    "loops whose turns multiply": {"graph": looped(2**10, depth=3)},
    "a loop of a billion turns of nothing": {"graph": looped(10**9, slices=[], nodes=[], next=["c"])},
    "loops nested too deep": {"graph": looped(1, depth=5)},
    "loops nested a thousandfold": {"graph": looped(1, depth=60)},
    "many loops": {"graph": looped(1, number=257)},
    "bodies with too many nodes": {"graph": looped(1, width=1400, number=3)},
    "wide bodies, nested, and their gradients": {
        "graph": looped(1, depth=4, width=200),
        "gradients": True,
    },
    "turns whose gradients keep too much": {
        "graph": {
            **looped(6, slices=[]),
            "inputs": {"x": {"shape": [10**8], "dtype": "float32"}},
        },
        "gradients": True,
    },
    "a body that reads what is outside": {"graph": looped(1, next=["x"])},
    "a loop without a limit": {"graph": looped(None)},  # type: ignore[arg-type]
}
BOUNDED = {
    "minus signs within the limits",
    "powers within the limits",
    "an endless product",
    "wide bodies, nested, and their gradients",
}


def body_of(hostile: dict[str, Any]) -> dict[str, Any]:
    return hostile if "graph" in hostile else {"inputs": inputs(a=(10, 20)), **hostile}
