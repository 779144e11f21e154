"""The configuration: errors that name the key, and no setting that changes nothing."""

import ast
import dataclasses
import functools
import re
from pathlib import Path

import pytest

import coda_jax
from coda_jax import combinations
from coda_jax import config as settings
from coda_jax.learning import awr, records
from coda_jax.loop import improvement
from coda_jax.programs.training import limits
from coda_jax.runtime import InputError

PACKAGE = Path(coda_jax.__file__).parent


@pytest.mark.parametrize("preset", settings.PRESETS)
def test_presets_are_valid(preset):
    settings.validate(settings.default(preset))


def test_unknown_preset_is_named():
    with pytest.raises(InputError, match='"papr"'):
        settings.default("papr")


def test_every_number_has_a_range_or_a_choice():
    for path, value in settings.leaves(settings.default()):
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            assert path in settings.AT_LEAST, f"{path} has no lower limit"
            assert path in settings.AT_MOST or path in settings.BELOW, f"{path} has no upper limit"


def test_no_limit_or_choice_is_left_over():
    known = dict(settings.leaves(settings.default()))
    assert not {*settings.AT_LEAST, *settings.AT_MOST, *settings.BELOW, *settings.ONE_OF} - known.keys()


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("clone.stpes", "3", "did you mean config.clone.steps"),
        ("steps", "3", "did you mean config.clone.steps"),
        ("clone", "3", "config.clone is a section"),
        ("clone.qqqqqq", "3", "there are: config.clone.batch"),
        ("clone.steps", "many", "it must be a whole number"),
        ("clone.steps", "2.5", "it must be a whole number"),
        ("clone.learning_rate", "fast", "it must be a number"),
        ("policy.cumulative", "perhaps", "it must be true or false"),
    ],
)
def test_bad_override_names_key_and_remedy(path, text, message):
    with pytest.raises(InputError) as error:
        settings.override(settings.default(), path, text)
    assert message in str(error.value)
    assert f"config.{path}" in str(error.value)


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("clone.steps", "1_500", 1500),
        ("clone.learning_rate", "3", 3.0),
        ("policy.cumulative", "False", False),
        ("evaluate.suites", "id,tasks", ("id", "tasks")),
        ("evaluate.suites", "('id',)", ("id",)),
        ("sim.backend", "mjx", "mjx"),
    ],
)
def test_override_parses_by_type(path, text, value):
    config = settings.default()
    settings.override(config, path, text)
    found = dict(settings.leaves(config))[path]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("clone.batch", "0"),
        ("seed", "-1"),
        ("clone.learning_rate", "nan"),
        ("clone.learning_rate", "inf"),
        ("clone.ema", "1"),
        ("policy.distractor_dropout", "1.5"),
        ("policy.heads", "2"),
        ("policy.width", "3"),
        ("checkpoint.keep", "1"),
        ("evaluate.suites", ""),
        ("evaluate.suites", "id,id"),
        ("seed", "4294967296"),
        ("seed", "99999999999999999999"),
        ("horizon.pick_place", "100000000"),
        ("validity.scale", "nan,1"),
        ("validity.scale", "0.1,inf"),
        ("engine.levels", ""),
        ("critic.tokens", "3"),
        ("critic.tokens", "9"),
        ("critic.width", "30"),
        ("critic.low", "1"),
        ("critic.bins", "5"),
        ("critic.shares", "0.5,0.5"),
        ("critic.shares", "0.5,0.5,0.5,-0.5"),
        ("awr.shares", "0.4,0.3,0.2,0.2"),
        ("awr.shares", "0.2,0.4,0.2,0.2"),
        ("awr.sd_decay", "1"),
        ("awr.trace", "1.01"),
        ("awr.most_weight", "0.5"),
        ("actor.candidates", "0"),
        ("critic.candidates", "1"),
        ("potential.stages", "5"),
        ("potential.dense_weight", "0.5"),
        ("experience.rows", "0"),
        ("rounds.practice", "-1"),
        ("sweep.temperatures", ""),
        ("sweep.temperatures", "1,1"),
        ("sweep.temperatures", "nan"),
        ("sweep.block", "-1"),
    ],
)
def test_out_of_range_is_refused(path, text):
    config = settings.default()
    settings.override(config, path, text)
    config.rounds.count = 1
    with pytest.raises(InputError, match=f"config.{path} is"):
        settings.validate(config)


@pytest.mark.parametrize(
    ("changes", "named", "remedy"),
    [
        ({"awr.improve": "frozen", "actor.evaluate": "policy"}, "config.awr.improve=frozen trains no policy", "argmax, sample or average"),
        ({"awr.improve": "frozen", "actor.evaluate": "argmax", "lora.rank": "2"}, "config.lora.rank is 2", "set it to 0"),
        ({"critic.beta": "0.5"}, "config.critic.low is -1", "lower it to that"),
        ({"critic.beta": "0.3333333"}, "config.critic.low is -1", "go down to -1.3333332: lower it to that"),
        ({"potential.signal": "sparse", "critic.low": "0.5"}, "config.critic.low is 0.5", "go down to 0.0: lower it to that"),
        ({"critic.high": "0.9"}, "config.critic.high is 0.9", "at least 1"),
        ({"potential.signal": "free_form", "critic.gamma": "0.995"}, "config.potential.dense_weight is 0.01", "lower it to 0.005"),
        ({"potential.signal": "free_form", "critic.gamma_unit": "chunk"}, "config.potential.dense_weight is 0.01", "lower it to 0.0025"),
        ({"awr.improve": "filtered", "awr.drift_weight": "0.1"}, "config.awr.drift_weight is 0.1", "set it to 0"),
        ({"actor.evaluate": "argmax", "actor.candidates": "1"}, "one candidate leaves no choice", "raise config.actor.candidates"),
    ],
)
def test_settings_that_change_nothing_together_are_refused(changes, named, remedy):
    config = settings.default()
    for path, text in ({"rounds.count": "1"} | changes).items():
        settings.override(config, path, text)
    with pytest.raises(InputError) as error:
        settings.validate(config)
    assert named in str(error.value) and remedy in str(error.value)


@pytest.mark.parametrize("changes", [{"awr.improve": "frozen", "actor.evaluate": "argmax"}, {"awr.improve": "filtered"}])
def test_every_way_to_improve_can_be_set(changes):
    config = settings.default()
    for path, text in ({"rounds.count": "1"} | changes).items():
        settings.override(config, path, text)
    settings.validate(config)


@pytest.mark.parametrize(
    "changes",
    [
        {"critic.beta": "0.3333333", "critic.low": "-1.3333332"},
        {"potential.signal": "free_form", "critic.gamma": "0.98", "critic.gamma_unit": "chunk", "evaluate.executed": "3"},
    ],
)
def test_a_value_that_a_message_asks_for_is_taken(changes):
    config = settings.default()
    for path, text in ({"rounds.count": "1"} | changes).items():
        settings.override(config, path, text)
    if "critic.low" not in changes:
        with pytest.raises(InputError) as error:
            settings.validate(config)
        (asked,) = re.findall(r"lower it to ([0-9.e-]+),", str(error.value))
        config.potential.dense_weight = float(asked)
    settings.validate(config)


@pytest.mark.parametrize("trace", [0.0, 1.0])
def test_both_ends_of_a_trace_can_be_set(trace):
    config = settings.default()
    config.rounds.count, config.awr.advantage, config.awr.trace = 1, "trajectory", trace
    settings.validate(config)
    assert improvement.awr_of(config).trace == trace


def test_unknown_choice_names_the_nearest():
    config = settings.default()
    settings.override(config, "evaluate.suites", "id,taks")
    with pytest.raises(InputError, match='did you mean "tasks"'):
        settings.validate(config)


def test_executed_cannot_exceed_the_chunk():
    config = settings.default()
    config.evaluate.executed = config.policy.chunk + 1
    with pytest.raises(InputError, match=r"config\.policy\.chunk"):
        settings.validate(config)


def test_a_critic_that_is_not_asked_sets_no_limit_to_an_evaluation():
    config = settings.default()
    config.rounds.count, config.evaluate.executed, config.actor.evaluate = 1, 8, "policy"
    settings.validate(config, trains=False)
    config.actor.evaluate = "argmax"
    with pytest.raises(InputError, match=r"or set config\.actor\.evaluate to policy"):
        settings.validate(config, trains=False)
    for trains in (True, False):
        with pytest.raises(InputError, match=r"config\.critic\.tokens is 4; it must lie between config\.evaluate\.executed, 8"):
            settings.validate(config, trains)


def test_a_bound_is_named_in_full():
    config = settings.default()
    config.seed = 2**32
    with pytest.raises(InputError, match=r"config\.seed is 4294967296; it must be at most 4294967295"):
        settings.validate(config)


def test_the_band_takes_no_fewer_rollouts_than_measuring():
    config = settings.default()
    config.rounds.most_rollouts = config.rounds.rollouts - 1
    with pytest.raises(InputError, match=r"config\.rounds\.most_rollouts is 3; it must be at least config\.rounds\.rollouts, 4"):
        settings.validate(config)


def test_experiment_file_cannot_add_or_retype():
    config = settings.default()
    with config.unlocked():
        config.clone.momentum = 0.9
    with pytest.raises(InputError, match=r"config\.clone\.momentum"):
        settings.validate(config)
    config = settings.default()
    with config.unlocked(), config.ignore_type():
        config.clone.steps = "many"
    with pytest.raises(InputError, match=r"config\.clone\.steps is 'many'; it must be a whole number"):
        settings.validate(config)


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("validity", "scale", ("a", "b")),
        ("validity", "scale", (True, 2.0)),
        ("engine", "levels", ("x",)),
        ("evaluate", "suites", (1, 2)),
    ],
)
def test_elements_of_lists_have_a_type(section, key, value):
    config = settings.default()
    config[section][key] = value
    with pytest.raises(InputError, match=rf"config.{section}.{key} is .*; it must be a comma-separated list of"):
        settings.validate(config)


def test_whole_numbers_may_stand_for_fractions_in_a_range():
    config = settings.default()
    config.validity.density_kg_m3 = (100, 3000)
    settings.validate(config)


def test_differences_name_setting_and_both_values():
    before, after = settings.default(), settings.default()
    after.clone.steps = 7
    lines = settings.differences(settings.to_dict(before), settings.to_dict(after))
    assert lines == [f"clone.steps: {before.clone.steps} -> 7"]
    assert settings.differences(settings.to_dict(before), before) == []  # lists of JSON and tuples are the same


def test_build_refuses_a_setting_that_changes_nothing():
    @dataclasses.dataclass(frozen=True)
    class Part:
        steps: int

    with pytest.raises(TypeError, match="batch"):
        settings.build(Part, settings.default().clone)


@functools.cache
def _attributes_read() -> set[str]:
    """Names read as attributes, keys or keyword fields anywhere in the package but in config.py and main.py."""
    names: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        if path in (PACKAGE / "config.py", PACKAGE / "main.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
    return names


@pytest.mark.parametrize("path", [p for p, _ in settings.leaves(settings.default())])
def test_every_setting_is_read(path):
    if path.startswith("horizon."):  # read by the family's name
        config = settings.default()
        settings.override(config, path, "7")
        assert settings.horizon(config, path.partition(".")[2]) == 7 and settings.horizon(config, "mine") == config.horizon.own
        return
    if path.removeprefix("agents.") in settings.AGENTS:  # read by the agent's name
        config = settings.default()
        settings.override(config, path, "llm")
        assert settings.agent_kind(config, path.removeprefix("agents.")) == "llm" and settings.asks_models(config)
        return
    assert path.rsplit(".", 1)[-1] in _attributes_read(), f"nothing in coda_jax reads config.{path}"


def test_combinations_know_the_limits_of_training_programs():
    assert limits.MAX_STAGES == combinations.MAX_STAGES
    assert len(records.SOURCES) == combinations.SOURCES
    assert combinations.LEAST_DEMONSTRATIONS == awr.LEAST_DEMONSTRATIONS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds.count": "1"}, r"config\.rounds\.count is 1, but with config\.obs=pixels there are no rounds yet: their critic"),
        ({"pixels.height": "30"}, r"config\.pixels\.height is 30; it must be a multiple of config\.pixels\.patch, 4"),
        ({"policy.given_roles": "true"}, r"config\.policy\.given_roles tells a policy of states"),
        ({"policy.relations": "true"}, r"config\.policy\.relations compares tokens of a policy of states"),
    ],
)
def test_pictures_refuse_what_does_not_work_with_them(changes, message):
    config = settings.default()
    for path, text in ({"obs": "pixels"} | changes).items():
        settings.override(config, path, text)
    with pytest.raises(InputError, match=message):
        settings.validate(config)


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("agents.kind", "human", "use one of: scripted, llm"),
        ("agents.engine", "lm", 'did you mean "llm"?); use one of: (empty), scripted, llm'),
        ("agents.llm.temperature", "3", "config.agents.llm.temperature is 3.0"),
        ("agents.llm.tokens", "0", "config.agents.llm.tokens is 0"),
        ("agents.llm.reply_bytes", "10", "config.agents.llm.reply_bytes is 10"),
        ("agents.llm.base_url", "localhost:8000", "must be the address of a server, like http://localhost:8000/v1"),
        ("agents.llm.base_url", "file:///etc/passwd", "must be the address of a server"),
        ("agents.llm.base_url", "http://host:port/v1", "must be the address of a server"),
        ("agents.llm.base_url", "http://[::1/v1", "must be the address of a server"),
        ("agents.llm.base_url", "http://me:secretword@host/v1", "must be an address alone"),
        ("agents.llm.base_url", "http://host/v1?key=secretword", "must be an address alone"),
        ("agents.llm.key_variable", "sk-secretword", "the name of an environment variable, not the key itself"),
    ],
)
def test_settings_of_language_models(path, text, message):
    config = settings.default()
    config.agents.kind = "llm"
    settings.override(config, path, text)
    with pytest.raises(InputError) as error:
        settings.validate(config)
    assert message in str(error.value) and "secretword" not in str(error.value)


def test_a_replay_that_nobody_reads_is_refused():
    config = settings.default()
    config.agents.llm.replay = "calls.jsonl"
    with pytest.raises(InputError, match="no agent asks a language model"):
        settings.validate(config)
    config.agents.diagnoser = "llm"
    settings.validate(config)


def test_agents_are_mixed_by_name():
    config = settings.default()
    assert not settings.asks_models(config)
    config.agents.kind, config.agents.engine = "llm", "scripted"
    kinds = {agent: settings.agent_kind(config, agent) for agent in settings.AGENTS}
    assert kinds == {"engine": "scripted", "diagnoser": "llm", "potentials": "llm", "supervisor": "scripted"}  # which asks only where named
    assert settings.asks_models(config)
    for agent in settings.AGENTS:
        config.agents[agent] = "scripted"
    assert not settings.asks_models(config)
