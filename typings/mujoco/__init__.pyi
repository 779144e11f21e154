# mujoco's names come from compiled modules without stubs: known to a type checker as existing, of unknown type.
from typing import Any

def __getattr__(name: str) -> Any: ...
