"""`python -m stillruns` is the same program as `stillruns`."""

from stillruns.cli import main

if __name__ == "__main__":
    main()
