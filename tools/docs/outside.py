"""A hook of MkDocs: files outside tools/docs/pages that are pages of the site, too.

Links in Markdown lead to the files themselves, so that they hold where it is read as it is; in the site they lead to the
pages that are made of the files."""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = "tools/docs/pages"
OUTSIDE = {"CHANGELOG.md": "changes.md", "SECURITY.md": "security.md", "tools/examples/README.md": "examples.md"}
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def on_files(files, config):
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, **_):
    sources = {made: path for path, made in OUTSIDE.items()}
    here = sources.get(page.file.src_uri) or posixpath.join(PAGES, page.file.src_uri)

    def in_the_site(link):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), link.group()))
        if path not in OUTSIDE and page.file.src_uri not in sources:
            return link.group()
        target = OUTSIDE.get(path) or posixpath.relpath(path, PAGES)
        return posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or ".")

    return LINK.sub(in_the_site, markdown)
