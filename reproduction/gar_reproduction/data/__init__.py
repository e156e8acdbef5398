"""The paper's data sets: ``catalog`` describes, ``files`` finds and downloads, ``loading`` reads and ``splits`` splits them."""
