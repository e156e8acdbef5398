"""Where GAR pays: losses by table, robustness, and what goes together with gains. Records, and the page docs/when-to-use.md."""
