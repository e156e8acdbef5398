"""Pages of the reproduction, made of records alone: the same records give the same bytes. See :mod:`gar_reproduction.pages.writing`."""
