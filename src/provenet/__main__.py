"""`python -m provenet` is the command line."""

from provenet.cli.app import main

if __name__ == "__main__":
    main()
