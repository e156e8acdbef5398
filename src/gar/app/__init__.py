"""What a person runs: reading tables, comparing losses, reports, saved models and the command line (extra ``app``)."""
