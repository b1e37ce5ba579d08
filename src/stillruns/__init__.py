"""stillruns: does this GPU still run this model, and if not, which layer stops it?"""

__version__ = "0.1.0"
