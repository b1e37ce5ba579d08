"""What `make fuzz` and the short slices in the test suite share: targets, and ways to damage what they read.

A target takes bytes from outside this program. Its promise is the same everywhere: an answer, or one of the errors of
`stillruns.errors`; never another exception, never more than a second a megabyte (with a floor), never a wrong place.
"""
