"""The hostile programs of tests/data/attacks, further ones of every class, and the verbs they are written against."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "data" / "attacks"
DEV = sorted((FOLDER / "dev").glob("*.py"))
BENIGN = sorted((FOLDER / "benign").glob("*.py"))

STAND_IN = """
DEFAULTS = {"friction": 1.0}
def box(name, half, pos, mass, friction): return {"name": name, "half": half, "pos": pos, "mass": mass, "friction": friction}
def sphere(name, r, pos, mass, friction): return {"name": name, "r": r, "pos": pos, "mass": mass, "friction": friction}
def on(a, b): return {"on": [a, b]}
def near(a, b, d): return {"near": [a, b, d]}
"""

# The same verbs on top of the project's: a box is a block of the catalogue, "success" is the goal.
ON_SCENE_VERBS = """
DEFAULTS = {"friction": 1.0}
def box(name, half, pos, mass, friction):
    return thing(name, category="block", at=(pos[0] + 0.4, pos[1]), scale=half[0] / 0.02, mass_kg=mass, friction=friction)
def near(a, b, d): return beside(a, b, d)
"""
AS_SCENE = """
_goal = result["success"] if "success" in result else all_of()
if "all" in _goal:
    _goal = all_of(*_goal["all"])
result["objects"][0]["role"] = "target"
result = scene(instruction="put the red block on the table", objects=result["objects"], goal=_goal)
"""

# What the message has to name when the data of these files reaches the door.
FIELDS = {
    "48_nan_mass": "a.y",
    "49_negative_size": "a.scale",
    "50_huge_count": "objects",
    "51_name_collision": "name",
    "52_mjcf_injection_name": "name",
    "53_vacuous_success": "goal",
    "57_prompt_injection_name": "name",
}

# class -> further programs of it; @CANARY@ is the folder with the secret
FURTHER = {
    "attribute-walk": [
        "result = str(type(1).__mro__)",
        "result = str(getattr(getattr((), '__cl' + 'ass__'), '__ba' + 'se__'))",
        "def f(): pass\nresult = str(f.__code__) + str(f.__closure__)",
        "class A:\n    pass\nresult = str(A().__init__.__globals__)",
        "result = [str(x) for x in (1).__reduce_ex__(2)]",
        "result = str(vars(box))",
        "import sys\nresult = str(sys.modules)",
    ],
    "format-string": [
        "result = '{0.__class__.__base__}'.format(1)",
        "result = f'{box.__globals__!r:>10}'",
        "result = '%(x)s' % {'x': box.__globals__}",
        "import string\nresult = string.Formatter().format('{0.__globals__}', box)",
    ],
    "frame-walk": [
        "import sys\nresult = str(sys._getframe(0).f_back.f_globals)",
        "import inspect\nresult = str(inspect.currentframe().f_back)",
        "import traceback\nresult = str(traceback.extract_stack())",
        "async def f():\n    return 1\nresult = str(f().cr_frame.f_back)",
    ],
    "decorator-class": [
        "@exec\n@str\ndef f(): pass\nresult = 1",
        "class A:\n    def __getattr__(self, n):\n        return eval('open(\"@CANARY@/secret.txt\").read()')\nresult = str(A().x)",
        "class A:\n    def __del__(self):\n        open('@CANARY@/out/x', 'w').write('1')\nA()\nresult = 1",
    ],
    "eval": [
        'result = eval(\'__import__("os").environ["CODA_CANARY"]\')',
        "exec('import os\\nX = os.environ[\"CODA_CANARY\"]')\nresult = X",
        "result = compile('1', 'x', 'eval')",
    ],
    "import": [
        "import importlib\nresult = str(importlib.import_module('os').environ)",
        "import ctypes\nresult = str(ctypes.CDLL(None).getenv(b'CODA_CANARY'))",
        "import coda_jax\nresult = str(coda_jax)",
        "import numpy\nresult = str(numpy)",
        "import pickle\nresult = str(pickle.loads(b'cos\\ngetenv\\n(VCODA_CANARY\\ntR.'))",
    ],
    "environment": [
        "import os\nresult = os.getenv('CODA_CANARY')",
        "import os\nresult = str(dict(os.environ))",
        "import pathlib\nresult = pathlib.Path('/proc/self/environ').read_text()",
        "import os\nresult = os.path.expandvars('$CODA_CANARY')",
    ],
    "filesystem": [
        "result = open('@CANARY@/secret.txt').read()",
        "import pathlib\nresult = pathlib.Path('@CANARY@/secret.txt').read_text()",
        "import pathlib\nresult = [str(p) for p in pathlib.Path('@CANARY@').iterdir()]",
        "import os\nresult = os.listdir('@CANARY@')",
        "with open('@CANARY@/out/x', 'w') as f:\n    f.write('x')\nresult = 1",
        "import os\nos.mkdir('@CANARY@/out/x')\nresult = 1",
        "import os\nos.rename('@CANARY@/secret.txt', '@CANARY@/out/s')\nresult = 1",
        "import pathlib\nresult = pathlib.Path('../../../../@CANARY@/secret.txt').resolve().read_text()",
    ],
    "process-network": [
        "import subprocess\nresult = subprocess.run(['ls'])",
        "import os\nresult = os.popen('echo $CODA_CANARY').read()",
        "import multiprocessing\nresult = 1",
        "import threading\nresult = 1",
        "import http.client\nresult = 1",
        "import os\nos.kill(os.getppid(), 9)\nresult = 1",
        "import signal\nsignal.raise_signal(9)\nresult = 1",
    ],
    "recursion": [
        "f = lambda g: g(g)\nresult = f(f)",
        "class A:\n    def __repr__(self):\n        return repr(self)\nresult = repr(A())",
        "x = []\nfor i in range(100000):\n    x = [x]\nresult = x",
        "x = []\nx.append(x)\nresult = x",
        "x = {}\nfor i in range(100000):\n    x = {'a': x}\nresult = str(x)",
        "result = eval('(' * 100000 + ')' * 100000)",
        "result = eval('-' * 100000 + '1')",
        "import json\nresult = json.loads('[' * 100000 + ']' * 100000)",
        "def f(n):\n    try:\n        return f(n + 1)\n    except RecursionError:\n        return f(n + 1)\nresult = f(0)",
    ],
    "memory": [
        "x = 'a'\nwhile True:\n    x += x",
        "result = [[0] * 10**6 for i in range(10**6)]",
        "result = 1 << (1 << 40)",
        "result = '%1000000000d' % 1",
        "result = 'x'.ljust(10**10)",
        "x = [1] * 10\nfor i in range(12):\n    x = [x] * 10\nresult = x",
        "d = {}\ni = 0\nwhile True:\n    d[i] = 'a' * 1000\n    i += 1",
        "result = list(range(10**9)) + sorted(range(10**9))",
    ],
    "regex": [
        "import re\nresult = str(re.match(r'(a*)*\\\\1$', 'a' * 60 + 'b'))",
        "import re\nresult = str(re.match(r'(?=(a+)+$)(x|x)*', 'a' * 60 + 'b'))",
        "import re\nresult = str(re.sub(r'(x+x+)+y', '', 'x' * 5000))",
    ],
    "reply": [
        "result = [0] * 10**6",
        "result = 'a' * 10**6",
        "result = {1: 1, '1': 2}",
        "result = {'a' * 1000: 1}",
        "result = float('nan')",
        "result = [1e400]",
        "result = 10**400",
        "result = b'abc'",
        "result = {1, 2}",
        "result = box",
        "class A:\n    pass\nresult = A()",
        "import datetime\nresult = datetime.datetime.now()",
        "len = lambda x: 0\nresult = [0] * 10**6",
        "print = 1\nstr = 2\nresult = {'a': 10**30}",
        "x = 1",
        "",
    ],
}
# Programs that may take the whole time limit.
ENDLESS = [
    "while True: pass",
    "for i in iter(int, 1): pass",
    "while True:\n    try:\n        raise TimeoutError\n    except BaseException:\n        continue",
    "total = 0\nfor i in range(10**12): total += i * i",
    "result = sum(range(10**12))",
    "while True:\n    try:\n        print('a' * 100)\n    except BaseException:\n        pass",
    "import time\nfor i in range(10**9): time.sleep(1000)",
]
