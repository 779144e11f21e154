"""Whole scenes by a language model: unlike those that a memory holds, or as a text or a picture describes one."""

from __future__ import annotations

from collections.abc import Sequence

from coda_jax.agents.llm import sdk_docs
from coda_jax.agents.llm.author import Commission, Refusal, refusal_of, written
from coda_jax.agents.llm.chat import Chat, Message, Picture, question_seed
from coda_jax.agents.llm.dialogues import side_by_side
from coda_jax.agents.llm.engine import EngineSettings, with_tools
from coda_jax.agents.llm.engine_tools import SCENES, EngineTools, failures_said, toolbox
from coda_jax.agents.llm.tally import Tally
from coda_jax.agents.prompts import prompt
from coda_jax.programs.errors import ProgramError, one_line
from coda_jax.scenes import families, language
from coda_jax.scenes.catalogue import Catalogue, UnknownAsset
from coda_jax.scenes.leakage import HeldOutContent
from coda_jax.scenes.spec import SceneSpec

SCENE, BUILD = "engine.scene", "engine.build"
ENDING = "result = scene(...)"
EXAMPLES = ("pick_place", "articulated", "put_inside", "stack_insert")  # families with a worked example
_MOST_DESCRIBED = 2000  # characters of a description


def examples(of_families: Sequence[str]) -> str:
    """Two worked examples or more: the general one, and one of each of the families that has one."""
    shown = ["loop", *(n for n in EXAMPLES if n in of_families)]
    return "\n".join(prompt(f"engine_example_{name}").text for name in (shown if len(shown) > 1 else ["loop", "pick_place"]))


class SceneAuthor:
    """Writes scenes of the families. tools: as LlmEngine's. seed: of the run and round."""

    def __init__(
        self,
        chat: Chat,
        settings: EngineSettings,
        tally: Tally,
        catalogue: Catalogue,
        of_families: Sequence[str],
        tools: EngineTools,
        seed: int,
    ):
        self._chat, self._settings, self._tally, self._catalogue = chat, settings, tally, catalogue
        self._families, self._tools, self._seed = tuple(of_families), tools, seed

    def novel(self, wanted: Sequence[str], coverage: str) -> list[SceneSpec]:
        """Accepted scenes, at most one for each wanted family, in their order; all different.

        coverage: what the memory holds, for the question.
        """
        seen: set[str] = set()

        def commission(number: int, family: str) -> Commission[SceneSpec]:
            asked = prompt("engine_scene").filled(number=number + 1, count=len(wanted), family=family, coverage=coverage)
            return self._commission(SCENE, (asked,), (family,), seen, number)

        found = side_by_side(self._chat, [written(commission(n, f), self._tally) for n, f in enumerate(wanted)])
        scenes = [spec for spec in found if spec is not None]
        if missing := len(wanted) - len(scenes):
            self._tally.count(SCENE, "fallback", missing)
        return scenes

    def built(self, description: str, png: bytes | None = None) -> SceneSpec | None:
        """The scene that a text describes or a picture shows, None where no program was accepted."""
        shown = one_line(description, _MOST_DESCRIBED) or "as in the picture"
        asked = prompt("engine_build").filled(families=", ".join(self._families), description=shown)
        parts = (asked, Picture(png, "the scene to be built")) if png is not None else (asked,)
        (found,) = side_by_side(self._chat, [written(self._commission(BUILD, parts, self._families, set(), 0), self._tally)])
        return found

    def _commission(
        self, purpose: str, asked: tuple[str | Picture, ...], allowed: tuple[str, ...], seen: set[str], number: int
    ) -> Commission[SceneSpec]:
        chosen = self._settings
        system = prompt("engine_scenes").filled(
            docs=sdk_docs.scene_docs(allowed),
            catalogue="\n".join(sdk_docs.category_lines(self._catalogue)),
            examples=examples(allowed),
        )
        messages = [Message("system", (system,)), Message("user", (*asked, *filter(None, [with_tools(chosen)])))]

        def door(text: str) -> SceneSpec:
            found = self._passed(text, allowed, seen)
            seen.add(found.scene_id)
            return found

        box = toolbox(SCENES, self._tools, self._catalogue, (), self._evaluated, 0, chosen.tool_chars, purpose, self._tally)
        seed = question_seed(self._seed, purpose, *allowed, number)
        return Commission(purpose, tuple(messages), door, ENDING, seed, chosen.answer_tokens, chosen.repairs, box, chosen.tool_rounds)

    def _evaluated(self, text: str) -> SceneSpec:
        try:
            return self._tools.scene(text)
        except ProgramError as error:
            raise refusal_of(error) from None
        except HeldOutContent as error:
            raise Refusal(f"held_out_{error.kind}", str(error)) from None
        except UnknownAsset as error:
            raise Refusal("unknown_asset", str(error)) from None

    def _passed(self, text: str, allowed: tuple[str, ...], seen: set[str]) -> SceneSpec:
        """A scene that may be trained on: of a wanted family, in a training phrasing, new, and valid. Raises Refusal."""
        spec = self._evaluated(text)
        if spec.task.family not in allowed:
            raise Refusal("wrong_family", f'family: must be {" or ".join(allowed)}, not {spec.task.family}: set family="{allowed[0]}"')
        template = language.match(spec.task.instruction, spec.task.family)
        if template is None or template.split != "train":
            said = [
                t.text
                for relation in families.get(spec.task.family).phrases
                for t in language.templates(spec.task.family, relation, "train")
            ]
            raise Refusal("wording", f"instruction: {spec.task.instruction!r} is none of the family's phrasings: {' | '.join(said[:8])}")
        if spec.scene_id in seen or self._tools.holds(spec.scene_id):
            raise Refusal("known", "this very scene is there already: change what stands where, or what is asked for")
        valid, failures = self._tools.validated(spec, True)
        if valid is None:
            raise Refusal(f"invalid_{failures[0].check}" if failures else "invalid", failures_said(failures))
        if valid.scene_id in seen:
            raise Refusal("known", "repaired, this is a scene that is there already: change what stands where, or what is asked for")
        return valid
