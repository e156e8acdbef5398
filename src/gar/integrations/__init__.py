"""Thin doors to other people's trainers: each needs its own library and is imported by its full name."""
