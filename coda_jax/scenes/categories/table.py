"""Every category by name: the themes one after another."""

from __future__ import annotations

from coda_jax.scenes.categories import assembly, cutlery, dishes, drinkware, food, furniture, packaging, storage, tools, toys
from coda_jax.scenes.categories.record import Category

_THEMES = (toys, packaging, drinkware, cutlery, food, tools, assembly, dishes, furniture, storage)
CATEGORIES: dict[str, Category] = {c.name: c for theme in _THEMES for c in theme.CATEGORIES}
