"""The wheel: installed elsewhere it finds its data and its command line works from another folder."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

_BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    root = Path(__file__).parent.parent
    if not (root / "setup.py").exists():
        pytest.skip("needs the source checkout")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, source)
    shutil.copytree(root / "coda_jax", source / "coda_jax", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-c", _BUILD, str(out)], cwd=source, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def test_wheel_holds_every_file_of_the_package(wheel, repository):
    tracked = {
        p.relative_to(repository).as_posix()
        for p in (repository / "coda_jax").rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and p.suffix not in (".pyc", ".part")
    }
    packed = {n for n in zipfile.ZipFile(wheel).namelist() if n.startswith("coda_jax/")}
    assert packed == tracked


def test_installed_wheel_works_from_another_folder(wheel, tmp_path):
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True
    )
    site = next(environment.glob("lib/python*/site-packages"))
    # the dependencies of this environment, without its own (editable) copy of the package: .pth files are not read from here
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def run(*arguments: str) -> str:
        done = subprocess.run([str(python), *arguments], cwd=elsewhere, env=clean, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", "import coda_jax; print(coda_jax.__file__)").startswith(str(site))
    assert "usage: python -m coda_jax.main" in run("-m", "coda_jax.main", "--help")
    assert len(run("-c", "from coda_jax.scenes.sdk import scene_sdk; print(scene_sdk())")) > 1000


def _pins(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9a-z.]+", line) for line in lines)  # exact, and no addresses
    return dict(line.split("==") for line in lines)


def _setup_arguments(repository: Path) -> dict:
    captured: dict = {}
    code = (repository / "setup.py").read_text().replace("from setuptools import find_packages, setup", "find_packages = lambda **k: []")
    exec(compile(code, str(repository / "setup.py"), "exec"), {"__file__": str(repository / "setup.py"), "setup": captured.update})
    return captured


def test_every_requirement_is_imported(repository):
    """What an installation brings is used: by the package, or (jaxtyping) by its tests on the package's annotations."""
    from importlib.metadata import packages_distributions

    from packaging.requirements import Requirement

    imports = {"mujoco-mjx": {"mujoco"}, "orbax-checkpoint": {"orbax"}}  # namespaces shared with others
    for module, distributions in packages_distributions().items():
        for name in distributions:
            imports.setdefault(name.lower().replace("_", "-"), set()).add(module)
    text = "\n".join(p.read_text() for folder in ("coda_jax", "tests") for p in (repository / folder).rglob("*.py"))
    used = set(re.findall(r"^\s*(?:import|from) (\w+)", text, re.MULTILINE))
    for requirement in _setup_arguments(repository)["install_requires"]:
        name = Requirement(requirement).name.lower().replace("_", "-")
        assert imports.get(name, {name.replace("-", "_")}) & used, f"{name} is imported nowhere: take it out of setup.py"


def test_every_requirement_is_pinned_and_in_range(repository):
    from packaging.requirements import Requirement

    pins = _pins(repository / "requirements.txt") | _pins(repository / "requirements-nodeps.txt")
    assert (pins["jax"], pins["mujoco"]) == ("0.10.2", "3.17.0")
    assert not {n for n in pins if n.startswith(("torch", "nvidia", "jax-cuda", "triton"))}
    captured = _setup_arguments(repository)
    for text in captured["install_requires"] + captured["extras_require"]["test"]:
        requirement = Requirement(text)
        name = requirement.name.lower().replace("_", "-")
        assert requirement.specifier.contains(pins[name]), f"{text} does not allow the pinned {pins[name]}"


def test_the_extra_libero_brings_what_its_checks_ask_for(repository):
    """Whoever installs the extra is not refused afterwards."""
    from packaging.requirements import Requirement

    from coda_jax.scenes.libero import package

    extra = {r.name: r.specifier for r in map(Requirement, _setup_arguments(repository)["extras_require"]["libero"])}
    assert extra[package.DISTRIBUTION].contains(package.VERSION) and not extra[package.DISTRIBUTION].contains("0.1.2")
    major, minor = map(int, package.MUJOCO.split("."))
    for name in ("mujoco", "mujoco-mjx"):
        assert extra[name].contains(f"{package.MUJOCO}.0") and extra[name].contains(f"{package.MUJOCO}.9")
        assert not extra[name].contains(f"{major}.{minor + 1}.0") and not extra[name].contains(f"{major}.{minor - 1}.0")


def test_installed_versions_are_the_pins_when_this_is_our_environment(repository):
    if not (Path(sys.prefix) / "stamp").exists():
        pytest.skip("not the environment that launch/test.sh makes")
    from importlib.metadata import version

    assert {n: version(n) for n in _pins(repository / "requirements.txt")} == _pins(repository / "requirements.txt")
