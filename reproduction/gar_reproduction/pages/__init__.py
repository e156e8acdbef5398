"""Pages of the reproduction, rendered from records: :func:`gar_reproduction.pages.pages.write_pages`."""
