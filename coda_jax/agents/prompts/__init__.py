"""The texts that language models are given: one versioned file each beside this module, filled in from data of ours."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.resources
import re
import string

_HEAD = re.compile(r"version: (\d+)\n\n")


@dataclasses.dataclass(frozen=True)
class Prompt:
    """name: of its file. version: raised by hand with every change of meaning. text: with ``$name`` where a value belongs."""

    name: str
    version: int
    text: str

    @property
    def id(self) -> str:
        """Name, version and the hash of the text, for records: "engine.write v1 3f9a2c01"."""
        return f"{self.name} v{self.version} {hashlib.sha256(self.text.encode()).hexdigest()[:8]}"

    def filled(self, **values: object) -> str:
        """The text with its values.

        Raises:
          KeyError: one of them is missing. TypeError: one that has no place in the text.
        """
        template = string.Template(self.text)
        if unused := sorted(values.keys() - set(template.get_identifiers())):
            raise TypeError(f"prompt {self.name} has no place for {', '.join(unused)}")
        return template.substitute({name: str(value) for name, value in values.items()})


@functools.cache
def prompt(name: str) -> Prompt:
    """The prompt in ``name``.md of this folder.

    Raises:
      FileNotFoundError: there is none. ValueError: it does not begin with its version.
    """
    text = importlib.resources.files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    head = _HEAD.match(text)
    if head is None:
        raise ValueError(f'prompt {name}.md must begin with "version: N" and an empty line')
    return Prompt(name, int(head.group(1)), text[head.end() :])
