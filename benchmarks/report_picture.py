"""Take docs/images/report.png, the first screen of a report, with Chromium: by default of the demonstration.

make demo && python -m benchmarks.report_picture [REPORT]
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "report.png"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH, HEIGHT = 1280, 1250


def take(report: Path, picture: Path = PICTURE, *, width: int = WIDTH, height: int = HEIGHT, dark: bool = False) -> None:
    """Take a picture of a report's page; with ``dark`` as a system in dark mode shows it."""
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        raise SystemExit(f"none of {', '.join(NAMES)} is installed; install the package 'chromium'")
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        options += ["--blink-settings=preferredColorScheme=0"] if dark else []
        options += [
            f"--window-size={width},{height}",
            f"--screenshot={picture.resolve()}",
            (report / "report.html").resolve().as_uri(),
        ]
        subprocess.run([program, *options], check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    take(Path(*sys.argv[1:2] or ["gar-demo"]))
