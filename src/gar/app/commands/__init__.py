"""The commands of ``gar``, one module each: arguments in, a call of the library, words out.

Only click is imported here; whatever is heavy is imported by the command that uses it, so that ``gar --help`` answers at once.
"""
