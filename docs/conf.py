"""Configuration of Sphinx: pages in Markdown, the reference from docstrings. `make docs` builds with warnings as errors."""

import json
import os
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from myst_parser.parsers.sphinx_ import MystParser

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
html_static_path = ["_static"]
html_css_files = ["figures.css"]

html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_inherit_docstrings = False  # torch's docstring of forward() does not describe ours
autodoc_default_options = {
    "exclude-members": "extra_repr, get_metadata_routing, set_fit_request, set_predict_request, set_score_request",
}
autodoc_typehints_format = "short"
os.environ.setdefault("KERAS_BACKEND", "torch")  # by default Keras imports TensorFlow
maximum_signature_line_length = 140
napoleon_numpy_docstring = False

# References to public names of this project must resolve. Names of other packages stay plain text, since the build downloads
# nothing; so do types of inner modules in signatures.
nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!gar\.).*"),
    ("py:class", r"gar\.validation\._\w+"),
    ("py:class", r"gar\.(?:\w+|(?:app|integrations)\.\w+)\.\w+\.\w+"),
]


def setup(app: Any) -> None:
    """Render formulas as MathML, which browsers draw themselves, with no script of another site; read notebooks; mend autodoc."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(Notebook)
    app.add_html_math_renderer("mathml", (_formula, None), (_formula, None))
    app.connect("autodoc-skip-member", _is_plain_field)
    app.connect("autodoc-process-signature", _without_factories)
    app.connect("autodoc-process-docstring", _keep_colon, priority=400)  # before napoleon, at 500


class Notebook(MystParser):
    """A notebook as a page: its cells, and the outputs that are stored with them."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        cells = json.loads(inputstring)["cells"]
        super().parse("\n\n".join(part for cell in cells for part in _cell_as_markdown(cell)), document)


def _cell_as_markdown(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *(_output_as_markdown(output) for output in cell["outputs"])]


def _output_as_markdown(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text'])}```"
    return f'<img alt="A figure drawn by the code above" src="data:image/png;base64,{output["data"]["image/png"].strip()}">'


def _formula(translator: Any, node: nodes.math | nodes.math_block) -> None:
    translator.body.append(tex2mathml(node.astext(), as_block=isinstance(node, nodes.math_block)))
    raise nodes.SkipNode


def _is_plain_field(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Skip fields of a NamedTuple that have no docstring of their own; None leaves the choice to others."""
    return True if (getattr(value, "__doc__", None) or "").startswith("Alias for field number") else None


def _without_factories(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str, str | None] | None:
    """Replace the default of a dataclass's mutable field, which is no Python, so that the signature can be parsed."""
    return None if signature is None else (signature.replace("<factory>", "..."), returns)


def _keep_colon(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Begin with an empty comment: napoleon takes the words before a colon in the first line for the type of an attribute."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]
