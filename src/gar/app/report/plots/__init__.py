"""Figures of a comparison: each is described once, as panels with words beside them, and drawn once for files and page."""

from gar.app.report.plots.drawing import Plot, View
from gar.app.report.plots.fits import fits
from gar.app.report.plots.predictions import against_truth, residuals
from gar.app.report.plots.scores import fold_scores, sensitivity
from gar.app.report.plots.training import components, learning


def plots_of(view: View) -> list[Plot]:
    """All figures that the results of a problem allow, in the order of the page."""
    wanted = [
        fold_scores(view),
        fits(view),
        *learning(view),
        *against_truth(view),
        residuals(view),
        components(view),
        sensitivity(view),
    ]
    return [plot for plot in wanted if plot is not None]
