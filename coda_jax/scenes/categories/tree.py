"""The tree of categories: what is a kind of what, and how close two categories are."""

from __future__ import annotations

from collections.abc import Collection, Iterator

ROOT = "thing"
# Inner node to what hangs below it; the leaves are the categories.
_BELOW: dict[str, tuple[str, ...]] = {
    ROOT: ("kitchenware", "food", "tool", "toy", "furnishing"),
    "kitchenware": ("drinkware", "cutlery", "dish", "packaging"),
    "drinkware": ("mug", "cup", "goblet", "jug", "teapot"),
    "cutlery": ("fork", "spoon", "knife", "spatula"),
    "dish": ("plate", "board", "tray", "bowl", "pan"),
    "packaging": ("carton", "can", "bottle", "jar"),
    "food": ("fruit", "vegetable"),
    "fruit": ("banana", "pear", "apple", "lemon"),
    "vegetable": ("carrot", "mushroom"),
    "tool": ("hand_tool", "fastener", "mount"),
    "hand_tool": ("hammer", "screwdriver", "wrench", "brush", "pliers", "torch"),
    "fastener": ("peg", "dowel", "plug", "bolt"),
    "mount": ("socket", "slot", "collar"),
    "toy": ("brick", "plaything"),
    "brick": ("block", "arch", "house"),
    "plaything": ("ball", "car", "boat", "drum", "pawn", "spool", "dumbbell"),
    "furnishing": ("surface", "storage", "cabinet", "control"),
    "surface": ("stand", "bench", "shelf", "pedestal", "rack", "mat", "stove"),
    "storage": ("basket", "bin", "box", "crate", "trough", "tub"),
    "cabinet": ("dresser", "nightstand", "cupboard", "locker", "chest", "trunk", "wardrobe", "hutch"),
    "control": ("dial", "lever"),
}
_PARENT = {child: parent for parent, children in _BELOW.items() for child in children}


def leaves(node: str = ROOT) -> Iterator[str]:
    """The categories below a node, in the tree's order.

    Raises:
      KeyError: the tree has no such node.
    """
    if node in _BELOW:
        for child in _BELOW[node]:
            yield from leaves(child)
    elif node in _PARENT:
        yield node
    else:
        raise KeyError(f"the tree of categories has no {node!r}: its nodes are {', '.join(_BELOW)}")


def path(category: str) -> tuple[str, ...]:
    """From the root down to a category, e.g. thing, kitchenware, drinkware, mug; one that no node lists hangs below the root."""
    nodes = [category]
    while nodes[-1] in _PARENT:
        nodes.append(_PARENT[nodes[-1]])
    if nodes[-1] != ROOT:
        nodes.append(ROOT)
    return tuple(reversed(nodes))


def distance(first: str, second: str) -> int:
    """Edges between two categories along the tree: 0 for the same, 2 for siblings, at most 6. Source: METHOD 9 ranks bindings by it."""
    a, b = path(first), path(second)
    shared = sum(1 for x, y in zip(a, b, strict=False) if x == y)
    return len(a) + len(b) - 2 * shared


def nearest(category: str, among: Collection[str], count: int = 3) -> tuple[str, ...]:
    """The categories of ``among`` that are closest in the tree, nearest first; equally close ones in their own order."""
    return tuple(sorted(among, key=lambda other: distance(category, other))[:count])
