"""What the documentation site needs beyond Markdown: hooks of mkdocs, named in mkdocs.yml.

Pages of docs/ link to files of the repository, which a site does not have; each file that is named so becomes a page
that shows it. The reference is a page for each topic of `saccade.PUBLIC` and each module of `saccade.PUBLIC_MODULES`,
written by mkdocstrings from the docstrings. What stands behind the language of a code block is for the tests
(`runnable`, `face`, the file of an excerpt): it is left out, or shown as a title. The start page has no columns beside
it; assets/site.css gives it its look.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\((?P<target>(?:\.\./)+(?!\.)[^)#\s]*)(?P<anchor>#[^)\s]*)?\)")
MARK = re.compile(r"^(?P<fence> *```\w+)[ ]+(?:runnable|face)\b[^\n]*$", re.MULTILINE)
EXCERPT = re.compile(r"^(?P<fence> *```\w+)[ ]+(?P<file>[\w./-]+/[\w./-]+)$", re.MULTILINE)
CODE = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
LEFT = re.compile(r"^\s*(?:<p>)?(?:\d+\.|[*+-]) .*|^\s*(?:<p>)?\|.*\||```.*|\\\|", re.MULTILINE)
ROW = re.compile(r"^ *\|.*\|$", re.MULTILINE)
LANGUAGES = {".py": "python", ".toml": "toml", ".md": "markdown", ".sh": "bash", ".jsonl": "json"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the reference and of the files that pages link to."""
    for uri, text in reference().items():
        files.append(File.generated(config, uri, content=text))
    for page in list(files.documentation_pages()):
        if page.abs_src_path is None:
            continue
        for link in LINK.finditer(Path(page.abs_src_path).read_text(encoding="utf-8")):
            to = shown_at(page.src_uri, link["target"])
            if to is not None and files.get_file_from_path(to) is None:
                files.append(File.generated(config, to, content=shown(to), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the pages of the reference into the navigation, below the one that is written there."""
    pages: list[Any] = next(entry["Reference"] for entry in config.nav or [] if "Reference" in entry)
    pages.extend(reference())
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page with its links to files led to their pages, and without the tests' marks."""

    def led(link: re.Match[str]) -> str:
        uri = shown_at(page.file.src_uri, link["target"])
        if uri is None:
            return link[0]
        above = len(PurePosixPath(page.file.src_uri).parts) - 1
        return f"]({'../' * above}{uri}{link['anchor'] or ''})"

    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    text = EXCERPT.sub(r'\g<fence> title="\g<file>"', MARK.sub(r"\g<fence>", LINK.sub(led, markdown)))
    # GitHub wants a bar inside code of a table spelled `\|`; Python's Markdown shows the backslash.
    return ROW.sub(lambda row: re.sub(r"`[^`]*`", lambda code: code[0].replace("\\|", "|"), row[0]), text)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page as it is, the start page within an element that the style sheet knows.

    Raises:
        ValueError: a list, table or block of code is left as text, since Python's Markdown reads less than GitHub's.
    """
    left = LEFT.search(CODE.sub("", html))
    if left is not None and page.file.abs_src_path is not None:
        raise ValueError(f"docs/{page.file.src_uri} shows its Markdown as text: {left[0].strip()[:80]}")
    return f'<div class="home">{html}</div>' if page.file.src_uri == "index.md" else html


def shown_at(page: str, target: str) -> str | None:
    """Where the site shows the file of the repository that `target`, a link of `page`, names; none if it is a page."""
    path = (ROOT / "docs" / page).parent.joinpath(target).resolve()
    if path.is_relative_to(ROOT / "docs") or not path.is_relative_to(ROOT):
        return None
    if not path.exists():
        raise FileNotFoundError(f"docs/{page} links to {target}, which does not exist")
    return f"source/{path.relative_to(ROOT).as_posix()}.md"


def shown(uri: str) -> str:
    """The page of a file or folder of the repository."""
    name = uri.removeprefix("source/").removesuffix(".md")
    path = ROOT / name
    head = f"---\nsearch: {{exclude: true}}\n---\n# {name}\n\n"
    if path.is_dir():
        return head + "\n".join(f"* `{file.relative_to(path)}`: {about(file)}" for file in sorted(path.rglob("*.py")))
    if path.suffix == ".ipynb":
        return f"---\nsearch: {{exclude: true}}\n---\n{notebook(path)}"
    if path.suffix == ".md":
        above = "../" * (len(PurePosixPath(uri).parts) - 1)
        text = re.sub(r"\]\(docs/", f"]({above}", path.read_text(encoding="utf-8"))
        return re.sub(r"(?<!!)\[([^\]]*)\]\((?!https?:|\.\./)[^)]*\)", r"\1", text)  # what the site has not
    return f"{head}````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}\n````\n"


def notebook(path: Path) -> str:
    """A notebook with its outputs as Markdown."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"````python\n{source}\n````")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/jpeg" in data:
                parts.append(f"![what the cell shows](data:image/jpeg;base64,{''.join(data['image/jpeg']).strip()})")
            elif "text/markdown" in data:
                parts.append("".join(data["text/markdown"]))
            elif "text" in output:
                parts.append(f"````text\n{''.join(output['text'])}````")
    return "\n\n".join(parts) + "\n"


def about(file: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n")[0]


def reference() -> dict[str, str]:
    """The pages of the reference, by where they stand."""
    public, modules = tables()
    pages = {}
    for topic, homes in public.items():
        own = [home for home in homes if modules.get(home) != "*"]  # what a module's page has stands there alone
        listed = sorted((name, home) for home in own for name in homes[home].split())
        text = "\n".join(f"::: saccade.{home}.{name}\n" for name, home in listed)
        pages[f"reference/{slug(topic)}.md"] = f"# {topic}\n\nFrom `saccade`.\n\n{text}"
    for home, names in sorted(modules.items()):
        members = "" if names == "*" else f"    options:\n      members: {names.split()}\n"
        pages[f"reference/{home}.md"] = f"# saccade.{home}\n\n::: saccade.{home}\n{members}"
    return pages


def slug(topic: str) -> str:
    """The topic as a file's name."""
    return re.sub(r"[^a-z]+", "-", topic.lower()).strip("-")


def tables() -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """`PUBLIC` and `PUBLIC_MODULES`, read from the source: the site's environment has no Saccade."""
    body = ast.parse((ROOT / "src" / "saccade" / "__init__.py").read_text(encoding="utf-8")).body
    values = {
        node.target.id: node.value
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None
    } | {
        node.targets[0].id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return ast.literal_eval(values["PUBLIC"]), ast.literal_eval(values["PUBLIC_MODULES"])
