"""Configuration of Sphinx: pages in Markdown, the reference from docstrings. `make docs` builds with warnings as errors."""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import gar

project = "gar"
author = "The gar developers"
project_copyright = author
version = release = gar.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "gar"
html_copy_source = False

html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # torch's docstring of forward() does not describe ours
autodoc_default_options = {
    "exclude-members": "extra_repr, get_metadata_routing, set_fit_request, set_predict_request, set_score_request",
}
autodoc_typehints_format = "short"
maximum_signature_line_length = 140
napoleon_numpy_docstring = False

# References to public names of this project must resolve. Names of other packages stay plain text, since the build downloads
# nothing; so do types of inner modules in signatures.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!gar\.).*"), ("py:class", r"gar\.(?:\w+|(?:app|integrations)\.\w+)\.\w+\.\w+")]


def setup(app: Any) -> None:
    """Render formulas as MathML, which browsers draw themselves; the default loads a script from another site."""
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))


def _formula(translator: Any, node: nodes.math | nodes.math_block) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode
