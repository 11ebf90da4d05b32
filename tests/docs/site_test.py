"""The site of the documents: no dead link, nothing from elsewhere; every page in a browser, wide and narrow, light and dark."""

import itertools
import os
import re
import subprocess
import tempfile
import unittest
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import browser

SOURCE = Path(os.environ["FLA_SOURCE_DIR"])

# What a reader would see: pictures that are there, a page as wide as the window, the colours asked for.
SEEN = """new Promise(requestAnimationFrame).then(() => ({
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  empty: [...document.images].filter((image) => !image.complete || !image.naturalWidth || !image.getBoundingClientRect().width).map((image) => image.src),
  images: document.images.length,
  scheme: document.body.getAttribute("data-md-color-scheme")
}))"""

SEARCH = """new Promise((resolve, reject) => {
  const input = document.querySelector("[data-md-component=search-query]");
  input.focus();
  input.value = "breaker";
  input.dispatchEvent(new Event("keyup"));
  input.dispatchEvent(new Event("input"));
  const started = Date.now();
  const look = () => {
    const found = [...document.querySelectorAll(".md-search-result__item a")].map((link) => link.getAttribute("href"));
    if (found.length) resolve(found);
    else if (Date.now() - started > 60000) reject("nothing was found within a minute");
    else setTimeout(look, 50);
  };
  look();
})"""


class Links(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.targets, self.names = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names.update(attributes[key] for key in ("id", "name") if attributes.get(key))
        for key in ("href", "src"):
            if attributes.get(key) is not None:
                self.targets.append((tag, attributes[key]))


class Site(unittest.TestCase):
    maxDiff = None

    def not_run(self, why):
        print(f"not run: {why}")
        self.skipTest(why)

    def setUp(self):
        if not (SOURCE / ".deps/docs/bin/mkdocs").exists():
            self.not_run("MkDocs Material is not installed (scripts/requirements docs)")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = Path(folder.name).resolve()
        done = subprocess.run([SOURCE / "scripts/docs", "--into", self.site], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.pages = sorted(self.site.rglob("*.html"))
        listed = re.findall(r": (\S+)\.md$", (SOURCE / "tools/docs/mkdocs.yml").read_text(), re.M)
        self.assertEqual([str(page.relative_to(self.site)) for page in self.pages], sorted(f"{name}.html" for name in listed))

    def test_no_link_is_dead_and_nothing_comes_from_elsewhere(self):
        links = {page: Links(page.read_text()) for page in self.pages}
        wrong = []
        for page, found in links.items():
            for tag, target in found.targets:
                parts = urlsplit(target)
                if parts.scheme or parts.netloc:
                    if tag != "a" or parts.scheme not in ("https", "http", "mailto") or not re.fullmatch(r"[\w.-]+\.\w+(:\d+)?", parts.netloc):
                        wrong.append(f"{page.relative_to(self.site)}: {tag} {target}")
                    continue
                file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
                if not file.is_file() or file in links and parts.fragment and unquote(parts.fragment) not in links[file].names:
                    wrong.append(f"{page.relative_to(self.site)}: {target}")
        for style in self.site.rglob("*.css"):
            wrong += [f"{style.name}: {url}" for url in re.findall(r"url\(['\"]?((?:https?:)?//[^)]*)\)", style.read_text())]
        self.assertEqual(wrong, [])

    def test_every_page_opens_in_a_browser(self):
        if not (program := browser.found()):
            self.not_run("there is no Chromium (scripts/requirements docs)")
        opened = browser.Browser(program)
        self.addCleanup(opened.close)
        wrong = []
        for number, page in enumerate(self.pages):
            # Loading takes longer than all else: a page is loaded in the colours of one scheme, in turn, and shown in both.
            schemes = [("light", "default"), ("dark", "slate")][:: 1 if number % 2 else -1]
            for (scheme, expected), width in itertools.product(schemes, (1200, 400)):
                opened.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
                opened.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
                if (scheme, width) == (schemes[0][0], 1200):
                    opened.open(page.as_uri())
                seen = opened.ask(SEEN)
                found = list(opened.complaints())
                if seen["overflow"] > 0:
                    found.append(f"{seen['overflow']} pixels too wide")
                if seen["empty"] or seen["images"] != page.read_text().count("<img "):
                    found.append(f"{seen['images']} pictures, of which are not shown: {seen['empty']}")
                if seen["scheme"] != expected:
                    found.append(f"its colours are {seen['scheme']}")
                wrong += [f"{page.relative_to(self.site)}, {scheme}, {width} wide: {text}" for text in found]
        self.assertEqual(wrong, [])
        opened.open((self.site / "index.html").as_uri())
        self.assertTrue(any("failure.html" in link for link in opened.ask(SEARCH)), "the search does not find a page about breakers")
        self.assertEqual(list(opened.complaints()), [])


if __name__ == "__main__":
    unittest.main()
