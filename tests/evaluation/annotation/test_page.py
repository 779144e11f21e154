"""The page as far as a parser sees it: whole, closed to the outside, silent about the diagnosis."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import pytest
from PIL import Image

from coda_jax.evaluation.annotation.answers import FACTORS
from coda_jax.evaluation.annotation.page import Item, page, sheet_of
from coda_jax.scenes.families import PHASES


def clip() -> bytes:
    buffer = io.BytesIO()
    frames = [Image.new("RGB", (32, 24), (i * 40, 0, 0)) for i in range(4)]
    frames[0].save(buffer, "WEBP", save_all=True, append_images=frames[1:], duration=100, loop=0)
    return buffer.getvalue()


NASTY = '</script><script>alert(1)</script><img src="http://evil.example/x"> $data ${data} \u2028'
ITEMS = [Item(3, "0" * 16, NASTY, clip(), (("Phases", NASTY),)), Item(9, "1" * 16, "put it there", clip(), ())]


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.scripts, self._script = [], set(), [], False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids |= {value for name, value in attrs if name == "id"}
        self._script = tag == "script"
        if self._script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._script = self._script and tag != "script"

    def handle_data(self, data):
        if self._script:
            self.scripts[-1] += data


def test_the_page_holds_its_clips_and_nothing_from_outside():
    text = page(ITEMS, "Why?")
    found = Page(text)
    assert len(found.scripts) == 2
    data = json.loads(found.scripts[0])
    assert [i["instruction"] for i in data["items"]] == [NASTY, "put it there"] and data["sheet"] == sheet_of(ITEMS)
    for item, own in zip(data["items"], ITEMS, strict=True):
        head, _, body = item["clip"].partition(",")
        assert head == "data:image/webp;base64" and base64.b64decode(body) == own.clip
        assert Image.open(io.BytesIO(base64.b64decode(body))).n_frames == 4  # type: ignore[attr-defined]
    outside = re.compile(r"https?:|//[a-z]|@import|[^L]url\(|fetch|XMLHttp|WebSocket|import\(")
    assert not outside.search(text.replace(found.scripts[0], ""))
    assert not [a for _, a in found.tags if a.get("src") or a.get("href")]
    policy = next(a["content"] for tag, a in found.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "img-src data:" in policy
    assert len(text) < 20_000 + 2 * sum(len(i.clip) for i in ITEMS)


def test_every_id_that_the_script_asks_for_is_there():
    found = Page(page(ITEMS, "Why?"))
    asked = set(re.findall(r'\bat\("([a-z]+)"\)', found.scripts[1]))
    assert asked and asked <= found.ids


def test_every_choice_has_a_key_of_its_own():
    data = json.loads(Page(page(ITEMS, "Why?")).scripts[0])
    assert [f["name"] for f in data["factors"]] == list(FACTORS) and [p["name"] for p in data["phases"]] == list(PHASES)
    keys = [one["key"] for one in (*data["factors"], *data["phases"])]
    assert len({*keys, "u", "n"}) == len(keys) + 2


def test_a_sheet_is_known_by_its_failures():
    assert sheet_of(ITEMS) == sheet_of([*ITEMS]) != sheet_of(ITEMS[::-1]) != sheet_of(ITEMS[:1])
    with pytest.raises(ValueError, match="no failures to judge"):
        page([], "Why?")
