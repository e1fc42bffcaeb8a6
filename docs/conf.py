"""Configuration of the site: `make docs`.

Sphinx builds OpenDP's documentation too, so readers know the look. It checks references and reads docstrings. Pages are
Markdown, which is also readable without the site.
"""

import importlib
import inspect
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("PLOTLY_RENDERER", "notebook")  # pictures in notebooks contain their own script

project = "opendp-tree"
author = "opendp-tree contributors"
copyright = "opendp-tree contributors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinx_design",
]
exclude_patterns = ["_build", "**.ipynb_checkpoints"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
default_role = "code"
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in docstrings are prose; links between pages are checked
suppress_warnings = ["myst.xref_ambiguous"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "opendp-tree"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {name: [] for name in ("index", "publish", "build", "nightly", "house")}  # pages without subpages
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 1,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

OUTSIDE = {"../README.md": "index.md", "../SECURITY.md": "threat_model.md", "../examples": "examples.md"}
"""Files outside this folder, and the page of the site with the same content."""


def prepare_page(app, name, source):
    """Point links to files outside this folder to pages of the site, and names in the reference to their entries.

    The blank line that ends a doctest is dropped.
    """
    source[0] = source[0].replace("\n\n```\n", "\n```\n")
    for outside, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({outside})", f"]({page})")
    if name.startswith("benchmarks/"):  # wide tables need the room of the right side bar
        source[0] = f"---\nhtml_theme.sidebar_secondary.remove: true\n---\n{source[0]}"
    if name == "reference":
        for module, names in public_names():
            for each in names:
                source[0] = source[0].replace(f"`{each}`", f"{{py:obj}}`{each} <{module}.{each}>`")


def public_names():
    """The public names of the package and of each submodule; a name at the root is not repeated."""
    package = importlib.import_module("opendp_tree")
    modules = [("opendp_tree", package.__all__)]
    for submodule in package._SUBMODULES:
        names = importlib.import_module(f"opendp_tree.{submodule}").__all__
        modules.append((f"opendp_tree.{submodule}", sorted(set(names) - set(package.__all__))))
    return modules


def write_reference(app):
    """Write one page per submodule with one entry per public name, from docstrings."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    (folder / "index.rst").unlink(missing_ok=True)  # of earlier versions
    for module, names in public_names():
        page, text = folder / f"{module}.rst", "\n".join(page_of(module, names))
        if names and not (page.exists() and page.read_text() == text):
            page.write_text(text)


def page_of(path, names):
    """The lines of the page of a module."""
    module = importlib.import_module(path)
    yield from (path, "=" * len(path), "", f".. py:currentmodule:: {path}", "")
    for name in names:
        value = getattr(module, name)
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        yield from (name, "-" * len(name), "", f".. auto{kind}:: {path}.{name}")
        if kind == "class":
            yield from ("   :members:", "   :exclude-members: __init__, __new__")
        yield ""


def link_proofs(app, what, name, value, options, lines):
    """Turn the paths of proof pages in docstrings into links."""
    for number, line in enumerate(lines):
        if "docs/proofs/" in line:
            before, after = line.split("docs/proofs/", 1)
            page, rest = after.split(".md", 1)
            lines[number] = f"{before}:doc:`/proofs/{page}`{rest}"


def add_scripts(app, name, template, context, doctree):
    """Notebooks have pictures, which a script fits to the page."""
    if name.startswith("notebooks/"):
        from opendp_tree.plots.page import FIT_TEXTS

        app.add_js_file(None, body=FIT_TEXTS)
        app.add_js_file("pictures.js")


def write_math(self, node):
    """Write formulas as MathML, which browsers show without a script."""
    from docutils import nodes
    from latex2mathml.converter import convert

    display = "inline" if isinstance(node, nodes.math) else "block"
    self.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app):
    """Register the hooks; Sphinx calls this."""
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("builder-inited", write_reference)
    app.connect("source-read", prepare_page)
    app.connect("html-page-context", add_scripts)
    app.connect("autodoc-process-docstring", link_proofs)
