"""The catalog of data sets: size, licence, citation, files, and what a reader of results should know."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from typing import Literal

from gar.errors import InputError

Origin = Literal["uci", "yours", "generated", "bundled"]
"""Downloaded from UCI's archive, a file that only you can get, computed here, or part of scikit-learn."""


@dataclass(frozen=True, kw_only=True)
class File:
    """One file of a data set, below the data folder.

    ``sha256`` is that of the public original, where it is known; a download must match it. ``known_copies`` are other files
    with the same table: their checksum, and what differs.
    """

    path: str
    sha256: str | None = None
    other_paths: tuple[str, ...] = ()
    known_copies: Mapping[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """Where the file may be; a download is written to the first."""
        return (self.path, f"{self.path}.gz", *self.other_paths)


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Describes a data set. ``archive`` is the path of its zip file at UCI."""

    name: str
    title: str
    rows: int
    features: int
    targets: tuple[str, ...]
    licence: str
    citation: str
    homepage: str
    origin: Origin
    archive: str | None = None
    files: tuple[File, ...] = ()
    groups: str | None = None
    quirks: tuple[str, ...] = ()


_CC_BY = "CC BY 4.0"
_UCI = "https://archive.ics.uci.edu/dataset"
_PAPER = "Zhu, Yang, Jerby: Gradient Aligned Regression via Pairwise Losses. ICML 2025."
_LEAK = (
    "The 5875 recordings come from 42 people, about 140 each, and a person's score moves slowly. A split by rows puts recordings "
    "of one person into training and test, so it measures how well people are recognised; group_split keeps them apart."
)
_WHOLE = "In the paper, features were standardised with statistics of the whole table, test rows included."
_OTHER_WORKBOOK = "The workbook is another file than UCI's; its values are those of a second copy."
_RECOMPUTED = (
    "The file is a copy of UCI's with five of its 81 columns (number_of_elements, gmean_fie, range_Valence and the two "
    "ThermalConductivity entropies) recomputed from their definitions; on 2127 original rows they agree to 2e-13."
)
_WINE_COUNT = "The paper's text says 4898 rows (the white wines); its authors trained on all 6497, red and white."
_WINE_FILES = (
    File(
        path="wine_quality/winequality-red.csv",
        sha256="4a402cf041b025d4566d954c3b9ba8635a3a8a01e039005d97d6a710278cf05e",
    ),
    File(
        path="wine_quality/winequality-white.csv",
        sha256="76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836",
    ),
)
_WINE = partial(
    DataSet,
    features=11,
    targets=("quality",),
    licence=_CC_BY,
    citation="Cortez, Cerdeira, Almeida, Matos, Reis: Modeling wine preferences by data mining from physicochemical properties. "
    "Decision Support Systems, 2009.",
    homepage=f"{_UCI}/186/wine+quality",
    origin="uci",
    archive="static/public/186/wine+quality.zip",
)
_PARKINSON = partial(
    DataSet,
    rows=5875,
    features=19,
    licence=_CC_BY,
    citation="Tsanas, Little, McSharry, Ramig: Accurate telemonitoring of Parkinson's disease progression by non-invasive speech "
    "tests. IEEE Transactions on Biomedical Engineering, 2010.",
    homepage=f"{_UCI}/189/parkinsons+telemonitoring",
    origin="uci",
    archive="static/public/189/parkinsons+telemonitoring.zip",
    files=(
        File(
            path="parkinsons/parkinsons_updrs.data",
            sha256="f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
        ),
    ),
    groups="subject",
    quirks=(_LEAK, "The number of the subject is no feature, and sex is the last one, as in the authors' file.", _WHOLE),
)
_GDSC = partial(
    DataSet,
    licence="GDSC: non-commercial research",
    citation="Garnett et al.: Systematic identification of genomic markers of drug sensitivity in cancer cells. Nature, 2012.",
    homepage="https://www.cancerrxgene.org",
    origin="yours",
)
_GENERATED = partial(
    DataSet,
    features=1,
    targets=("y",),
    licence="none needed",
    citation=_PAPER,
    homepage="https://proceedings.mlr.press/v267/zhu25x.html",
    origin="generated",
)

_GDSC_DRUGS = (
    *("Etoposide", "Vinorelbine", "NSC-87877", "Midostaurin", "CHIR-99021", "AP-24534", "AZD6482", "JNK-9L", "PF-562271", "DMOG"),
    *("FTI-277", "Shikonin", "AKT inhibitor VIII", "Doxorubicin", "Gemcitabine"),
)

_ALL: tuple[DataSet, ...] = (
    DataSet(
        name="concrete",
        title="Concrete Compressive Strength",
        rows=1030,
        features=8,
        targets=("strength",),
        licence=_CC_BY,
        citation="Yeh: Modeling of strength of high-performance concrete using artificial neural networks. "
        "Cement and Concrete Research, 1998.",
        homepage=f"{_UCI}/165/concrete+compressive+strength",
        origin="uci",
        archive="static/public/165/concrete+compressive+strength.zip",
        files=(
            File(
                path="concrete/Concrete_Data.xls",
                sha256="710076c66b9ca3f8050e7942f3dcbdbe04013534daeb0077ffd3079a52d8e0c4",
                known_copies={"8352d218300fb5dcf992d70362cb762467bf241b76711cd02d7a69d0aa643595": _OTHER_WORKBOOK},
            ),
        ),
        quirks=("The authors' own arrays were made from a table rounded to fewer digits than this workbook.", _WHOLE),
    ),
    _WINE(name="wine", title="Wine Quality (red and white)", rows=6497, files=_WINE_FILES, quirks=(_WINE_COUNT, _WHOLE)),
    _WINE(name="wine-white", title="Wine Quality (white)", rows=4898, files=_WINE_FILES[1:], quirks=(_WINE_COUNT, _WHOLE)),
    _PARKINSON(name="parkinson-total", title="Parkinson (total UPDRS)", targets=("total_UPDRS",)),
    _PARKINSON(name="parkinson-motor", title="Parkinson (motor UPDRS)", targets=("motor_UPDRS",)),
    DataSet(
        name="superconductivity",
        title="Superconductivity",
        rows=21263,
        features=81,
        targets=("critical_temp",),
        licence=_CC_BY,
        citation="Hamidieh: A data-driven statistical model for predicting the critical temperature of a superconductor. "
        "Computational Materials Science, 2018.",
        homepage=f"{_UCI}/464/superconductivty+data",
        origin="uci",
        archive="static/public/464/superconductivty+data.zip",
        files=(
            File(
                path="superconductivity/train.csv",
                sha256="4dfb6e3a1f6ffd969e5a5e42f093c4800d1e2a6c8b1e309f8fcd9f23d86952f3",
                known_copies={"b8b4b7549f0b7af3f2fb2d96285418561638a1c2809afdf2d15f082023814659": _RECOMPUTED},
            ),
        ),
        quirks=(_WHOLE,),
    ),
    _GDSC(
        name="gdsc",
        title="GDSC release 5 (15 most complete drugs)",
        rows=665,
        features=207,
        targets=_GDSC_DRUGS,
        files=(File(path="ic50/gdsc_r5_707lines_types_genes_ic50.csv"),),
        quirks=(
            "GDSC release 5, not the release of 2012 that the paper's IC50 task was made from: numbers are not the paper's.",
            "Targets are the 15 drugs with the fewest gaps (equal ones in the order of the table); lines with a gap are left out.",
        ),
    ),
    _GDSC(
        name="ic50",
        title="IC50 (GDSC, release of 2012)",
        rows=429,
        features=966,
        targets=tuple(f"drug {number}" for number in range(1, 16)),
        files=(File(path="ic50/gdsc_manova_input_w1.csv", other_paths=("ic50/gdsc_manova_input_w2.csv",)),),
        quirks=(
            "Targets are the drugs with at most 28 % gaps; lines with a gap in them are left out. Features are not standardised.",
        ),
    ),
    DataSet(
        name="agedb",
        title="AgeDB",
        rows=16488,
        features=224 * 224 * 3,
        targets=("age",),
        licence="on request from its owners, non-commercial research",
        citation="Moschoglou et al.: AgeDB: the first manually collected, in-the-wild age database. CVPR workshops, 2017.",
        homepage="https://ibug.doc.ic.ac.uk/resources/agedb/",
        origin="yours",
        files=(File(path="agedb/agedb.csv"),),
        quirks=("The list agedb.csv names images in agedb/AgeDB; only their owners can give them to you.",),
    ),
    _GENERATED(
        name="sine",
        title="Sine",
        rows=629,
        quirks=("x from -10 pi to 10 pi in steps of 0.1, y = sin(x); a random half is trained on.",),
    ),
    _GENERATED(
        name="squared-sine",
        title="Squared sine",
        rows=2048,
        quirks=(
            "The paper's text says steps of 0.1, which makes 20480 points; its authors used steps of 1, which makes these 2048.",
        ),
    ),
    DataSet(
        name="diabetes",
        title="Diabetes",
        rows=442,
        features=10,
        targets=("progression",),
        licence="public",
        citation="Efron, Hastie, Johnstone, Tibshirani: Least angle regression. Annals of Statistics, 2004.",
        homepage="https://www4.stat.ncsu.edu/~boos/var.select/diabetes.html",
        origin="bundled",
        quirks=("Part of scikit-learn, features scaled.",),
    ),
)
_BY_NAME = {entry.name: entry for entry in _ALL}


def names() -> list[str]:
    """Return the names of all data sets."""
    return list(_BY_NAME)


def describe(name: str) -> DataSet:
    """Return the description of a data set.

    Example:
        >>> describe("concrete").rows
        1030
    """
    if name not in _BY_NAME:
        near = get_close_matches(str(name), _BY_NAME, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(_BY_NAME)}"
        raise InputError(f"data set {name!r} is unknown; {hint}")
    return _BY_NAME[name]
