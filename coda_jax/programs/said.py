"""What an author is told of an error: sentences that are known beforehand, with a few bounded names in them.

An error's message comes from the interpreter, from one of our verbs, or from the program, which can raise anything and can replace what our
verbs call. So a message counts only as the choice of a known sentence: one of the interpreter's below, or one that stands in the source of
the verbs. What stands at its open places is shown where it is a single name, number or sign. Anything else is left out, and the kind and
the line of the error have to do. Text of a program thus never reaches a prompt or a log as a sentence.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
from collections.abc import Callable, Iterable

MAX_NAME = 32  # characters of a name that is shown
MAX_MESSAGE = 600  # characters of a message that are looked at; the longest sentence of the verbs has some 300
LEFT_OUT = "..."

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIGN = re.compile(r"[-+*/%@&|^<>=!~]{1,3}|\(|\)|\[|\]|\{|\}|,|:|;|\.|->|:=|\*\* or pow\(\)|divmod\(\)")
_NUMBER = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,12})?(e[-+]?[0-9]{1,3})?|-?inf|nan")
# Kinds of tokens, as the interpreter's parser calls them.
_TOKENS = frozenset(
    (
        "name",
        "int",
        "float",
        "complex",
        "string",
        "byte string",
        "f-string",
        "newline",
        "indent",
        "dedent",
        "comment",
        "end of file",
        "None",
    )
)
_TYPES = frozenset((
    "int", "float", "str", "bool", "list", "dict", "tuple", "set", "frozenset", "bytes", "range", "function", "NoneType", "complex",
    "slice", "type", "module", "method", "object", "ellipsis", "builtin_function_or_method", "dict_keys", "dict_values", "dict_items",
    "iterator", "generator", "coroutine", "Exception", "ValueError", "TypeError",
))  # fmt: skip
_EVALUATED = re.compile(r" \(<string>, line [0-9]{1,9}\)$")
_BETWEEN = re.compile(r", | or | and |; |: ")  # what lists of the verbs stand between, at an open place
_TOKEN = re.compile(r"[A-Za-z0-9_.:?+()\[\]=-]*")  # of such a list: a name, a field, a number
_PLACE = re.compile(r"<(name|type|number|sign|token|text)>")


def shown_name(text: str) -> str:
    """A name, cut; of anything else nothing."""
    if not _NAME.fullmatch(text):
        return LEFT_OUT
    return text if len(text) <= MAX_NAME else text[: MAX_NAME - 3] + LEFT_OUT


def _shown_type(text: str) -> str:
    return text if text in _TYPES else "object"  # a class of the program has a name of the program


def _shown_number(text: str) -> str:
    return text if _NUMBER.fullmatch(text) else LEFT_OUT


def _shown_sign(text: str) -> str:
    return text if _SIGN.fullmatch(text) else LEFT_OUT


def _shown_token(text: str) -> str:
    inner = text.strip("`")
    return text if inner in _TOKENS or _SIGN.fullmatch(inner) or (inner.isascii() and inner.isalpha() and len(inner) < 10) else LEFT_OUT


_SHOWN: dict[str, Callable[[str], str]] = {
    "name": shown_name,
    "type": _shown_type,
    "number": _shown_number,
    "sign": _shown_sign,
    "token": _shown_token,
    "text": lambda text: LEFT_OUT,
}


@dataclasses.dataclass(frozen=True)
class Sentence:
    """pieces: its fixed text, around its open places. kinds: of the open places, one fewer."""

    pieces: tuple[str, ...]
    kinds: tuple[str, ...]

    def places(self, message: str) -> list[str] | None:
        """What stands at the open places of ``message``, None where it is another sentence. Linear in its length."""
        if len(self.pieces) == 1:
            return [] if message == self.pieces[0] else None
        first, *middle, last = self.pieces
        if not message.startswith(first) or not message.endswith(last) or len(message) < len(first) + len(last):
            return None
        at, end = len(first), len(message) - len(last)
        found = []
        for piece in middle:
            next_at = message.find(piece, at, end)
            if next_at < 0:
                return None
            found.append(message[at:next_at])
            at = next_at + len(piece)
        return [*found, message[at:end]]

    def filled(self, values: Iterable[str]) -> str:
        return "".join(part for pair in zip(self.pieces, [*values, ""], strict=True) for part in pair)


def _sentence(text: str) -> Sentence:
    parts = _PLACE.split(text)
    return Sentence(tuple(parts[::2]), tuple(parts[1::2]))


RUNTIME = tuple(
    _sentence(line)
    for line in """\
name '<name>' is not defined
cannot access local variable '<name>' where it is not associated with a value
cannot access free variable '<name>' where it is not associated with a value in enclosing scope
module '<name>' has no attribute '<name>'
'<type>' object has no attribute '<name>' and no __dict__ for setting new attributes
'<type>' object has no attribute '<name>'
No module named '<name>'
cannot import name '<name>' from '<name>' (unknown location)
'<type>' object is not callable
'<type>' object is not iterable
'<type>' object is not subscriptable
'<type>' object is not an iterator
'<type>' object is not a mapping
'<type>' object does not support item assignment
'<type>' object does not support item deletion
'<type>' object cannot be interpreted as an integer
'<type>' object does not support the context manager protocol (missed __exit__ method)
'<type>' object can't be awaited
cannot unpack non-iterable <type> object
object of type '<type>' has no len()
<name>() missing <number> required positional argument: '<name>'
<name>() missing <number> required positional arguments: '<name>' and '<name>'
<name>() missing <number> required positional arguments: '<name>', '<name>', and '<name>'
<name>() missing <number> required keyword-only argument: '<name>'
<name>() takes <number> positional argument but <number> were given
<name>() takes <number> positional arguments but <number> were given
<name>() takes <number> positional arguments but <number> was given
<name>() takes from <number> to <number> positional arguments but <number> were given
<name>() takes no arguments
<name>() takes no keyword arguments
<name>() takes at least <number> positional argument (<number> given)
<name>() takes at least <number> argument (<number> given)
<name>() takes at most <number> arguments (<number> given)
<name> expected <number> argument, got <number>
<name>() takes no arguments (<number> given)
<name>() takes exactly one argument (<number> given)
<name>() got an unexpected keyword argument '<name>'
<name>() got multiple values for argument '<name>'
<name> expected at least <number> argument, got <number>
<name> expected at most <number> arguments, got <number>
<name>() argument after ** must be a mapping, not <type>
Value after * must be an iterable, not <type>
unsupported operand type(s) for <sign>: '<type>' and '<type>'
'<sign>' not supported between instances of '<type>' and '<type>'
bad operand type for unary <sign>: '<type>'
bad operand type for <name>(): '<type>'
can only concatenate <type> (not "<type>") to <type>
can't multiply sequence by non-int of type '<type>'
cannot use '<type>' as a dict key (unhashable type: '<type>')
unhashable type: '<type>'
type <type> doesn't define <name> method
sequence item <number>: expected str instance, <type> found
argument of type '<type>' is not iterable
list indices must be integers or slices, not <type>
tuple indices must be integers or slices, not <type>
string indices must be integers, not '<type>'
argument of type '<type>' is not a container or iterable
type object '<type>' has no attribute '<name>'
__init__() should return None, not '<type>'
list index out of range
tuple index out of range
string index out of range
list assignment index out of range
range object index out of range
pop from empty list
pop from an empty set
dictionary changed size during iteration
list.remove(x): x not in list
list.index(x): x not in list
tuple.index(x): x not in tuple
<name>() iterable argument is empty
<name>() arg <number> must not be zero
slice step cannot be zero
too many values to unpack (expected <number>, got <number>)
too many values to unpack (expected <number>)
not enough values to unpack (expected <number>, got <number>)
not enough arguments for format string
not all arguments converted during string formatting
Replacement index <number> out of range for positional args tuple
invalid literal for int() with base <number>: <text>
could not convert string to float: <text>
%d format: a real number is required, not <type>
division by zero
integer modulo by zero
integer division or modulo by zero
float division by zero
float modulo by zero
math domain error
math range error
expected a nonnegative input, got <number>
expected a positive input, got <number>
cannot convert float infinity to integer
cannot convert float NaN to integer
negative shift count
isinstance() arg 2 must be a type, a tuple of types, or a union
chr() arg not in range(0x110000)
ord() expected a character, but string of length <number> found
exceptions must derive from BaseException
attempted relative import with no known parent package
keys must be str, int, float, bool or None, not <type>
Object of type <type> is not JSON serializable
Circular reference detected
cannot create '<type>' instances
'<name>.<name>' is not supported in this environment""".splitlines()
)

# A program can raise a SyntaxError of its own: these are known sentences too.
SYNTAX = tuple(
    _sentence(line)
    for line in """\
Invalid Syntax
Source is too deeply nested
Expected <token>, found <token>
Expected an expression
Expected a statement
Expected an identifier
Expected an import
Expected a parameter name
Expected a parameter or the end of the parameter list
Expected an expression or a ')'
Expected an indented block after <token> statement
Expected an indented block after <token> clause
Expected an indented block after function definition
Expected index or slice expression
Expected one or more symbol names after import
Expected one or more keyword parameter after `*` separator
Expected a newline after line continuation character
Unexpected indentation
unindent does not match any outer indentation level
unexpected EOF while parsing
Unexpected token at the end of an expression
Got unexpected token <token>
Got unexpected string
missing closing quote in string literal
unterminated string
Invalid decimal integer literal
Invalid assignment target
Invalid annotated assignment target
Invalid augmented assignment target
Invalid delete target
Assignment expression target must be an identifier
Simple statements must be separated by newlines or semicolons
Compound statements are not allowed on the same line as simple statements
Unparenthesized named expression cannot be used here
Unparenthesized tuple expression cannot be used here
Unparenthesized generator expression cannot be used here
Lambda expression cannot be used here
Yield expression cannot be used here
Starred expression cannot be used here
Two starred expressions in assignment
Parameter cannot follow var-keyword parameter
Parameter without a default cannot follow a parameter with a default
Parameter with `*` or `**` cannot have default value
Positional argument cannot follow keyword argument
Positional argument cannot follow keyword argument unpacking
Iterable argument unpacking cannot follow keyword argument unpacking
duplicate argument '<name>' in function definition
keyword argument repeated: <name>
'break' outside loop
'continue' not properly in loop
nonlocal declaration not allowed at module level
no binding for nonlocal '<name>' found
name '<name>' is parameter and global
name '<name>' is used prior to global declaration
name '<name>' is assigned to before global declaration
Invalid format specifier '<name>'
f-string: <token>""".splitlines()
)

_NOT_YET = "The monty syntax parser does not yet support "
MISSING = (
    "the 'del' statement",
    "class inheritance and metaclasses",
    "method decorators (classmethod/staticmethod/property)",
    "complex class variable targets (only `name = <expr>` is allowed)",
    "class bodies containing anything other than methods and simple class variables",
    "assignment expressions (`:=`) in class bodies",
    "yield expressions",
    "yield from expressions",
    "starred expressions (*expr)",
    "multiple **kwargs unpacking",
    "exception groups (try*/except*)",
    "async for loops",
    "async context managers (async with)",
    "template strings (t-strings)",
    "type aliases",
)


def of_interpreter(message: str, sentences: tuple[Sentence, ...] = RUNTIME) -> str:
    """The known sentence that ``message`` is, names in it cut; empty where it is none."""
    message = _EVALUATED.sub("", message[:MAX_MESSAGE])
    return _chosen(message, sentences, lambda kind, place: _SHOWN[kind](place)).replace("`", "'")


def _chosen(message: str, sentences: Iterable[Sentence], shown: Callable[[str, str], str]) -> str:
    """The sentence that ``message`` is, of several the one of which the most can be shown."""
    found = []
    for sentence in sentences:
        places = sentence.places(message)
        if places is not None:
            found.append(sentence.filled(shown(kind, place) for kind, place in zip(sentence.kinds, places, strict=True)))
    return min(found, key=lambda text: text.count(LEFT_OUT), default="")


def not_in_subset(message: str) -> str | None:
    """What of Python the interpreter lacks, if ``message`` says so: a known name of it, or no name; None where it says something else."""
    if message == "Wildcard imports (`from ... import *`) are not supported":
        return "wildcard imports"
    if not message.startswith(_NOT_YET):
        return None
    what = message[len(_NOT_YET) :]
    return what.removeprefix("the ").replace("`", "'").replace("<expr>", "value") if what in MISSING else "such thing"


@functools.cache
def _verbs(source: str) -> tuple[tuple[Sentence, ...], frozenset[str]]:
    """Sentences of the errors that the verbs raise, and all texts that stand in them. ``source`` is our own."""
    tree = ast.parse(source)
    raised = [
        node.exc.args[0] for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args
    ]
    texts = {arg.left if isinstance(arg, ast.BinOp) else arg for arg in raised}
    sentences = []
    for text in texts:
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            parts = re.split(r"%([sd])", text.value)
            sentences.append(Sentence(tuple(parts[::2]), tuple("number" if kind == "d" else "words" for kind in parts[1::2])))
    literals = frozenset(node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    names |= {arg.arg for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for arg in (*node.args.args, *node.args.kwonlyargs)}
    return tuple(sorted(set(sentences), key=lambda s: -len(s.pieces[0]))), literals | names


def of_verb(message: str, source: str) -> str:
    """The sentence of a verb that ``message`` is, empty where it is none.

    source: of the verbs. An open place may hold a whole text of theirs, or a list of such texts, of their names and of numbers, with at
    most one name of another origin in it: words of ours in an order of the program's would be a sentence of the program's.
    """
    message = message[:MAX_MESSAGE]
    sentences, known = _verbs(source)

    def shown(kind: str, place: str) -> str:
        if kind == "number" or _NUMBER.fullmatch(place):
            return _shown_number(place)
        if place in known:
            return place
        items = [item if item in known else _of_verb_name(item, known) for item in _BETWEEN.split(place)]
        strange = [item for item in items if item not in known and not _is_measure(item, known)]
        fits = len(strange) <= 1 and all(_TOKEN.fullmatch(item) and len(item) <= MAX_NAME for item in strange)
        return place if fits else LEFT_OUT

    return _chosen(message, sentences, shown)


def _of_verb_name(item: str, known: frozenset[str]) -> str:
    """What is left of "edit reach" without the verb that it begins with."""
    first, space, rest = item.partition(" ")
    return rest if space and first in known else item


def _is_measure(text: str, known: frozenset[str]) -> bool:
    """A number, with a unit of the verbs or none."""
    number, _, unit = text.partition(" ")
    return bool(_NUMBER.fullmatch(number)) and (not unit or unit in known or f" {unit}" in known)
