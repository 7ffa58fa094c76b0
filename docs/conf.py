"""Settings of the documentation site, which `make docs-site` builds with Sphinx."""

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

_ROOT = Path(__file__).parents[1]
#: JupyterLab brings this library, so `make setup` has installed it and the site needs no network to draw its diagrams.
_MERMAID = _ROOT / "labextension/node_modules/mermaid/dist/mermaid.min.js"

project = "jupyter-gq"
author = "The jupyter-gq contributors"
release = json.loads((_ROOT / "labextension/package.json").read_text())["version"]

extensions = ["myst_parser", "sphinx_design"]
exclude_patterns = ["_build"]
nitpicky = True

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

html_theme = "pydata_sphinx_theme"
html_title = "jupyter-gq"
html_static_path = ["_static", str(_MERMAID)]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "show_prev_next": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
}
html_context = {"default_mode": "auto"}


class Mermaid(Directive):
    """A diagram in the language of mermaid, which the browser draws."""

    has_content: ClassVar[bool] = True

    def run(self) -> list[nodes.Node]:
        """Return the diagram's source as an element that `_static/diagrams.js` draws."""
        source = nodes.Text("\n".join(self.content)).astext()
        escaped = source.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        node = nodes.raw("", f'<pre class="mermaid">{escaped}</pre>', format="html")
        node["classes"].append("mermaid-source")
        return [node]


def add_diagram_scripts(
    app: Sphinx, _page: str, _template: str, _context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Load the diagram library, which is large, only on pages that have a diagram."""
    if doctree is not None and any("mermaid-source" in node["classes"] for node in doctree.findall(nodes.raw)):
        app.add_js_file(_MERMAID.name, loading_method="defer")
        app.add_js_file("diagrams.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Register the diagram directive with Sphinx."""
    app.add_directive("mermaid", Mermaid)
    app.connect("html-page-context", add_diagram_scripts)
