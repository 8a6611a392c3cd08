#!/usr/bin/env python3
"""Builds the pages of the repository as a site with search, which asks no other site for anything.

    scripts/docs_site.py OUT     # needs mkdocs-material (python/tests/requirements.txt); or: make site

The pages are those that people read in the repository, at the same paths, so that their links hold. The menu
is the tables of docs/README.md. A link to nothing is an error.
"""

import json
import logging
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import mkdocs.commands.build
import mkdocs.config
import pymdownx.slugs

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
# Pictures that are chosen by the colours of the reader's screen are written as HTML.
PICTURE = re.compile(r"""\bsrc(?:set)?="([^":]+)\"""")
# Names of headings as in the repository's links.
SLUG = pymdownx.slugs.slugify(case="lower")
# Where the pages of other folders stand in the menu.
MORE = {
    "Data and measurements": ["data/README.md", "bench/README.md"],
    "The project": ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"],
}


def kind(line):
    """What a line of a page begins or goes on with."""
    for kind, begins in [
        ("list", r"([-*+]|\d+\.)\s"),
        ("table", r"\|"),
        ("heading", r"#+ "),
        ("blank", r"$"),
        ("list", " "),
    ]:
        if re.match(begins, line):
            return kind
    return "text"


def as_markdown(text):
    """The page for a reader that, unlike GitHub's, wants a blank line before a list, a table or a heading."""
    lines, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        before = kind(lines[-1]) if lines else "blank"
        if not fenced and before != "blank" and kind(line) in {"list", "table", "heading"} - {before}:
            lines.append("")
        lines.append(line)
    return "\n".join(lines) + "\n"


def of_notebook(file, to):
    """A notebook as a page, with its outputs as they are in the file. Its pictures go beside the page."""
    parts = []
    for number, cell in enumerate(json.loads(file.read_text())["cells"]):
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/svg+xml" in data:
                picture = to / f"{file.stem}-{number}.svg"
                picture.parent.mkdir(parents=True, exist_ok=True)
                picture.write_text("".join(data["image/svg+xml"]))
                parts.append(f"![Output of this cell]({picture.name})")
            else:
                parts.append("```text\n" + "".join(data["text/plain"]).strip("\n") + "\n```")
    return "\n\n".join(parts) + "\n"


def title(page):
    heading = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE)
    return heading.group(1) if heading else page.stem


def of_folder(folder):
    """A page that lists the pages of a folder."""
    pages = sorted(p for p in folder.glob("*.md") if p.name != "index.md")
    entries = [f"- [{title(page)}]({page.name})" for page in pages]
    return f"# {folder.name.capitalize()}\n\n" + "\n".join(entries) + "\n"


def copy(to):
    """Copies all pages of the repository, and what they link to, to the same paths below a folder."""
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    folders = set()
    for page in tracked.split("\0"):
        if not page or "/tests/" in page:
            continue
        text = (ROOT / page).read_text()
        pictures = set(PICTURE.findall(text))
        for link in pictures | {found.group(1) for found in LINK.finditer(text)}:
            target = (ROOT / page).parent / link
            # MkDocs tells of links that lead nowhere, but not of pictures in HTML: those fail here.
            is_there = link in pictures or target.exists()
            if "://" in link or link.endswith(".md") or not is_there:
                continue
            place = to / os.path.relpath(target.resolve(), ROOT)
            if link.endswith(".ipynb"):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.with_suffix(".md").write_text(of_notebook(target, place.parent))
                text = text.replace(f"]({link})", f"]({link.removesuffix('.ipynb')}.md)")
            elif target.is_dir():
                folders.add(place)
                text = re.sub(rf"\]\({re.escape(link)}(?=[)#])", f"]({link.rstrip('/')}/index.md", text)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(target, place)
        (to / page).parent.mkdir(parents=True, exist_ok=True)
        (to / page).write_text(as_markdown(text))
    for folder in folders:
        if not (folder / "README.md").exists():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "index.md").write_text(of_folder(folder))


def menu():
    """The headings of docs/README.md with the pages that their tables name, in order."""
    sections, seen = [{"Home": "README.md"}], set()
    for part in re.split(r"^## ", (ROOT / "docs/README.md").read_text(), flags=re.MULTILINE)[1:]:
        heading = part.splitlines()[0].split(":")[0]
        pages = []
        for name, target in re.findall(r"\[([^]]+)\]\(([^)#\s]+\.md)\)", part):
            page = os.path.normpath(f"docs/{target}")
            if page not in seen:
                seen.add(page)
                pages.append({name: page})
        sections.append({heading: pages})
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    sections.append({"Decisions": [{title(page): str(page.relative_to(ROOT))} for page in decisions]})
    for heading, pages in MORE.items():
        rest = [{title(ROOT / page): page} for page in pages if page not in seen]
        sections.append({heading: rest})
    return sections


def build(out):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "pages"
        copy(source)
        config = mkdocs.config.load_config(
            config_file=os.devnull,
            docs_dir=str(source),
            site_dir=str(out),
            site_name="ncclscope",
            nav=menu(),
            strict=True,
            # Its pages open from files, too; search needs a server.
            use_directory_urls=False,
            plugins=["material/search"],
            theme={
                "name": "material",
                "font": False,
                "features": [
                    "navigation.sections",
                    "navigation.top",
                    "content.code.copy",
                    "search.highlight",
                ],
                "palette": [
                    {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "black"},
                    {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "black"},
                ],
            },
            markdown_extensions=["tables", "fenced_code", {"toc": {"permalink": True, "slugify": SLUG}}],
            validation={
                "nav": {"omitted_files": "ignore", "not_found": "warn"},
                "links": {
                    "not_found": "warn",
                    "anchors": "warn",
                    "absolute_links": "warn",
                    "unrecognized_links": "warn",
                },
            },
        )
        mkdocs.commands.build.build(config)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    build(pathlib.Path(sys.argv[1]).resolve())
