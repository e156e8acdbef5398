"""Pages to files."""

from pathlib import Path

from gar.files import write_whole
from gar_reproduction.pages.blocks import Page, html, markdown
from gar_reproduction.pages.pages import pages

TITLE = "The paper, reproduced"
_INTRODUCTION = (
    "Our numbers beside those of Zhu, Yang and Jerby: *Gradient Aligned Regression via Pairwise Losses* (ICML 2025). "
    "Made by `gar reproduce report` from records alone; what has no record is 'not run'."
)


def write_pages(records: Path, out: Path) -> list[Path]:
    """Markdown pages, one page of HTML and all figures; returns the files. Equal records give equal bytes.

    Args:
        records: folder of digests and timings.
        out: the folder to write to. Figures of an earlier report that are no longer there are removed.
    """
    made = pages(records)
    files = {out / f"{page.name}.md": markdown(page).encode() for page in made}
    files[out / "index.md"] = _index(made).encode()
    files[out / "index.html"] = html(TITLE, made).encode()
    figures = {out / "figures" / f"{figure.name}.png": figure.png for page in made for figure in page.figures}
    (out / "figures").mkdir(parents=True, exist_ok=True)
    for path in set((out / "figures").glob("*.png")) - set(figures):
        path.unlink()
    for path, content in (files | figures).items():
        write_whole(path, content)
    return [*files, *figures]


def _index(made: list[Page]) -> str:
    links = "\n".join(f"- [{page.title}]({page.name}.md)" for page in made)
    return f"# {TITLE}\n\n{_INTRODUCTION}\n\n{links}\n"
