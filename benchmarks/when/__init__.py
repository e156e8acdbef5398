"""Where GAR pays: losses by table, robustness, and what goes together with gains."""
