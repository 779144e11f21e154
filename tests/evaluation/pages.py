"""Reading the report page as a browser would, and a name that tries to break out of it."""

import html.parser

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>\'"&$title'


class Page(html.parser.HTMLParser):
    """Collects tags, attributes and visible text."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = [], [], [], []
        self.source = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img", "br", "i", "rect", "line", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in ("i", "rect", "line", "path"):
            return
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text.append(data)
