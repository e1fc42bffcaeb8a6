"""How the site is built: `make docs`.

Sphinx, because the readers of this package read OpenDP's documentation, which is made with it and has the same look;
because its references are checked, so that a page that names what is not there fails; and because it reads
docstrings. Pages are Markdown, which reads well without a site too.
"""

import importlib
import inspect
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
os.environ.setdefault("PLOTLY_RENDERER", "notebook")  # pictures of notebooks carry what draws them

project = "opendp-tree"
author = "opendp-tree contributors"
copyright = "opendp-tree contributors"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
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
napoleon_google_docstring = False
napoleon_use_rtype = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
default_role = "code"
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]  # types in docstrings are words; links between pages are all checked
suppress_warnings = ["myst.xref_ambiguous"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_title = "opendp-tree"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 1,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

OUTSIDE = {"../README.md": "index.md", "../SECURITY.md": "security.md", "../examples": "examples.md"}
"""What lies beside this folder, and the page of the site that says the same."""


def link_inside(app, name, source):
    """A page links to what lies beside this folder, as readers of the repository expect; the site has pages of it."""
    for outside, page in OUTSIDE.items():
        source[0] = source[0].replace(f"]({outside})", f"]({page})")


def write_reference(app):
    """One page a room, one entry a public name: everything from docstrings."""
    package = importlib.import_module("opendp_tree")
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    rooms = [("opendp_tree", package.__all__)]
    for room in package._SUBMODULES:
        names = importlib.import_module(f"opendp_tree.{room}").__all__
        rooms.append((f"opendp_tree.{room}", sorted(set(names) - set(package.__all__))))
    pages = {f"{room}.rst": "\n".join(page_of(room, names)) for room, names in rooms if names}
    toctree = [f"   {name.removesuffix('.rst')}" for name in pages]
    head = ["Every public name", "=================", "", ".. toctree::", "   :maxdepth: 1", ""]
    pages["index.rst"] = "\n".join([*head, *toctree, ""])
    for name, text in pages.items():
        if not (folder / name).exists() or (folder / name).read_text() != text:
            (folder / name).write_text(text)


def page_of(room, names):
    """The lines of a room's page."""
    module = importlib.import_module(room)
    yield from (room, "=" * len(room), "", f".. py:currentmodule:: {room}", "")
    for name in names:
        value = getattr(module, name)
        kind = "class" if inspect.isclass(value) else "function" if callable(value) else "data"
        yield from (name, "-" * len(name), "", f".. auto{kind}:: {room}.{name}")
        if kind == "class":
            yield from ("   :members:", "   :exclude-members: __init__, __new__")
        yield ""


def head_examples(app, what, name, value, options, lines):
    """An example that follows the parameters without a heading of its own gets one, or it would belong to the last."""
    first = next((number for number, line in enumerate(lines) if line.lstrip().startswith(">>>")), None)
    if first is not None and "Parameters" in lines and "Examples" not in lines:
        lines[first:first] = ["Examples", "--------"]


def link_proofs(app, what, name, value, options, lines):
    """Docstrings name proof pages by their path."""
    for number, line in enumerate(lines):
        if "docs/proofs/" in line:
            before, after = line.split("docs/proofs/", 1)
            page, rest = after.split(".md", 1)
            lines[number] = f"{before}:doc:`/proofs/{page}`{rest}"


def write_math(self, node):
    """Formulas as MathML, which browsers show by themselves: no script from anywhere."""
    from docutils import nodes
    from latex2mathml.converter import convert

    display = "inline" if isinstance(node, nodes.math) else "block"
    self.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode


def setup(app):
    """Sphinx calls this."""
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("builder-inited", write_reference)
    app.connect("source-read", link_inside)
    app.connect("autodoc-process-docstring", head_examples, priority=1)  # before the sections are read
    app.connect("autodoc-process-docstring", link_proofs)
